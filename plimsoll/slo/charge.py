"""Whose account a breach is put on: what would have happened had one side been as usual?

Every breach spends budget, whoever it is charged to. With u the upstream time, o our own, θ the threshold, b our
baseline and v upstream's:

| | θ < v + o: ours alone breaks it | v + o ≤ θ |
|---|---|---|
| u + b ≤ θ | ours | joint: neither alone |
| θ < u + b: theirs alone breaks it | joint: either alone | upstream |

and before all that: v + b > θ is infeasible, the objective cannot be met on an ordinary day.
"""

from plimsoll.slo.verdict import Charge


def charge(
    threshold: float,
    upstream_time: float | None,
    own_time: float,
    baseline: float | None,
    upstream_baseline: float,
    *,
    trusted: bool = True,
    vouched: bool = True,
) -> Charge:
    """The account of one breach of an objective whose clock starts at the user; all times in s.

    `own_time` is inf where we delivered nothing. An upstream time that nobody vouches for, or one that cannot be
    weighed because our own baseline is not known, leaves the breach unlabelled. So does one that is only the tenant's
    word (`vouched` False) where our own time alone would have been good enough: whoever says more must not be able to
    make ours what was no breach.
    """
    if upstream_time is not None and not trusted:
        return Charge.UNLABELLED
    upstream = 0.0 if upstream_time is None else upstream_time
    if baseline is None:
        return Charge.OURS if upstream == 0.0 else Charge.UNLABELLED
    if upstream_baseline + baseline > threshold:
        return Charge.INFEASIBLE
    theirs_breaks = upstream + baseline > threshold
    ours_breaks = upstream_baseline + own_time > threshold
    if ours_breaks and not theirs_breaks:
        return Charge.OURS if vouched or own_time > threshold else Charge.UNLABELLED
    if theirs_breaks and not ours_breaks:
        return Charge.UPSTREAM
    return Charge.JOINT

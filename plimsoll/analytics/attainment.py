"""How much of what was promised was kept: attainment of objectives, and goodput."""

from fractions import Fraction

from msgspec import Struct

from plimsoll.analytics.tally import Judged, Tally
from plimsoll.policy.objective import Objective
from plimsoll.slo.intervals import clopper_pearson


class Attainment(Struct, frozen=True):
    """Good ÷ judged of one objective, with bounds where its events are requests.

    `state` is one of "met", "missed", "no data" and "not judged": too many clients left before the threshold for the
    rest to speak for them.
    """

    ratio: float | None
    low: float | None
    high: float | None
    state: str
    contract_held: bool | None  # None: no contract, or nothing to say
    censored_ratio: float | None  # requests whose client left before the threshold ÷ all that it could have judged


def attainment(judged: Judged, objective: Objective, censored_limit: Fraction) -> Attainment:
    """Exact comparison with the exact target; the tokens of one stream are no independent events, so no bounds."""
    total = judged.num_good + judged.num_bad
    concerned = judged.num_requests + judged.num_censored
    censored_ratio = judged.num_censored / concerned if concerned else None
    if concerned and judged.num_censored > concerned * censored_limit:
        state = "not judged"
    elif not total:
        state = "no data"
    else:
        state = "met" if judged.num_good >= total * objective.target else "missed"
    low, high = (None, None) if objective.counts_tokens or not total else clopper_pearson(judged.num_good, total)
    said = state in {"met", "missed"} and objective.contract is not None
    return Attainment(
        ratio=judged.num_good / total if total else None,
        low=low,
        high=high,
        state=state,
        contract_held=judged.num_good >= total * (objective.contract or 0) if said else None,
        censored_ratio=censored_ratio,
    )


class Goodput(Struct, frozen=True):
    """Requests that met every objective of their tier; refused and expired ones stay in the ratio's denominator."""

    num_met: int
    num_judged: int
    ratio: float | None
    low: float | None
    high: float | None
    per_second: float | None


def goodput(tally: Tally, span: float | None) -> Goodput:
    """`span` in s: the time over which the tally was taken; None or 0: no rate."""
    judged = tally.num_judged
    low, high = clopper_pearson(tally.num_met, judged) if judged else (None, None)
    return Goodput(
        num_met=tally.num_met,
        num_judged=judged,
        ratio=tally.num_met / judged if judged else None,
        low=low,
        high=high,
        per_second=tally.num_met / span if span else None,
    )

"""Which pool is whose first choice, as the policy says and by what was measured: what the governor does, told apart.

One rule decides (`slo/front`). What the governor remembers, so that a pool near a limit does not come and go, is not
known here: there it may differ by a tenth.
"""

from collections.abc import Iterable, Mapping

from plimsoll.policy.matrix import FRONT, TTFT, TierClasses, in_order
from plimsoll.policy.policy import Policy, Pool
from plimsoll.slo import front

Paces = Mapping[str, tuple[float | None, float | None]]
"""By pool: P99 of TTFT from dispatch on and of TPOT, s."""


def serves(policy: Policy, shown: Paces) -> dict[str, tuple[str, ...]]:
    """By pool, the tiers with classes that have a choice and make this one first, while budgets are as usual."""
    found: dict[str, dict[str, None]] = {}
    for tier in policy.tiers:
        if tier.classes is None:
            continue
        for serving in _by_name(policy.pools).values():
            allowed = [pool for pool in serving if in_order(tier.classes.usual, pool.sla_class) >= 0]
            if len(serving) > 1 and allowed:
                found.setdefault(_first(tier.classes, allowed, shown), {})[tier.name] = None
    return {pool: tuple(tiers) for pool, tiers in found.items()}


def small_for(policy: Policy, times: Mapping[str, float | None]) -> dict[str, tuple[str, ...]]:
    """By pool, those whose degraded requests go there first, by measured time a token (s)."""
    if policy.degradation.small_model != FRONT:
        return {}
    found: dict[str, list[str]] = {}
    for own in policy.pools:
        others = [
            front.Candidate(pool.name, pool.quality, times.get(pool.name))
            for pool in policy.pools
            if pool.quality is not None and pool.model != own.model
        ]
        for best in front.smaller(front.Candidate(own.name, 0.0, times.get(own.name)), others)[:1]:
            found.setdefault(best, []).append(own.name)
    return {pool: tuple(names) for pool, names in found.items()}


def _first(classes: TierClasses, allowed: list[Pool], shown: Paces) -> str:
    if classes.within is None:
        return min(allowed, key=lambda pool: in_order(classes.usual, pool.sla_class)).name
    rated = []
    for pool in allowed:
        ttft, tpot = shown.get(pool.name, (None, None))
        time = (pool.built_for if ttft is None else ttft) if classes.p99_of == TTFT else tpot
        rated.append(front.Candidate(pool.name, pool.quality or 0.0, time, front.keeps(time, classes.within)))
    return front.in_order(rated)[0][0]


def _by_name(pools: Iterable[Pool]) -> dict[str, list[Pool]]:
    found: dict[str, list[Pool]] = {}
    for pool in pools:
        for name in dict.fromkeys((pool.model, *pool.aliases, *pool.adapters)):
            found.setdefault(name, []).append(pool)
    return found

"""Reads `pools[].adaptive`: two pools that lend each other replicas, which must be of one kind for that."""

from fractions import Fraction
from typing import Final

from plimsoll.policy.policy import Adaptive, Pool
from plimsoll.policy.section import Section

_ADAPTIVE: Final = Adaptive("", 1)
_ALIKE: Final = ("model", "engine", "profile", "overrides", "predictor", "adapters", "engine_key", "tls")
"""What a replica is; the rest is what a pool does with it."""


def read_adaptive(pool: Section) -> Adaptive | None:
    """How many replicas the pool may have; None where it keeps its own."""
    section = pool.section("adaptive")
    if section is None:
        return None
    for key in ("with", "max"):
        section.required(key)
    rules = Adaptive(
        pool=section.text("with"),
        max=section.whole("max", 1),
        min=section.whole("min", _ADAPTIVE.min),
        dwell=section.duration("dwell", _ADAPTIVE.dwell),
        above=float(section.ratio("above", Fraction(str(_ADAPTIVE.above)), above=Fraction(0))),
    )
    if section.has("max") and rules.min > rules.max:
        section.fault("min", f"{rules.min} is more than max, {rules.max}")
    section.done()
    return rules


def check_sharing(sections: list[Section], pools: tuple[Pool, ...]) -> None:
    """Each pool shares with one other, of replicas that can do for both, and leaves it one at least."""
    by_name = {pool.name: pool for pool in pools}
    taken: dict[str, str] = {}
    for section, pool in zip(sections, pools, strict=True):
        rules, at = pool.adaptive, section.section("adaptive")
        if rules is None or at is None or not rules.pool:
            continue
        other = by_name.get(rules.pool)
        if other is None or other is pool:
            known = ", ".join([name for name in by_name if name != pool.name]) or "none"
            at.fault("with", f"{rules.pool!r} is no other pool", f"there are {known}")
            continue
        for name in (pool.name, other.name):
            if taken.setdefault(name, pool.name) != pool.name:
                at.fault("with", f"pool {name!r} shares its replicas with another already: two share, no more")
        for key in _ALIKE:
            if getattr(pool, key) != getattr(other, key):
                at.fault("with", f"pool {other.name!r} has another {key}: its replicas cannot stand in for these")
        if pool.prefill or other.prefill:
            at.fault("with", "pools with prefill engines apart do not share replicas")
        most = len(pool.replicas) + len(other.replicas) - 1
        if rules.max > most:
            at.fault("max", f"pool {other.name!r} must keep a replica: at most {most}")
        if not rules.min <= len(pool.replicas) <= rules.max:
            at.warn("min", f"the pool begins with {len(pool.replicas)} replicas, which is not within its bounds")

"""Reads which classes of pools a tier may use, and says what of it does not fit together."""

from plimsoll.policy.matrix import TierClasses, columns, in_order
from plimsoll.policy.objective import Sli
from plimsoll.policy.policy import Pool, Tier
from plimsoll.policy.section import Section
from plimsoll.units import format_duration


def read_classes(tier: Section) -> TierClasses | None:
    """Of one tier; None where it says nothing, and may use every pool."""
    section = tier.section("classes")
    if section is None:
        return None
    section.required("usual")
    usual = _names(section, "usual")
    healthy, spent = (_names(section, key) or usual for key in ("healthy", "spent"))
    section.done()
    return TierClasses(usual, healthy, spent) if usual else None


def _names(section: Section, key: str) -> tuple[str, ...]:
    found: list[str] = []
    for name, line in section.texts(key):
        if name in found:
            section.faults.add(section.at(key), line, f"{name} is given twice")
        else:
            found.append(name)
    return tuple(found)


def check_matrix(top: Section, tiers: tuple[Tier, ...], pools: tuple[Pool, ...]) -> None:
    """Every class is some pool's; a tier is told of that may use no pool of a name that several serve, or a slow one.

    One pool's own model is out of reach for those who may not use its class: that is what a matrix is for.
    """
    known = dict.fromkeys(pool.sla_class for pool in pools if pool.sla_class)
    for tier in tiers:
        if tier.classes is None:
            continue
        named = dict.fromkeys(name for _, classes in columns(tier.classes) for name in classes)
        for name in named:
            if name not in known:
                hint = f"known: {', '.join(known)}" if known else "give pools a class: sla_class"
                top.fault("tiers", f"tier {tier.name!r} names class {name!r}, which no pool has", hint)
        if all(name in known for name in named):
            _doubt(top, tier, pools)


def _doubt(top: Section, tier: Tier, pools: tuple[Pool, ...]) -> None:
    by_name: dict[str, list[Pool]] = {}
    for pool in pools:
        for name in (pool.model, *pool.aliases, *pool.adapters):
            by_name.setdefault(name, []).append(pool)
    for model, serving in by_name.items():
        for state, classes in columns(tier.classes) if tier.classes else ():
            if len(serving) > 1 and all(in_order(classes, pool.sla_class) < 0 for pool in serving):
                top.warn(
                    "tiers", f"tier {tier.name!r} may use no pool of {model!r} ({state}): such requests are refused"
                )
    promised = [objective.below for objective in tier.objectives if objective.sli is Sli.TTFT]
    allowed = [pool for pool in pools if tier.classes and in_order(tier.classes.usual, pool.sla_class) >= 0]
    for pool in allowed:
        if promised and pool.built_for is not None and pool.built_for > min(promised):
            told = f"promises {format_duration(min(promised))} and may be sent to pool {pool.name!r}"
            top.warn("tiers", f"tier {tier.name!r} {told}, built for {format_duration(pool.built_for)}")

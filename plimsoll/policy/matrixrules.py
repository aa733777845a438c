"""Reads which classes of pools a tier may use, and says what of it does not fit together."""

from enum import StrEnum

from plimsoll.policy.matrix import TPOT, TTFT, TierClasses, columns, in_order
from plimsoll.policy.objective import Sli
from plimsoll.policy.policy import Pool, Tier
from plimsoll.policy.section import Section
from plimsoll.units import format_duration


class Measured(StrEnum):
    """Which measured time of a pool's a tier's limit is for."""

    TTFT = TTFT
    TPOT = TPOT


def read_classes(tier: Section) -> TierClasses | None:
    """Of one tier; None where it says nothing, and may use every pool."""
    section = tier.section("classes")
    if section is None:
        return None
    within = section.duration("within", None)
    p99_of = section.choice("p99_of", Measured, Measured.TTFT)
    if not section.has("within"):
        section.required("usual")
    usual = _names(section, "usual")
    healthy, spent = (_names(section, key) or usual for key in ("healthy", "spent"))
    section.done()
    if section.has("p99_of") and not section.has("within"):
        section.fault("p99_of", "nothing is compared with it", "give within, for example within: 120ms")
    if not usual and (healthy or spent) and not section.has("usual"):
        section.fault("usual", "missing", "the classes for when budgets are as usual")
    return TierClasses(usual, healthy, spent, within, p99_of.value) if usual or within is not None else None


def _names(section: Section, key: str) -> tuple[str, ...]:
    found: list[str] = []
    for name, line in section.texts(key):
        if name in found:
            section.faults.add(section.at(key), line, f"{name} is given twice")
        else:
            found.append(name)
    if section.has(key) and not section.texts(key):
        section.fault(key, "names no class", "leave it out, or name one that a pool has (pools[].sla_class)")
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
        if tier.classes.within is not None:
            _want_quality(top, tier.name, tier.classes, pools)


def _want_quality(top: Section, tier: str, classes: TierClasses, pools: tuple[Pool, ...]) -> None:
    """The best within a time is the one of highest quality: wherever there is a choice, quality is needed."""
    missing: dict[str, int] = {}
    is_choice = False
    for model, serving in _by_name(pools).items():
        allowed = [pool for pool in serving if any(in_order(c, pool.sla_class) >= 0 for _, c in columns(classes))]
        is_choice = is_choice or len(allowed) > 1
        for pool in allowed if len(allowed) > 1 else ():
            if pool.quality is None and pool.name not in missing:
                missing[pool.name] = pools.index(pool)
                path, why = (
                    f"pools[{pools.index(pool)}].quality",
                    f"missing: tier {tier!r} has {model!r} served by the best",
                )
                top.faults.add(path, top.line_of("pools"), f"{why} within {format_duration(classes.within or 0.0)}")
    if pools and not is_choice:
        top.warn("tiers", f"tier {tier!r} asks for the best pool within a time, and no model has two that it may use")


def _doubt(top: Section, tier: Tier, pools: tuple[Pool, ...]) -> None:
    for model, serving in _by_name(pools).items():
        for state, classes in columns(tier.classes) if tier.classes else ():
            if len(serving) > 1 and all(in_order(classes, pool.sla_class) < 0 for pool in serving):
                top.warn(
                    "tiers", f"tier {tier.name!r} may use no pool of {model!r} ({state}): such requests are refused"
                )
    if tier.classes is not None and tier.classes.within is not None:
        return  # it goes by what was measured, and to slow ones last
    promised = [objective.below for objective in tier.objectives if objective.sli is Sli.TTFT]
    allowed = [pool for pool in pools if tier.classes and in_order(tier.classes.usual, pool.sla_class) >= 0]
    for pool in allowed:
        if promised and pool.built_for is not None and pool.built_for > min(promised):
            told = f"promises {format_duration(min(promised))} and may be sent to pool {pool.name!r}"
            top.warn("tiers", f"tier {tier.name!r} {told}, built for {format_duration(pool.built_for)}")


def _by_name(pools: tuple[Pool, ...]) -> dict[str, list[Pool]]:
    found: dict[str, list[Pool]] = {}
    for pool in pools:
        for name in dict.fromkeys((pool.model, *pool.aliases, *pool.adapters)):
            found.setdefault(name, []).append(pool)
    return found

"""The matrix of tiers and classes of pools: which ones a tier may use, in which order, by its tenant's budgets."""

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.policy.section import Section


class TierClasses(Struct, frozen=True):
    """Classes of pools, the one to try first first."""

    usual: tuple[str, ...]
    healthy: tuple[str, ...]  # while every budget of the tenant is healthy
    spent: tuple[str, ...]  # while one of them calls for action


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


def in_order(classes: tuple[str, ...], pool_class: str) -> int:
    """The place of a pool's class in that order; one without a class comes last, one that is not named has none: -1."""
    if not pool_class:
        return len(classes)
    return classes.index(pool_class) if pool_class in classes else -1


def columns(classes: TierClasses) -> Iterable[tuple[str, tuple[str, ...]]]:
    """State of the budgets, and the classes then."""
    return (("usual", classes.usual), ("healthy", classes.healthy), ("spent", classes.spent))

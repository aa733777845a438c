"""The matrix of tiers and classes of pools: which ones a tier may use, in which order, by its tenant's budgets."""

from collections.abc import Iterable

from msgspec import Struct


class TierClasses(Struct, frozen=True):
    """Classes of pools, the one to try first first."""

    usual: tuple[str, ...]
    healthy: tuple[str, ...]  # while every budget of the tenant is healthy
    spent: tuple[str, ...]  # while one of them calls for action


def in_order(classes: tuple[str, ...], pool_class: str) -> int:
    """The place of a pool's class in that order; one without a class comes last, one that is not named has none: -1."""
    if not pool_class:
        return len(classes)
    return classes.index(pool_class) if pool_class in classes else -1


def columns(classes: TierClasses) -> Iterable[tuple[str, tuple[str, ...]]]:
    """State of the budgets, and the classes then."""
    return (("usual", classes.usual), ("healthy", classes.healthy), ("spent", classes.spent))

"""The matrix of tiers and classes of pools: which ones a tier may use, in which order, by its tenant's budgets."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

TTFT: Final = "ttft"
TPOT: Final = "tpot"

TARGET: Final = "target"
"""The ladder's small model: a pool that the policy names (degrade_target) …"""
FRONT: Final = "front"
"""… or the best of the pools that are measured to be quicker."""


class TierClasses(Struct, frozen=True):
    """Classes of pools, the one to try first first; (): every pool, which needs `within`."""

    usual: tuple[str, ...]
    healthy: tuple[str, ...]  # while every budget of the tenant is healthy
    spent: tuple[str, ...]  # while one of them calls for action
    within: float | None = None  # s: of their pools the best that is measured to be so quick; None: in that order
    p99_of: str = TTFT  # … which of their times: TTFT (from dispatch on) or TPOT


def in_order(classes: tuple[str, ...], pool_class: str) -> int:
    """The place of a pool's class in that order; one without a class comes last, one that is not named has none: -1."""
    if not pool_class or not classes:
        return len(classes)
    return classes.index(pool_class) if pool_class in classes else -1


def columns(classes: TierClasses) -> Iterable[tuple[str, tuple[str, ...]]]:
    """State of the budgets, and the classes then."""
    return (("usual", classes.usual), ("healthy", classes.healthy), ("spent", classes.spent))

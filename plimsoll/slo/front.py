"""Which of several pools is best for whom: one rule for those who choose and who show.

Among pools that are quick enough the one of highest quality, and of equal quality the quickest. No pool beats that
one (is as good and as quick, and better in one of both): it lies on the front between quality and that time.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from msgspec import Struct

MARGIN: Final = 0.1
"""A limit that was kept is kept until it is exceeded by that share; one that was not, from that share below it on."""


class Candidate(Struct, frozen=True, gc=False):
    """One pool. `time` in s, in whatever it is compared; None: not known."""

    name: str
    quality: float
    time: float | None
    keeps: bool | None = None  # a limit on that time; None: not known


def keeps(time: float | None, limit: float, *, before: bool | None = None) -> bool | None:
    """Whether that time keeps the limit (both in s), as it did `before` or not; None where it is not known."""
    if time is None:
        return None
    if before is None:
        return time <= limit
    return time <= limit * (1.0 + MARGIN if before else 1.0 - MARGIN)


def in_order(pools: Sequence[Candidate]) -> list[list[str]]:
    """Their names, the best first, in groups between which time decides nothing: those that keep the limit by quality,
    then those of which it is not known by quality, then the others from the quickest on."""
    groups: dict[tuple[int, float], list[Candidate]] = {}
    for pool in pools:
        slow = pool.keeps is False
        place = (1 if pool.keeps is None else 2 if slow else 0, _time(pool) if slow else -pool.quality)
        groups.setdefault(place, []).append(pool)
    return [[pool.name for pool in sorted(groups[place], key=_time)] for place in sorted(groups)]


def smaller(own: Candidate, others: Iterable[Candidate], before: frozenset[str] = frozenset()) -> list[str]:
    """Those that are quicker than it, the best first: where what it was not quick enough for may go.

    A tenth quicker at least; those that were so `before` stay as long as they are quicker at all.
    """
    if own.time is None:
        return []
    quick = [
        other
        for other in others
        if other.name != own.name
        and other.time is not None
        and other.time < own.time * (1.0 if other.name in before else 1.0 - MARGIN)
    ]
    return [pool.name for pool in sorted(quick, key=lambda pool: (-pool.quality, _time(pool)))]


def beaten_by(own: Candidate, others: Iterable[Candidate]) -> tuple[str, ...] | None:
    """Who is as good and as quick, and better in one of both; none: it is on the front. None where it is not known."""
    if own.time is None:
        return None
    return tuple(
        [
            other.name
            for other in others
            if other.time is not None
            and other.quality >= own.quality
            and other.time <= own.time
            and (other.quality > own.quality or other.time < own.time)
        ]
    )


def _time(pool: Candidate) -> float:
    return inf if pool.time is None else pool.time

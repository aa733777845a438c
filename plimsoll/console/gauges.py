"""Load now against safe load, by pool and tier: the marks of the first page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.analytics.safeload import SafeLoad, safe_load
from plimsoll.console.logreading import Day, MinuteLoad
from plimsoll.console.plots import Gauge
from plimsoll.policy.policy import Policy

RECENT: Final = 5
"""Minutes that "now" means for a load, of recorded logs too."""
ENOUGH: Final = 20
"""Requests of a tier in them for their mix to be taken; else that of the window."""


class TierSafe(Struct, frozen=True):
    """The safe load of a pool for one tier, in tokens a second of the whole pool; of its strictest objective."""

    pool: str
    tier: str
    objective: str
    safe: SafeLoad


class GaugeRow(Struct, frozen=True):
    """One mark: a tier in a pool. `share` is load ÷ safe load."""

    pool: str
    tier: str
    gauge: Gauge
    share: float | None
    objective: str
    num: int  # requests in the window
    num_minutes: int  # on which the safe load rests
    waiting: int | None  # now; None: no gateway says


def safe_loads(day: Day, policy: Policy) -> tuple[TierSafe, ...]:
    """For each pool and tier that was judged, the objective that broke first; else the one with most minutes."""
    load: dict[tuple[str, int], float] = defaultdict(float)
    for each in day.loads:
        load[each.pool, each.minute] += each.tokens / 60.0
    targets = {(tier.name, each.name): float(1 - each.target) for tier in policy.tiers for each in tier.objectives}
    minutes: dict[tuple[str, str, str], list[tuple[int, float, int, int]]] = defaultdict(list)
    for judged in day.judged:
        if (judged.tier, judged.objective) in targets:
            tokens = load.get((judged.owner, judged.minute), 0.0)
            row = (judged.minute, tokens, judged.good + judged.bad, judged.bad)
            minutes[judged.owner, judged.tier, judged.objective].append(row)
    best: dict[tuple[str, str], TierSafe] = {}
    for (pool, tier, objective), rows in sorted(minutes.items()):
        columns = np.array(sorted(rows), np.float64).T
        found = TierSafe(pool, tier, objective, safe_load(columns[1], columns[2], columns[3], targets[tier, objective]))
        if (pool, tier) not in best or _strictness(found) < _strictness(best[pool, tier]):
            best[pool, tier] = found
    return tuple(best.values())


def _strictness(found: TierSafe) -> tuple[int, float]:
    safe = found.safe
    if safe.below is not None:
        return 0, safe.below
    if safe.value is not None:
        return 1, safe.value
    return (2, -(safe.above or 0.0)) if safe.above is not None else (3, -float(safe.num_minutes))


def gauge_rows(
    loads: Iterable[MinuteLoad],
    safes: Iterable[TierSafe],
    policy: Policy,
    until: float,
    waiting: Mapping[tuple[str, str], int] | None = None,
) -> tuple[GaugeRow, ...]:
    """Every pool and tier with traffic in the window, in the policy's order."""
    known = {(each.pool, each.tier): each.safe for each in safes}
    strictest = {(each.pool, each.tier): each.objective for each in safes}
    traffic = _traffic(loads, int(until // 60) - RECENT)
    span = max(60.0, until - (until // 60 - RECENT) * 60.0)
    rows = []
    for key in [(pool.name, tier.name) for pool in policy.pools for tier in policy.tiers]:
        tier, whole = traffic.get(key), traffic.get((key[0], ""))
        if tier is None or whole is None:
            continue
        found = known.get(key, SafeLoad(0))
        gauge = _gauge(tier.recent / span, tier.peak / 60.0, _mix(tier, whole), found)
        line = gauge.safe or gauge.below
        share = gauge.load / line if line and gauge.load is not None else None
        num_waiting = None if waiting is None else waiting.get(key, 0)
        rows.append(GaugeRow(*key, gauge, share, strictest.get(key, ""), tier.num, found.num_minutes, num_waiting))
    return tuple(rows)


class _Traffic:
    """Of a tier in a pool, or of all of its tiers."""

    def __init__(self) -> None:
        self.num = self.tokens = self.recent = self.recent_tokens = 0
        self.by_minute: Counter[int] = Counter()

    @property
    def peak(self) -> int:
        """Requests of the busiest minute."""
        return max(self.by_minute.values())


def _traffic(loads: Iterable[MinuteLoad], first: int) -> dict[tuple[str, str], _Traffic]:
    """By pool and tier ("": all of them); `first` is the first minute that is of late."""
    found: defaultdict[tuple[str, str], _Traffic] = defaultdict(_Traffic)
    for each in loads:
        for tier in (each.tier, ""):
            traffic = found[each.pool, tier]
            traffic.num += each.num
            traffic.tokens += each.tokens
            traffic.by_minute[each.minute] += each.num
            if each.minute >= first:
                traffic.recent += each.num
                traffic.recent_tokens += each.tokens
    return found


def _mix(tier: _Traffic, whole: _Traffic) -> float:
    """Requests of the tier a token of the pool: of late, or where those are few, of the window."""
    if tier.recent >= ENOUGH and whole.recent_tokens:
        return tier.recent / whole.recent_tokens
    return tier.num / whole.tokens if whole.tokens else 0.0


def _gauge(load: float, peak: float, mix: float, found: SafeLoad) -> Gauge:
    """Tokens a second of the pool as requests a second of the tier."""

    def requests(tokens: float | None) -> float | None:
        return None if tokens is None or not mix else tokens * mix

    return Gauge(
        load=load,
        safe=requests(found.value),
        low=requests(found.low),
        high=requests(found.high),
        above=requests(found.above),
        below=requests(found.below),
        peak=peak,
    )

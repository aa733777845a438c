"""Adds up what replicas streamed by hour from rows as they come; `storage/capabilities` makes the same of a log by SQL.

A test holds the two to one result.
"""

from collections import defaultdict
from math import floor, log2
from typing import Final

from plimsoll.analytics.capability import Hour
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.steadiness import STALL
from plimsoll.slo.timing import bucket_of

_HOUR: Final = 3600.0
_STALL_BUCKET: Final = bucket_of(STALL)


class _Sums:
    def __init__(self) -> None:
        self.num = self.tokens = self.gaps = self.stalls = 0
        self.time = 0.0
        self.paces: dict[int, int] = defaultdict(int)
        self.firsts: dict[int, int] = defaultdict(int)


class HourTally:
    """Streams of two tokens and more, by hour, pool, model, replica and load."""

    def __init__(self) -> None:
        self._sums: dict[tuple[float, str, str, str, int], _Sums] = defaultdict(_Sums)

    def add(self, row: Record) -> None:
        """A request ended."""
        if not row.replica or row.tpot is None or (row.output_tokens or 0) < 2:
            return
        running = row.report_running
        load = -1 if running is None else floor(log2(running + 1))
        from_at = row.finished_at // _HOUR * _HOUR
        sums = self._sums[from_at, row.pool or "", row.model, row.replica, load]
        tokens = row.output_tokens - 1
        sums.num += 1
        sums.tokens += tokens
        sums.time += row.tpot * tokens
        for sketch in row.itl_sketches or ():
            sums.gaps += sketch.num_zero + sum(sketch.buckets.values())
            sums.stalls += _stalls(sketch)
        if row.tpot > 0.0:
            sums.paces[bucket_of(row.tpot)] += 1
        if row.dispatched_at is not None and row.first_token_at is not None and row.first_token_at > row.dispatched_at:
            sums.firsts[bucket_of(row.first_token_at - row.dispatched_at)] += 1

    def hours(self, since: float, until: float) -> list[Hour]:
        """Of the hours in [since, until), in their order; older ones are forgotten."""
        for key in [key for key in self._sums if key[0] < since]:
            del self._sums[key]
        return [
            Hour(*key, sums.num, sums.tokens, sums.time, sums.gaps, sums.stalls, dict(sums.paces), dict(sums.firsts))
            for key, sums in sorted(self._sums.items())
            if key[0] < until
        ]


def _stalls(sketch: ItlSketch) -> int:
    return sum([num for bucket, num in sketch.buckets.items() if bucket > _STALL_BUCKET])

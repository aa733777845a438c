"""A native histogram's sample in protobuf (io.prometheus.client.Metric), kept so that only what moved is encoded again.

Our log buckets are those of a native histogram of schema 5, so they go out as they are counted: no bound is chosen and
none is lost. On the wire stand the runs of successive buckets ("spans"), then each bucket's count less that of the one
before ("deltas"): a value moves two deltas, and spans only where it fills a bucket for the first time.
Source: prometheus/client_model, io/prometheus/client/metrics.proto.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import sub
from typing import Final

from plimsoll.telemetry.owners import Histogram
from plimsoll.telemetry.protowire import MOST_KEPT, double, integer, message, pack_double, tag, varint, zigzag

SCHEMA: Final = 5  # buckets an octave: 2^5
_ONE: Final = 8  # what following one bucket by itself costs, as a multiple of one among all of them
_ALL: Final = 6  # and one among all, where spans too are made anew


class NativeTimes:
    """One series (`exposition.Times`)."""

    def __init__(self, labels: bytes) -> None:
        """`labels`: the metric's, encoded."""
        self._labels = labels + tag(7, 2)  # and the histogram's
        self._num_taken = -1
        self._order: list[int] = []  # indices of all buckets
        self._deltas: list[bytes] = []  # one for each
        self._starts: list[int] = []  # of spans: first indices,
        self._ends: list[int] = []  # and those behind the last
        self._spans = [_SPANS[0, 0]]  # if an empty one: it says that this is a native histogram

    def written(self, told: Histogram) -> bytes:
        """See `Times`."""
        if told.is_empty:
            return b""
        self._follow(told)
        head = _NUM + varint(told.num) + _SUM + pack_double(told.total) + _SCHEMA + varint(told.num_zero)
        body = b"".join((head, *self._spans, *self._deltas))
        before = self._labels + varint(len(body))
        return b"".join((_METRIC, varint(len(before) + len(body)), before, body))

    def _follow(self, told: Histogram) -> None:
        buckets, moved = told.buckets, told.moved
        is_next = told.num_taken == self._num_taken + 1  # else another format's page took up what moved
        self._num_taken = told.num_taken
        cost_of_all = len(self._order) * (1 if len(self._order) == len(buckets) else _ALL)
        if is_next and len(moved) * _ONE < cost_of_all:
            self._move(buckets, moved)
        else:
            self._begin(buckets)

    def _begin(self, buckets: dict[int, int]) -> None:
        """All buckets anew."""
        if len(buckets) != len(self._order):
            self._order = sorted(buckets)
            breaks = [(last + 1, first) for last, first in pairwise(self._order) if first != last + 1]
            self._starts = [*self._order[:1], *[first for _, first in breaks]]
            self._ends = [*[end for end, _ in breaks], *[last + 1 for last in self._order[-1:]]]
            steps = map(sub, self._starts, (0, *self._ends[:-1]))
            lengths = map(sub, self._ends, self._starts)
            self._spans = [_SPANS[each] for each in zip(steps, lengths, strict=True)]
        counts = [*map(buckets.__getitem__, self._order)]
        self._deltas = [*map(_DELTAS.__getitem__, map(sub, counts, (0, *counts)))]

    def _move(self, buckets: dict[int, int], moved: Iterable[int]) -> None:
        """These, some of them perhaps new, and each one's neighbour above."""
        order, deltas = self._order, self._deltas
        for index in moved:
            place = bisect_left(order, index)
            if place == len(order) or order[place] != index:
                order.insert(place, index)
                deltas.insert(place, b"")
                self._span(index)
            count = buckets[index]
            deltas[place] = _DELTAS[count - buckets[order[place - 1]] if place else count]
            if place + 1 < len(order):
                deltas[place + 1] = _DELTAS[buckets[order[place + 1]] - count]

    def _span(self, index: int) -> None:
        """A bucket filled for the first time: it lengthens a span, joins two, or is one."""
        starts, ends, spans = self._starts, self._ends, self._spans
        place = bisect_right(starts, index)
        follows = place > 0 and ends[place - 1] == index
        leads = place < len(starts) and starts[place] == index + 1
        if follows and leads:
            ends[place - 1] = ends[place]
            del starts[place], ends[place], spans[place]
        elif follows:
            ends[place - 1] = index + 1
        elif leads:
            starts[place] = index
        else:
            starts.insert(place, index)
            ends.insert(place, index + 1)
            spans.insert(place, b"")
        for each in range(max(0, place - 1), min(place + 2, len(starts))):
            spans[each] = _SPANS[starts[each] - (ends[each - 1] if each else 0), ends[each] - starts[each]]


class _Spans(dict[tuple[int, int], bytes]):
    """A span's field by its distance from the one before and its length, kept."""

    def __missing__(self, span: tuple[int, int]) -> bytes:
        distance, length = span
        made = message(12, integer(1, zigzag(distance)) + integer(2, length))
        if len(self) < MOST_KEPT:
            self[span] = made
        return made


class _Deltas(dict[int, bytes]):
    """A delta's field by its value, likewise."""

    def __missing__(self, delta: int) -> bytes:
        made = integer(13, zigzag(delta))
        if len(self) < MOST_KEPT:
            self[delta] = made
        return made


_SPANS: Final = _Spans()
_DELTAS: Final = _Deltas()
_METRIC: Final = tag(4, 2)
_NUM: Final = tag(1, 0)
_SUM: Final = tag(2, 1)
_SCHEMA: Final = integer(5, zigzag(SCHEMA)) + double(6, 0.0) + tag(7, 0)  # zeros follow

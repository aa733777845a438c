"""Counts by log bucket as one array: values are sorted into it by the chunk, and two are merged by one addition."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.slo.timing import BUCKETS_PER_OCTAVE, bucket_of

Ints = NDArray[np.int64]

_CELL_BITS: Final = 11
"""An octave's mantissas are cut into 2,048 cells: the values of most cells share a bucket, so cells are counted."""
_SHIFT: Final = 52 - _CELL_BITS
_CELLS: Final = 1 << _CELL_BITS
_INFINITE: Final = 0x7FF << 52
_MOST_CELLS: Final = 1 << 18  # 128 octaves
_CHUNK: Final = 1 << 17
_SLACK: Final = 32
_NEAR: Final = 1e-9


class Buckets:
    """Counts of positive values by bucket index, from `low` on."""

    __slots__ = ("counts", "low")

    def __init__(self) -> None:
        self.low = 0
        self.counts: Ints = np.zeros(0, np.int64)

    def add(self, index: int, num: int = 1) -> None:
        """So many values of one bucket."""
        place = index - self.low
        if not 0 <= place < self.counts.size:
            self._widen(index, index + 1)
            place = index - self.low
        self.counts[place] += num

    def add_all(self, counts: Iterable[tuple[int, int]]) -> None:
        """Counts by bucket."""
        for index, num in counts:
            self.add(index, num)

    def add_values(self, values: NDArray[np.float64]) -> int:
        """Values at once; how many of them are 0. ValueError for what is negative, infinite or NaN."""
        num_zero, low, counts = binned(values)
        if counts.size:
            self._add(low, counts)
        return num_zero

    def merge(self, other: "Buckets") -> None:
        """The other's counts."""
        if other.counts.size:
            self._add(other.low, other.counts)

    def items(self) -> Iterator[tuple[int, int]]:
        """(bucket, count) in ascending order, without empty ones."""
        places = np.flatnonzero(self.counts)
        return zip((places + self.low).tolist(), self.counts[places].tolist(), strict=True)

    def num_above(self, index: int) -> int:
        """How many lie in buckets beyond that one."""
        return int(self.counts[max(0, index + 1 - self.low) :].sum())

    def index_at(self, ranks: Iterable[int]) -> list[int]:
        """The buckets in which the values of these ranks (from 1) lie."""
        found = np.searchsorted(np.cumsum(self.counts), np.fromiter(ranks, np.int64))
        indexes: list[int] = (found + self.low).tolist()
        return indexes

    def _add(self, low: int, counts: Ints) -> None:
        place = low - self.low
        end = place + counts.size
        if place < 0 or end > self.counts.size:
            self._widen(low, low + counts.size)
            place = low - self.low
            end = place + counts.size
        self.counts[place:end] += counts

    def _widen(self, low: int, high: int) -> None:
        """Make room for the buckets [low, high), and for some around them."""
        held = self.counts.size
        begin = low - _SLACK if held == 0 else min(self.low, low - _SLACK if low < self.low else self.low)
        end = high + _SLACK if held == 0 else max(self.low + held, high + _SLACK if high > self.low + held else 0)
        wider = np.zeros(end - begin, np.int64)
        wider[self.low - begin : self.low - begin + held] = self.counts
        self.low, self.counts = begin, wider


def binned(values: NDArray[np.float64]) -> tuple[int, int, Ints]:
    """(zeros, lowest bucket, counts from it on) of values at once, each in the very bucket that `bucket_of` gives it.

    ValueError for what is negative, infinite or NaN.
    """
    if not values.size:
        return 0, 0, np.zeros(0, np.int64)
    bits = np.ascontiguousarray(values).view(np.int64)
    low, high = int(bits.min()), int(bits.max())
    if low < 0 or high >= _INFINITE:
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise ValueError("a sketch holds finite values >= 0")
        return binned(values + 0.0)  # -0.0 is 0
    if low == 0:
        kept = values[bits != 0]
        zeros = values.size - kept.size
        return (zeros, *binned(kept)[1:])
    first, last = low >> _SHIFT, high >> _SHIFT
    if first < _CELLS or last - first >= _MOST_CELLS:  # subnormal, or spread wider than any latency
        return (0, *_counted(_indexes(values)))
    return (0, *_by_cells(values, bits, first, last))


def _by_cells(values: NDArray[np.float64], bits: Ints, first: int, last: int) -> tuple[int, Ints]:
    span = np.arange(first, last + 1)
    hard = _HARD[span & (_CELLS - 1)]
    cells = np.zeros(span.size, np.int64)
    torn: list[NDArray[np.float64]] = []
    for begin in range(0, bits.size, _CHUNK):
        keys = (bits[begin : begin + _CHUNK] >> _SHIFT) - first
        cells += np.bincount(keys, minlength=span.size)
        torn.append(values[begin : begin + _CHUNK][hard[keys]])
    cells[hard] = 0
    indexes = ((span >> _CELL_BITS) - 1023) * BUCKETS_PER_OCTAVE + _PLACE[span & (_CELLS - 1)]
    others = _indexes(np.concatenate(torn))
    low = min(int(indexes[0]), int(others.min(initial=indexes[0])))
    counts = np.bincount(indexes - low, weights=cells).astype(np.int64)
    at_edges = np.bincount(others - low, minlength=counts.size)
    at_edges[: counts.size] += counts
    return low, at_edges


def _indexes(values: NDArray[np.float64]) -> Ints:
    scaled = np.log2(values) * BUCKETS_PER_OCTAVE
    indexes: Ints = np.ceil(scaled).astype(np.int64)
    # numpy's logarithm may differ in its last digit from the one that counts single values
    for i in np.flatnonzero(np.abs(scaled - np.rint(scaled)) < _NEAR):
        indexes[i] = bucket_of(float(values[i]))
    return indexes


def _counted(indexes: Ints) -> tuple[int, Ints]:
    low = int(indexes.min())
    return low, np.bincount(indexes - low).astype(np.int64)


def _cells() -> tuple[NDArray[np.bool_], Ints]:
    """Of each cell of an octave: whether a bucket ends within it (or too near to it), and its bucket in the octave."""
    edges: Any = np.log2(1.0 + np.arange(_CELLS + 1) / _CELLS) * BUCKETS_PER_OCTAVE
    low, high = edges[:-1], edges[1:]
    return np.ceil(low + _NEAR) != np.ceil(high - _NEAR), np.ceil(low + _NEAR).astype(np.int64)


_HARD, _PLACE = _cells()
_HARD[0] = _HARD[-1] = True  # an octave's own edges

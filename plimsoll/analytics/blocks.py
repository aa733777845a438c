"""One log cut into blocks of time, each summed up, so that whole blocks can be drawn anew: a block bootstrap.

Requests of one busy minute are slow together; drawing minutes instead of requests keeps that. Latencies are kept as
logarithmic histograms, so that a quantile of any drawing is a sum and a look.
"""

from collections.abc import Iterable
from math import log2
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analytics.tally import Promises, latency_of, met
from plimsoll.requestlog.record import Record

LATENCIES: Final = ("ttft", "tpot", "e2e")
LEVELS: Final = (0.5, 0.95, 0.99)
_SHORTEST: Final = 1e-6  # s
_STEPS: Final = 32  # buckets a doubling: 2.2 % each, interpolated within
_BUCKETS: Final = 1100  # up to some 10^4 s; the last holds waits whose value never came
Group = tuple[str, str, str]
"""kind ("all", "tier", "tenant"), name, tier."""


class Blocks:
    """Counts of one log by block. `begin` and `end` (UTC epoch s) bound the arrivals that are looked at."""

    def __init__(self, num_blocks: int, begin: float, end: float) -> None:
        self.num_blocks = num_blocks
        self._begin = begin
        self._length = max(end - begin, 1e-9) / num_blocks
        self._values: dict[tuple[Group, str], NDArray[np.int64]] = {}
        self._ratios: dict[tuple[Group, str], NDArray[np.int64]] = {}

    def add(self, records: Iterable[Record], promises: Promises) -> None:
        """All records that arrived within the bounds; others are passed over."""
        for record in records:
            block = int((record.arrived_at - self._begin) // self._length)
            if 0 <= block < self.num_blocks:
                groups = (
                    ("all", "all", ""),
                    ("tier", record.tier, record.tier),
                    ("tenant", record.tenant, record.tier),
                )
                self._add(groups, block, record, promises)

    def _add(self, groups: tuple[Group, ...], block: int, record: Record, promises: Promises) -> None:
        for name in LATENCIES:
            value, cut_off = latency_of(record, name)
            if value is not None:
                bucket = _BUCKETS if cut_off else _bucket(value)
                for group in groups:
                    self._histogram(group, name)[block, bucket] += 1
        judged = [verdict for verdict in record.verdicts if verdict.num_good + verdict.num_bad]
        if judged:
            good = int(met(record, promises))
            for group in groups:
                self._count(group, "goodput_ratio", block, good, 1)
        for verdict in judged:
            name, num = f"attainment:{verdict.objective}", verdict.num_good + verdict.num_bad
            for group in groups:
                if group[0] != "all":
                    self._count(group, name, block, verdict.num_good, num)

    def _histogram(self, group: Group, name: str) -> NDArray[np.int64]:
        found = self._values.get((group, name))
        if found is None:
            found = self._values[group, name] = np.zeros((self.num_blocks, _BUCKETS + 1), dtype=np.int64)
        return found

    def _count(self, group: Group, name: str, block: int, good: int, num: int) -> None:
        found = self._ratios.get((group, name))
        if found is None:
            found = self._ratios[group, name] = np.zeros((self.num_blocks, 2), dtype=np.int64)
        found[block, 0] += good
        found[block, 1] += num

    def figures(self) -> list[tuple[Group, str]]:
        """Whose figures it can tell, by name: ttft_p99, goodput_ratio, attainment:ttft."""
        quantiles = [(group, f"{name}_p{100 * q:g}") for group, name in self._values for q in LEVELS]
        return quantiles + list(self._ratios)

    def num(self, group: Group, figure: str) -> int:
        """How many values (or judged events) a figure rests on."""
        ratio = self._ratios.get((group, figure))
        if ratio is not None:
            return int(ratio[:, 1].sum())
        values = self._values.get((group, figure.partition("_p")[0]))
        return 0 if values is None else int(values.sum())

    def drawn(self, group: Group, figure: str, draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """The figure for each row of `draws`, which says how often each block is taken; NaN where there is none."""
        ratio = self._ratios.get((group, figure))
        if ratio is not None:
            sums = draws @ ratio
            with np.errstate(invalid="ignore"):
                return np.asarray(sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan))
        name, _, level = figure.partition("_p")
        values = self._values.get((group, name))
        if values is None:
            return np.full(len(draws), np.nan)
        return _quantile(draws @ values, float(level) / 100.0)


def _bucket(value: float) -> int:
    return min(_BUCKETS - 1, max(0, int(_STEPS * log2(max(value, _SHORTEST) / _SHORTEST))))


def _quantile(counts: NDArray[np.int64], q: float) -> NDArray[np.float64]:
    """By row: the value that a share of q do not exceed, interpolated; inf where its value never came."""
    grown = np.cumsum(counts, axis=1)
    wanted = q * grown[:, -1]
    bucket = np.argmax(grown >= np.maximum(wanted, 1e-9)[:, None], axis=1)
    rows = np.arange(len(counts))
    inside = counts[rows, bucket]
    before = grown[rows, bucket] - inside
    part = np.where(inside > 0, (wanted - before) / np.maximum(inside, 1), 0.0)
    value = _SHORTEST * 2.0 ** ((bucket + part) / _STEPS)
    value[bucket == _BUCKETS] = np.inf
    value[grown[:, -1] == 0] = np.nan
    return np.asarray(value, dtype=np.float64)

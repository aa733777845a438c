"""Adds up what replicas report into one row a replica and window (`requestlog/enginestate.py`), live and simulated."""

from collections.abc import Sequence
from math import floor
from typing import Any, Final

import msgspec

from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    WINDOW,
    EngineState,
    ReplicaWindow,
    grown,
    histogram_grown,
    histograms_added,
)

_SILENT: Final = EngineState()
_BALANCE: Final = ("balance_total", "balance_looks")


class StateWindows:
    """All replicas. `add` returns the rows of a window once a report lies beyond it; `close` those that are open."""

    def __init__(self, every: float = WINDOW) -> None:
        self._every = every
        self._number: int | None = None  # of the window that is open
        self._open: dict[str, _Window] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def add(self, at: float, reports: Sequence[ReplicaReport]) -> list[ReplicaWindow]:
        """One tick's reports, at an instant that never goes back."""
        number = floor(at / self._every)
        rows = self.close() if self._number is not None and number > self._number else []
        self._number = number if self._number is None else max(number, self._number)
        for report in reports:
            window = self._open.get(report.replica)
            if window is None:
                window = self._open[report.replica] = _Window()
            window.add(report, self._last)
        return rows

    def close(self) -> list[ReplicaWindow]:
        """The rows of the open window, by replica; it begins anew."""
        if self._number is None:
            return []
        start = self._number * self._every
        rows = [window.row(name, start, start + self._every) for name, window in sorted(self._open.items())]
        self._open = {}
        return rows


class _Window:
    """One replica's window in the making."""

    def __init__(self) -> None:
        self._looks = self._healthy = self._starts = 0
        self._sums: dict[str, float] = {}
        self._told: dict[str, int] = {}
        self._most: dict[str, Any] = {}
        self._grown: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}

    def add(self, report: ReplicaReport, last: dict[str, dict[str, Any]]) -> None:
        self._looks += 1
        before = last.get(report.replica)
        if not report.healthy:
            return
        self._healthy += 1
        said = values_of(report)
        if before is not None and before["reported_at"] == report.reported_at:
            return  # it has not answered since: nothing new
        if before is not None:
            self._grow(before, said)
        last[report.replica] = said
        for name in GAUGES:
            value = said[name]
            if value is not None:
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._told[name] = self._told.get(name, 0) + 1
        for name in ("waiting", "kv_usage"):
            if said[name] is not None:
                self._most[name] = max(said[name], self._most.get(name, said[name]))
        for name in ("kv_blocks", "block_size"):
            if said[name] is not None:
                self._facts[name] = said[name]

    def _grow(self, before: dict[str, Any], said: dict[str, Any]) -> None:
        self._starts += _is_new(before, said)
        for name in (*COUNTERS, *_BALANCE):
            more = grown(before[name], said[name])
            if more is not None:
                self._grown[name] = self._grown.get(name, 0) + more
        for name in HISTOGRAMS:
            growth = histogram_grown(before[name], said[name])
            if growth is not None:
                self._grown[name] = histograms_added(self._grown.get(name), growth)

    def row(self, replica: str, start: float, end: float) -> ReplicaWindow:
        total, looks = (self._grown.pop(name, None) for name in _BALANCE)
        means: dict[str, Any] = {name: total / self._told[name] for name, total in self._sums.items()}
        if total is not None and looks:
            means["balancedness"] = min(1.0, total / looks)
        return ReplicaWindow(
            replica, start, end, self._looks, self._healthy, self._starts,
            self._most.get("waiting"), self._most.get("kv_usage"), **self._facts, **means, **self._grown,
        )  # fmt: skip


def values_of(report: ReplicaReport) -> dict[str, Any]:
    """A report and the state that came with it, by name."""
    state = report.engine or _SILENT
    return {**msgspec.structs.asdict(report), **msgspec.structs.asdict(state)}


def _is_new(before: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether another process answers: by its start where it tells it, else by counters that went back."""
    if before["started_at"] is not None and said["started_at"] is not None:
        return bool(said["started_at"] > before["started_at"] + 1.0)
    return any(
        before[name] is not None and said[name] is not None and said[name] < before[name]
        for name in ("prefix_queries", "preemptions", "output_tokens")
    )

"""Sums over visits as functions of time: how many are there, how much they hold, and integrals of either.

All are built once from arrays and then asked at many instants, so that an hour of 100,000 requests takes milliseconds.
"""

from typing import Any

import numpy as np

from plimsoll.diagnosis.visits import Floats


class LinearSum:
    """Σ over visits that are there at t of base + slope · (t − start); half-open [start, end)."""

    def __init__(self, start: Floats, end: Floats, base: Any, slope: Any = 0.0) -> None:
        base = np.broadcast_to(np.asarray(base, np.float64), start.shape)
        slope = np.broadcast_to(np.asarray(slope, np.float64), start.shape)
        self._origin = float(start.min()) if start.size else 0.0
        begin, stop = start - self._origin, end - self._origin
        at = np.concatenate((begin, stop))
        level = np.concatenate((base - slope * begin, -(base - slope * begin)))
        rise = np.concatenate((slope, -slope))
        order = np.argsort(at, kind="stable")
        self.edges: Floats = at[order]
        self._level: Floats = np.concatenate(([0.0], np.cumsum(level[order])))
        self._rise: Floats = np.concatenate(([0.0], np.cumsum(rise[order])))
        widths = np.diff(self.edges)
        middles = self.edges[:-1] + widths / 2
        pieces = widths * (self._level[1:-1] + self._rise[1:-1] * middles)
        self._area: Floats = np.concatenate(([0.0], np.cumsum(pieces))) if self.edges.size else np.zeros(1)

    def at(self, when: Any) -> Floats:
        """The sum at each instant."""
        t = np.asarray(when, np.float64) - self._origin
        place = np.searchsorted(self.edges, t, side="right")
        result: Floats = np.maximum(0.0, self._level[place] + self._rise[place] * t)
        return result

    def until(self, when: Any) -> Floats:
        """The integral from the beginning up to each instant."""
        t = np.asarray(when, np.float64) - self._origin
        if not self.edges.size:
            return np.zeros_like(t)
        place = np.searchsorted(self.edges, t, side="right")
        left = np.maximum(place - 1, 0)
        start = self.edges[left]
        width = np.maximum(0.0, t - start)
        piece = width * (self._level[place] + self._rise[place] * (start + width / 2))
        result: Floats = np.where(place == 0, 0.0, self._area[left] + piece)
        return result

    def changes(self) -> Floats:
        """Instants at which somebody comes or goes, each once, on the callers' clock."""
        edges: Floats = np.unique(self.edges) + self._origin
        return edges


class Stays:
    """Visits [start, end) of which many amounts are asked within the same times [since, until]: sorted once for all."""

    def __init__(self, start: Floats, end: Floats, since: Floats, until: Floats) -> None:
        self._origin = float(start.min()) if start.size else 0.0
        at = np.concatenate((start, end)) - self._origin
        self._order = np.argsort(at, kind="stable")
        self._edges: Floats = at[self._order]
        self._widths = np.diff(self._edges)
        self._times = (since - self._origin, until - self._origin)
        self._places = [np.searchsorted(self._edges, when, side="right") for when in self._times]

    def integral(self, amount: Floats) -> Floats:
        """Over each of the times, the integral of Σ of the amounts of those visits that are there."""
        if not self._edges.size or not amount.any():
            return np.zeros(self._times[0].shape)
        level = np.concatenate(([0.0], np.cumsum(np.concatenate((amount, -amount))[self._order])))
        area = np.concatenate(([0.0], np.cumsum(self._widths * level[1:-1])))
        low, high = (
            np.where(place == 0, 0.0, area[place - 1] + level[place] * (when - self._edges[place - 1]))
            for place, when in zip(self._places, self._times, strict=True)
        )
        result: Floats = np.maximum(0.0, high - low)
        return result


class Running:
    """A quantity that piles up at instants: Σ of amounts up to t."""

    def __init__(self, at: Floats, amount: Floats) -> None:
        order = np.argsort(at, kind="stable")
        self._at: Floats = at[order]
        self._sum: Floats = np.concatenate(([0.0], np.cumsum(amount[order])))

    def between(self, start: Any, end: Any) -> Floats:
        """The amounts at instants in (start, end]."""
        low = np.searchsorted(self._at, start, side="right")
        high = np.maximum(low, np.searchsorted(self._at, end, side="right"))
        result: Floats = self._sum[high] - self._sum[low]
        return result

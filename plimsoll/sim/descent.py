"""Two ways down a loss that is known by playing runs: by slopes, and by a simplex where slopes say nothing."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEP: Final = 0.1  # from which slopes are told: below it steps of an engine that fall otherwise make them rough
_FARTHEST: Final = 1.0  # one step may move a coordinate
_FIRST_DAMPING: Final = 0.1
_LAST_DAMPING: Final = 1e4  # beyond it no step makes anything better
_GAIN: Final = 1e-3  # of the sum of squares: a step that gains less is the last


def by_slopes(residuals: Callable[[Floats], Floats | None], start: Floats, evaluations: int) -> Floats:
    """The point with the least sum of squared residuals that damped least squares finds (Levenberg 1944, Marquardt
    1963); `start` where that has none. `residuals` gives None where a point is out of the question."""
    at, left, damping = start, evaluations - 1, _FIRST_DAMPING
    off = residuals(at)
    while off is not None and left > len(start):
        slopes = _slopes(residuals, at, off)
        left -= len(start)
        square, gradient = slopes.T @ slopes, slopes.T @ off
        scale = np.diag(np.diag(square)) + 0.1 * np.eye(len(at)) * np.trace(square) / len(at)
        before, found = float(off @ off), None
        while found is None and left > 0 and damping < _LAST_DAMPING:
            step = np.clip(-np.linalg.solve(square + damping * scale, gradient), -_FARTHEST, _FARTHEST)
            tried = residuals(at + step)
            left -= 1
            if tried is not None and float(tried @ tried) < before:
                found, at, damping = tried, at + step, max(damping / 5.0, 1e-4)
            else:
                damping *= 4.0
        if found is None:
            break
        off = found
        if float(off @ off) > (1.0 - _GAIN) * before:
            break
    return at


def _slopes(residuals: Callable[[Floats], Floats | None], at: Floats, off: Floats) -> Floats:
    columns = []
    for unit in np.eye(len(at)):
        there = residuals(at + _STEP * unit)
        columns.append(np.zeros(len(off)) if there is None else (there - off) / _STEP)
    return np.array(columns).T


def by_simplex(
    loss: Callable[[Floats], float], start: Floats, evaluations: int, size: float = 0.4
) -> tuple[Floats, float]:
    """The best point that Nelder and Mead's simplex finds (1965), from one of that size at `start`; and its loss."""
    points = [start] + [start + size * unit for unit in np.eye(len(start))]
    values = [loss(point) for point in points]
    used = len(points)
    while used < evaluations:
        order = np.argsort(values, kind="stable")
        points, values = [points[i] for i in order], [values[i] for i in order]
        centre = np.mean(points[:-1], axis=0)
        tried = centre + (centre - points[-1])
        value = loss(tried)
        used += 1
        if value < values[0]:
            farther = centre + 2.0 * (centre - points[-1])
            other = loss(farther)
            used += 1
            points[-1], values[-1] = (farther, other) if other < value else (tried, value)
        elif value < values[-2]:
            points[-1], values[-1] = tried, value
        else:
            nearer = centre + 0.5 * ((tried if value < values[-1] else points[-1]) - centre)
            other = loss(nearer)
            used += 1
            if other < min(value, values[-1]):
                points[-1], values[-1] = nearer, other
            else:
                points = [points[0]] + [points[0] + 0.5 * (point - points[0]) for point in points[1:]]
                values = [values[0]] + [loss(point) for point in points[1:]]
                used += len(points) - 1
    best = int(np.argmin(values))
    return points[best], values[best]

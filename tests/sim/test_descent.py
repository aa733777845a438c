"""Ways down: slopes find what a smooth law was made from, and go round points that are out of the question."""

import numpy as np
import pytest

from plimsoll.sim.descent import Floats, by_simplex, by_slopes

AT = np.linspace(0.0, 2.0, 12)
TRUE = np.array([0.4, -0.7, 0.2])


def law(point: Floats) -> Floats:
    return np.asarray(point[0] + point[1] * AT + np.exp(point[2]) * AT**2)


def off(point: Floats) -> Floats:
    return law(point) - law(TRUE)


def test_slopes_find_the_point() -> None:
    assert by_slopes(off, np.zeros(3), 60) == pytest.approx(TRUE, abs=1e-3)


def test_a_point_without_residuals_is_not_gone_to() -> None:
    """Whatever has its second coordinate below -0.5 cannot be played: the nearest way to the truth is barred."""
    tried = []

    def barred(point: Floats) -> Floats | None:
        tried.append(point)
        return None if point[1] < -0.5 else off(point)

    found = by_slopes(barred, np.zeros(3), 80)
    assert found[1] >= -0.5
    assert np.sum(off(found) ** 2) < 0.1 * np.sum(off(np.zeros(3)) ** 2)
    assert len(tried) <= 80
    start = np.array([0.0, -1.0, 0.0])
    assert by_slopes(barred, start, 80) is start


def test_a_simplex_finds_it_too() -> None:
    point, loss = by_simplex(lambda point: float(np.sum(off(point) ** 2)), np.zeros(3), 300)
    assert loss < 1e-6
    assert point == pytest.approx(TRUE, abs=0.01)

"""Student's quantile against scipy's, in the table and beyond it."""

import pytest
from scipy import stats

from plimsoll.slo.student import student


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 6, 8, 12, 30, 31, 60, 1000])
def test_students_quantile_is_good_to_three_digits(degrees: int) -> None:
    assert student(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=5e-4)

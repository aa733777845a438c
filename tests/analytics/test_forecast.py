"""Forecasts of budget consumption: numbers where they can be known, states where not."""

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.analytics.forecast import Band, Forecast, ForecastState, Pause, Step, forecast
from plimsoll.analytics.overdispersed import count_at, score
from plimsoll.slo.budget import HourCount

FIRST = 490_896  # 2026-01-01 00:00 UTC, a Thursday
HOUR = 3600


@dataclass(frozen=True)
class Service:
    """A service that does the same every week."""

    days: int = 35
    spent: int = 100  # in an hour of the working day
    quiet: int = 20  # in another
    weekend: float = 0.25
    judged: int = 10_000

    def hours(self) -> list[HourCount]:
        return [HourCount(FIRST + i, self.judged, self.at(FIRST + i)) for i in range(self.days * 24)]

    def at(self, hour: int) -> int:
        place = (hour - FIRST) // 24 + 3
        usual = self.spent if 9 <= hour % 24 < 18 else self.quiet
        return round(usual * (self.weekend if place % 7 >= 5 else 1.0))

    @property
    def now(self) -> float:
        return (FIRST + self.days * 24) * HOUR

    def coming(self, hours: int) -> int:
        return sum(self.at(FIRST + self.days * 24 + i) for i in range(hours))


@pytest.mark.parametrize("days", range(35, 42))
def test_each_day_of_the_week_is_known(days: int) -> None:
    service = Service(days=days)
    band = forecast(service.hours(), service.now).next_day
    assert band is not None
    due = service.coming(24)
    assert band.expected == pytest.approx(due, rel=0.03)
    assert band.low - 1 < due < band.upper + 1
    assert band.upper < 1.5 * due


def test_exhaustion_follows_the_hours() -> None:
    service = Service(days=32)  # a Monday begins
    found = forecast(service.hours(), service.now, remaining=service.coming(38)).hours_to_exhaustion
    assert found is not None
    assert found.low is not None
    assert found.expected is not None
    assert found.expected == pytest.approx(38, abs=1.5)
    assert found.low < found.expected


def test_exhaustion_after_the_period_is_none() -> None:
    service = Service()
    short = forecast(service.hours(), service.now, remaining=service.coming(72), until=service.now + 48 * HOUR)
    assert short.hours_to_exhaustion is not None
    assert short.hours_to_exhaustion.upper is None
    assert short.hours_to_exhaustion.expected is None
    far = forecast(service.hours(), service.now, remaining=10**9).hours_to_exhaustion
    assert far is not None
    assert (far.low, far.expected, far.upper) == (None, None, None)
    gone = forecast(service.hours(), service.now, remaining=0).hours_to_exhaustion
    assert gone is not None
    assert (gone.low, gone.expected, gone.upper) == (0.0, 0.0, 0.0)
    assert forecast(service.hours(), service.now).hours_to_exhaustion is None, "nothing was asked"


def test_a_known_step_to_come() -> None:
    service = Service()
    plain = forecast(service.hours(), service.now).next_day
    doubled = forecast(service.hours(), service.now, steps=[Step(service.now, 2.0)]).next_day
    assert plain is not None
    assert doubled is not None
    assert doubled.expected == pytest.approx(2 * plain.expected, rel=0.02)


def test_nothing_is_spent_in_a_pause() -> None:
    """Of the next day's hours half an hour, then all."""
    service = Service()
    plain = forecast(service.hours(), service.now, remaining=10).next_day
    half = forecast(service.hours(), service.now, pauses=[Pause(service.now + 43_200, service.now + 45_000)]).next_day
    assert plain is not None
    assert half is not None
    assert 0.95 * plain.expected < half.expected < plain.expected
    all_ = forecast(service.hours(), service.now, pauses=[Pause(service.now, service.now + 90_000)], remaining=10)
    assert all_.next_day == Band(0.0, 0.0, 0.0)
    assert all_.hours_to_exhaustion is not None
    assert all_.hours_to_exhaustion.low is not None
    assert all_.hours_to_exhaustion.low > 25.0


def test_a_known_step_that_was() -> None:
    """Yesterday consumption doubled for a known reason: the history before counts twice, and the band stays narrow."""
    service = Service()
    at = FIRST + 34 * 24
    hours = [each._replace(num_bad=2 * each.num_bad) if each.hour >= at else each for each in service.hours()]
    told = forecast(hours, service.now, steps=[Step(at * HOUR, 2.0)]).next_day
    untold = forecast(hours, service.now).next_day
    assert told is not None
    assert untold is not None
    assert told.expected == pytest.approx(2 * service.coming(24), rel=0.03)
    assert untold.expected < 0.9 * told.expected


def test_a_trend_goes_on() -> None:
    hours = [
        HourCount(each.hour, each.num_judged, round(each.num_bad * 1.05 ** (i / 24)))
        for i, each in enumerate(Service(weekend=1.0).hours())
    ]
    band = forecast(hours, Service().now).next_day
    last = sum(each.num_bad for each in hours[-24:])
    assert band is not None
    assert band.expected == pytest.approx(1.05 * last, rel=0.05)


def test_the_local_week_counts() -> None:
    """In Shanghai the service's quiet weekend begins eight hours earlier than in UTC: the forecast must know."""
    service = Service(days=32)
    shifted = [each._replace(hour=each.hour - 8) for each in service.hours()]
    band = forecast(shifted, service.now - 8 * HOUR, zone="Asia/Shanghai").next_day
    plain = forecast(service.hours(), service.now).next_day
    assert band == plain


def test_the_future_is_not_looked_at() -> None:
    service = Service(days=40)
    early = service.now - 5 * 24 * HOUR
    known = [each for each in service.hours() if each.hour * HOUR < early]
    assert forecast(service.hours(), early) == forecast(known, early)
    assert forecast(service.hours(), early + 1800) == forecast(known, early), "a half hour says nothing yet"


def test_states() -> None:
    service = Service()
    assert forecast([], service.now) == Forecast(ForecastState.NO_TRAFFIC)
    one = [HourCount(FIRST + 34 * 24, 1, 1)]
    assert forecast(one, service.now) == Forecast(ForecastState.TOO_FEW)
    assert forecast(one, service.now, remaining=10).hours_to_exhaustion is None
    bad = [each._replace(num_bad=each.num_judged) for each in service.hours()]
    assert forecast(bad, service.now) == Forecast(ForecastState.ALL_FAILURES)
    young = replace(service, days=3)
    assert forecast(young.hours(), young.now) == Forecast(ForecastState.COLD_START)
    assert forecast(service.hours(), service.now + 8 * 24 * HOUR) == Forecast(ForecastState.NO_TRAFFIC), "gone silent"
    idle = [each._replace(num_judged=0, num_bad=0) for each in service.hours()]
    assert forecast(idle, service.now) == Forecast(ForecastState.NO_TRAFFIC)


def test_nothing_spent_is_a_small_number_not_none_at_all() -> None:
    service = Service(spent=0, quiet=0)
    found = forecast(service.hours(), service.now, remaining=50)
    assert found.next_day is not None
    assert found.next_day.low == found.next_day.expected == 0
    assert found.next_day.upper < 2
    assert found.hours_to_exhaustion is not None
    assert found.hours_to_exhaustion.expected is None


def test_a_young_service_says_what_it_rests_on() -> None:
    young = Service(days=6)
    assert "hour of the day" in forecast(young.hours(), young.now).basis
    grown = Service(days=20)
    assert "hour of the week" in forecast(grown.hours(), grown.now).basis


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(
        st.tuples(st.integers(0, 10**6), st.floats(0, 1), st.integers(1, 30)), min_size=0, max_size=60
    ),
    remaining=st.integers(-5, 10**6),
    late=st.integers(0, 400),
)  # fmt: skip
def test_whatever_happened_the_answer_is_ordered_and_finite(
    counts: list[tuple[int, float, int]], remaining: int, late: int
) -> None:
    hours, hour = [], FIRST
    for judged, ratio, gap in counts:
        hours.append(HourCount(hour, judged, int(judged * ratio)))
        hour += gap
    found = forecast(hours, (hour + late) * HOUR, remaining=remaining)
    assert (found.next_day is None) == (found.state is not ForecastState.FORECAST)
    assert (found.hours_to_exhaustion is None) == (found.next_day is None)
    if found.next_day is not None and found.hours_to_exhaustion is not None:
        band, end = found.next_day, found.hours_to_exhaustion
        assert 0 <= band.low <= band.expected <= band.upper
        assert isfinite(band.upper)
        ends = [float("inf") if each is None else each for each in (end.low, end.expected, end.upper)]
        assert ends == sorted(ends)
        assert ends[0] >= 0


@pytest.mark.parametrize("variance", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("mean", [3.0, 40.0, 5000.0])
def test_scores_are_those_of_the_negative_binomial(mean: float, variance: float) -> None:
    """Against scipy's exact distribution: its quantiles within one event and a half or 2 %."""
    from scipy.stats import nbinom, norm

    for level in (0.1, 0.5, 0.9):
        exact = float(nbinom.ppf(level, 1 / variance, 1 / (1 + mean * variance)))
        ours = float(count_at(np.array(norm.ppf(level)), np.array(mean), np.array(variance)))
        assert ours == pytest.approx(exact, abs=1.5, rel=0.02)
    back = score(np.array([mean]), np.array([mean]), variance)
    assert count_at(back, np.array([mean]), np.array([variance]))[0] == pytest.approx(mean)

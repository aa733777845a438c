"""Were the forecasts any good? Made again at past instants, from what was known then, and held against what came.

Coverage: how often what came lay in the 80 % band. Pinball loss: the mean over the quantiles 10, 50 and 90 % of what a
forecast costs that is too high or too low, ÷ a mean day's consumption, so that tenants compare; less is better. Naive
forecasts stand beside it, as points and with a band from their own past misses.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from plimsoll.analytics.forecast import DAY, HOUR, Forecast, ForecastState, forecast
from plimsoll.analytics.hindsight import LEVELS
from plimsoll.analytics.knownchanges import NOTHING_KNOWN, Ahead
from plimsoll.analytics.rhythm import WEEK
from plimsoll.slo.budget import HourCount

Floats = npt.NDArray[np.float64]

FIRST_AT: Final = 14 * DAY
"""Hours of history before the first forecast."""
SOON: Final = 3 * DAY
"""The budget that is tried: what the last three days spent."""
PATIENCE: Final = 14 * DAY
"""Hours within which it must be gone, or is not."""
_MIN_MISSES: Final = 5

NAIVE: Final[Mapping[str, tuple[int, int]]] = {
    "same hour yesterday": (24, 0),
    "same hour last week": (168, 144),
    "current burn held": (1, 0),
}
"""Which hours before now (from, to) a naive forecast repeats through the next 24."""
BANDED: Final = "{}, with a band"


class Backtest(Struct, frozen=True):
    """Of one objective of one tenant, or of all together. Ratios are None where nothing was forecast."""

    tenant: str
    objective: str
    num: int  # forecasts of the next 24 hours
    num_states: Mapping[str, int]  # instants at which there was none, by state
    covered_ratio: float | None
    below_ratio: float | None  # less came than the band's lower end
    above_ratio: float | None
    pinball: float | None
    naive_pinball: Mapping[str, float]
    num_exhaustions: int  # forecasts of when the last three days' amount would be spent
    exhaustion_covered_ratio: float | None


class Trial(Struct, frozen=True):
    """One forecast held against what came: next day's consumption, and hours until three days' amount was spent."""

    state: ForecastState
    covered: bool = False
    below: bool = False
    above: bool = False
    pinball: float = 0.0
    naive_pinball: Mapping[str, float] = {}
    exhaustion_covered: bool | None = None  # None: the history ends too soon


def trials(
    hours: Sequence[HourCount], *, zone: str = "UTC", every: int = DAY, ahead: Ahead = NOTHING_KNOWN
) -> list[Trial]:
    """A forecast each `every` hours, from two weeks of history on to a day before the end of it.

    What is `ahead` counts as known all along, since nobody wrote down since when it was.
    """
    if not hours:
        return []
    first, end = min(each.hour for each in hours), max(each.hour for each in hours) + 1
    spent = np.zeros(end - first)
    for each in hours:
        spent[each.hour - first] += each.num_bad
    made = []
    for at in range(FIRST_AT, len(spent) - DAY + 1, every):
        now, remaining = float((first + at) * HOUR), _lately(spent, at)
        until = now + PATIENCE * HOUR
        found = forecast(hours, now, zone=zone, remaining=remaining or None, until=until, **ahead._asdict())
        made.append(_trial(found, spent, at))
    return made


def summed(tenant: str, objective: str, found: Iterable[Trial]) -> Backtest:
    """What trials say together."""
    made: list[Trial] = []
    states: dict[str, int] = {}
    for each in found:
        if each.state is ForecastState.FORECAST:
            made.append(each)
        else:
            states[each.state.value] = states.get(each.state.value, 0) + 1
    ended = [each.exhaustion_covered for each in made if each.exhaustion_covered is not None]
    return Backtest(
        tenant=tenant,
        objective=objective,
        num=len(made),
        num_states=states,
        covered_ratio=_mean([each.covered for each in made]),
        below_ratio=_mean([each.below for each in made]),
        above_ratio=_mean([each.above for each in made]),
        pinball=_mean([each.pinball for each in made]),
        naive_pinball={
            name: float(np.mean([each.naive_pinball[name] for each in made])) for name in made[0].naive_pinball
        }
        if made
        else {},
        num_exhaustions=len(ended),
        exhaustion_covered_ratio=_mean(ended),
    )


def pinball(quantiles: Floats, came: float) -> float:
    """Mean loss of the forecast quantiles 10, 50 and 90 %, in events."""
    short = came - quantiles
    return float(np.mean(np.maximum(LEVELS * short, (LEVELS - 1) * short)))


def _trial(found: Forecast, spent: Floats, at: int) -> Trial:
    if found.next_day is None:
        return Trial(found.state)
    band, came = found.next_day, float(spent[at : at + DAY].sum())
    usual = max(float(spent[:at].sum()) / at * DAY, 1.0)
    ended = None
    if found.hours_to_exhaustion is not None and at + PATIENCE <= len(spent):
        limits = found.hours_to_exhaustion.low, found.hours_to_exhaustion.upper
        ended = _within(_hours_until(spent[at : at + PATIENCE], _lately(spent, at)), *limits)
    return Trial(
        state=found.state,
        covered=band.low <= came <= band.upper,
        below=came < band.low,
        above=came > band.upper,
        pinball=pinball(np.array([band.low, band.expected, band.upper]), came) / usual,
        naive_pinball={name: pinball(guess, came) / usual for name, guess in _naive(spent, at).items()},
        exhaustion_covered=ended,
    )


def _lately(spent: Floats, at: int) -> int:
    """The amount whose exhaustion is foretold."""
    return int(spent[at - SOON : at].sum())


def _naive(spent: Floats, at: int) -> dict[str, Floats]:
    """Quantiles of each naive forecast: three equal ones for a point."""
    found: dict[str, Floats] = {}
    for name, span in NAIVE.items():
        guess = _repeated(spent, at, span)
        found[name] = np.full(3, guess)
        before = range(at - DAY, WEEK - 1, -DAY)
        ratios = [(float(spent[then : then + DAY].sum()) + 1) / (_repeated(spent, then, span) + 1) for then in before]
        wide = np.quantile(ratios, LEVELS) if len(ratios) >= _MIN_MISSES else np.ones(3)
        found[BANDED.format(name)] = np.maximum(0.0, (guess + 1) * wide - 1)
    return found


def _repeated(spent: Floats, at: int, span: tuple[int, int]) -> float:
    begin, end = span
    return float(spent[at - begin : at - end].sum()) * DAY / (begin - end)


def _hours_until(spent: Floats, amount: int) -> float | None:
    hour = int(np.searchsorted(np.cumsum(spent), amount))
    return None if hour >= len(spent) else float(hour + 1)


def _within(hours: float | None, low: float | None, upper: float | None) -> bool:
    """What came is known to the hour in which it came."""
    if hours is None:
        return upper is None
    return (low is not None and hours > low - 1e-9) and (upper is None or hours - 1 <= upper)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None

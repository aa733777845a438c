"""Tails whose slowest were cut off: Kaplan–Meier with Greenwood's variance, and "above x" where nothing is known.

A timeout or a client that left is right-censored: its value is known to exceed the time it waited. Dropping such rows
or taking them at face value both flatter the tail. The estimate assumes that who is cut off does not depend on how slow
he would have been, which for clients that lose patience is not so: hence the naive bounds beside it.

Source: Kaplan and Meier 1958; Greenwood 1926; intervals by the log(−log) transform, Kalbfleisch and Prentice 2002, 1.4.
"""

from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Z: Final = 1.959963984540054  # two-sided 95 % of the normal distribution


class CensoredEstimate(Struct, frozen=True):
    """A quantile under censoring. Exactly one of `value` and `above` is set, unless there is no data at all.

    `low` and `high` bound it with 95 % confidence (None: no bound). `naive_low` takes every censored value at face
    value and `naive_high` takes it as never ending (None: beyond every value seen): whatever the censoring, the
    quantile of the sample lies between.
    """

    quantile: float
    num: int
    num_censored: int
    value: float | None
    above: float | None
    low: float | None
    high: float | None
    naive_low: float | None
    naive_high: float | None


class SurvivalCurve:
    """P(value > t) by Kaplan–Meier over distinct event times, from values that may be censored and weighted."""

    def __init__(self, values: Any, observed: Any, weights: Any = None) -> None:
        """`values` in any unit, `observed` False where censored, `weights` whole counts (default: one each)."""
        value = np.asarray(values, dtype=np.float64)
        seen = np.asarray(observed, dtype=bool)
        weight = np.ones(value.size, np.int64) if weights is None else np.asarray(weights, dtype=np.int64)
        if not (value.size == seen.size == weight.size):
            raise ValueError("values, observed and weights differ in length")
        if value.size and (np.isnan(value).any() or (value < 0).any() or (weight < 0).any()):
            raise ValueError("values and weights must be at least 0 and not NaN")
        self._value, self._seen, self._weight = value, seen, weight
        self.num = int(weight.sum())
        self.num_censored = int(weight[~seen].sum())
        self.last = float(value[weight > 0].max()) if self.num else 0.0
        self.times, self.survival, self.variance = self._fit()

    def _fit(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Event times, survival after each, and Greenwood's sum Σ d ÷ (n (n − d)) (inf once nobody is left)."""
        times, place = np.unique(self._value, return_inverse=True)
        events = np.bincount(place, weights=self._weight * self._seen, minlength=times.size)
        leaving = np.bincount(place, weights=self._weight, minlength=times.size)
        # whoever is censored at an event's time was still at risk in it
        at_risk = self.num - np.concatenate([[0.0], np.cumsum(leaving)[:-1]]) if times.size else leaving
        happened = events > 0
        times, events, at_risk = times[happened], events[happened], at_risk[happened]
        with np.errstate(divide="ignore"):
            variance = np.cumsum(events / (at_risk * (at_risk - events)))
        return times, np.cumprod(1.0 - events / at_risk).astype(np.float64), variance.astype(np.float64)

    def quantile(self, q: float, *, design_effect: float = 1.0, z: float = Z) -> CensoredEstimate:
        """The smallest time by which a share q has ended, with bounds; "above x" where the curve ends before it.

        `design_effect` is how many times the variance is that of independent values.
        """
        left = 1.0 - q + 1e-12
        value = self._first(self.survival <= left)
        known = value is not None or self.num == 0
        lower, upper = self._bands(z, design_effect)
        return CensoredEstimate(
            quantile=q,
            num=self.num,
            num_censored=self.num_censored,
            value=value,
            above=None if known else self.last,
            low=self._first(lower <= left) if known else self.last,
            high=self._first(upper <= left),
            naive_low=self._naive(q, face_value=True),
            naive_high=self._naive(q, face_value=False),
        )

    def _first(self, reached: NDArray[np.bool_]) -> float | None:
        return float(self.times[np.argmax(reached)]) if reached.any() else None

    def _bands(self, z: float, design_effect: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Pointwise band of the curve; where the curve is 0 or 1 Greenwood says nothing: (curve, 1)."""
        inside = (self.survival > 0.0) & (self.survival < 1.0) & np.isfinite(self.variance)
        lower, upper = self.survival.copy(), np.ones_like(self.survival)
        log_survival = np.log(self.survival[inside])
        spread = np.exp(z * np.sqrt(design_effect * self.variance[inside]) / np.abs(log_survival))
        lower[inside] = np.exp(log_survival * spread)
        upper[inside] = np.exp(log_survival / spread)
        return lower, upper

    def _naive(self, q: float, *, face_value: bool) -> float | None:
        """Nearest rank with the censored taken as ended (face value) or as never ending."""
        if self.num == 0:
            return None
        value = self._value if face_value else np.where(self._seen, self._value, np.inf)
        order = np.argsort(value, kind="stable")
        rank = max(1, int(np.ceil(q * self.num - 1e-9)))
        found = float(value[order][np.searchsorted(np.cumsum(self._weight[order]), rank)])
        return found if np.isfinite(found) else None

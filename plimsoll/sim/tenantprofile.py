"""How a synthetic tenant behaves: a few numbers from which its arrivals are drawn."""

from functools import cache, cached_property
from math import inf
from statistics import NormalDist
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

HOUR: Final = 3600.0
DAY: Final = 86_400.0
_FINE: Final = 4096  # places of a distribution at which its mean is taken
_RIM: Final = 1e-5
"""The lowest and highest knot of a table of quantiles stand for this far from 0 and 1: no draw lies beyond them."""


class Lengths(Struct, frozen=True):
    """Token counts, capped: log-normal by median and sigma (0: a constant), or, where given, a table of quantiles.

    `quantiles` are pairs (share of requests, tokens), both rising; between them it is interpolated.
    """

    median: float
    sigma: float = 0.0
    most: int = 1 << 20
    quantiles: tuple[tuple[float, float], ...] = ()

    @property
    def mean(self) -> float:
        """Of what is drawn: whole tokens, at least 1, at most `most`."""
        if not self.sigma and not self.quantiles:
            return float(min(max(1, round(self.median)), self.most))
        normal = NormalDist()
        places = [normal.inv_cdf((place + 0.5) / _FINE) for place in range(_FINE)]
        return float(np.mean(tokens_of(self, np.array(places))))

    def knots(self) -> tuple[list[float], list[float]]:
        """The table as standard normal quantiles and tokens, so that one normal draw finds its length."""
        normal = NormalDist()
        return (
            [normal.inv_cdf(min(max(share, _RIM), 1.0 - _RIM)) for share, _ in self.quantiles],
            [tokens for _, tokens in self.quantiles],
        )


@cache
def _knots(lengths: Lengths) -> tuple[list[float], list[float]]:
    return lengths.knots()


def tokens_of(lengths: Lengths, normals: NDArray[np.float64]) -> NDArray[np.int64]:
    """Standard normal draws as token counts, at least 1."""
    if lengths.quantiles:
        values = np.interp(normals, *_knots(lengths))
    else:
        values = lengths.median * np.exp(lengths.sigma * normals)
    return np.clip(np.rint(values), 1, lengths.most).astype(np.int64)


class Bursts(Struct, frozen=True):
    """On and off in turn, for exponential times of these means in s; `quiet` is the rate when off ÷ that when on."""

    on: float
    off: float
    quiet: float = 0.0

    @property
    def factors(self) -> tuple[float, float]:
        """On the rate, when on and when off; their mean over time is 1."""
        high = (self.on + self.off) / (self.on + self.quiet * self.off)
        return high, high * self.quiet


class TenantProfile(Struct, frozen=True, dict=True):
    """One tenant, or one phase of it. Rates are requests a second; a session of n turns counts as n requests."""

    name: str
    rate: float
    model: str = ""
    prompt: Lengths = Lengths(800.0, 1.0, 8192)
    output: Lengths = Lengths(200.0, 0.7, 2048)
    correlation: float = 0.0  # of prompt and output lengths, as standard normal variables (a Gaussian copula)
    burstiness: float = 1.0  # squared coefficient of variation of gaps: 1 is Poisson, 0 is regular
    bursts: Bursts | None = None
    max_output: int = 0  # what clients ask for: a cap for all; 0: none; -1: each its exact length
    shared_tokens: int = 0  # beginning that all prompts of a variant share (a system prompt)
    variants: int = 1
    turns: int = 1  # requests of a session; each prompt repeats the conversation so far
    think: float = 20.0  # mean s between the turns of a session
    starts: float = 0.0  # s from the start of the workload
    ends: float = inf
    changes: tuple[tuple[float, float], ...] = ()  # (at, rate): from then on
    daily: tuple[float, ...] = ()  # factors on the rate, one an hour of the day
    weekly: tuple[float, ...] = ()  # and one a day of the week, from Monday
    tier: str = ""
    cause: str = ""
    criticality: str = "critical"
    streaming: bool = True
    patience: float = inf
    upstream: Lengths | None = None  # time spent before us, ms
    entropy: float | None = None  # bits a byte of its prompts, as the gateway would measure; None: not told
    phase: int = 0  # a tenant that changes more than its rate is several profiles of one name, one after another
    turns_spread: Lengths | None = None  # instead of `turns`, where sessions differ in them
    think_spread: Lengths | None = None  # ms, instead of exponential times of mean `think`
    followup: Lengths | None = None  # what later turns add to the conversation; None: as `prompt`
    clock_at: float = 0.0  # s since Monday 00:00, in the tenant's zone, when the workload starts

    @cached_property
    def key(self) -> str:
        """What its dice are named after."""
        return f"{self.name}#{self.phase}" if self.phase else self.name

    @cached_property
    def mean_turns(self) -> float:
        """Requests of a session on the mean."""
        return float(self.turns) if self.turns_spread is None else self.turns_spread.mean

    def scaled(self, factor: float) -> "TenantProfile":
        """The same with all rates multiplied; the same dice."""
        changes = tuple((at, rate * factor) for at, rate in self.changes)
        return msgspec.structs.replace(self, rate=self.rate * factor, changes=changes)

    def rate_at(self, at: float) -> float:
        """Requests a second at an instant, bursts apart."""
        if not self.starts <= at < self.ends:
            return 0.0
        rate = self.rate
        for since, changed in self.changes:
            if at >= since:
                rate = changed
        clock = self.clock_at + at
        if self.daily:
            rate *= self.daily[int(clock // HOUR) % len(self.daily)]
        if self.weekly:
            rate *= self.weekly[int(clock // DAY) % 7]
        return rate

    def edges(self, until: float) -> list[float]:
        """The instants up to `until` at which the rate may change, in order, `until` last."""
        edges = {self.starts, self.ends, until, *(since for since, _ in self.changes)}
        if self.daily or self.weekly:
            first = HOUR - self.clock_at % HOUR
            edges.update(first + HOUR * hour for hour in range(int((until - first) // HOUR) + 1))
        return sorted(edge for edge in edges if 0.0 < edge <= until)

"""How a synthetic tenant behaves: a few numbers from which its arrivals are drawn."""

from math import inf

from msgspec import Struct


class Lengths(Struct, frozen=True):
    """Token counts: log-normal by median and sigma, capped; sigma 0 is a constant."""

    median: float
    sigma: float = 0.0
    most: int = 1 << 20


class TenantProfile(Struct, frozen=True):
    """One tenant. Rates are requests a second; a session of n turns counts as n requests."""

    name: str
    rate: float
    model: str = ""
    prompt: Lengths = Lengths(800.0, 1.0, 8192)
    output: Lengths = Lengths(200.0, 0.7, 2048)
    burstiness: float = 1.0  # squared coefficient of variation of gaps: 1 is Poisson, 0 is regular
    max_output: int = 0  # what clients ask for: a cap for all; 0: none; -1: each its exact length
    shared_tokens: int = 0  # beginning that all prompts of a variant share (a system prompt)
    variants: int = 1
    turns: int = 1  # requests of a session; each prompt repeats the conversation so far
    think: float = 20.0  # mean s between the turns of a session
    starts: float = 0.0  # s from the start of the workload
    ends: float = inf
    changes: tuple[tuple[float, float], ...] = ()  # (at, rate): from then on
    daily: tuple[float, ...] = ()  # factors on the rate, one an hour of the day
    tier: str = ""
    cause: str = ""
    criticality: str = "critical"
    streaming: bool = True
    patience: float = inf
    upstream: Lengths | None = None  # time spent before us, ms by median and sigma

    def rate_at(self, at: float) -> float:
        """Requests a second at an instant."""
        if not self.starts <= at < self.ends:
            return 0.0
        rate = self.rate
        for since, changed in self.changes:
            if at >= since:
                rate = changed
        return rate * (self.daily[int(at // 3600) % len(self.daily)] if self.daily else 1.0)

    def edges(self, until: float) -> list[float]:
        """The instants up to `until` at which the rate may change, in order, `until` last."""
        edges = {self.starts, self.ends, until, *(since for since, _ in self.changes)}
        if self.daily:
            edges.update(3600.0 * hour for hour in range(1, int(until // 3600) + 1))
        return sorted(edge for edge in edges if 0.0 < edge <= until)

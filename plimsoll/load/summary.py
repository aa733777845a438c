"""What a replay saw, added up: outcomes and latencies by tenant."""

from collections import Counter

from msgspec import Struct

from plimsoll.load.result import Result, Seen
from plimsoll.slo.quantiles import Estimate, Sketch


class Latency(Struct, frozen=True):
    """Latency of some seconds, each with its n and 95 % interval; a value is None where nothing bounds it."""

    p50: Estimate
    p90: Estimate
    p99: Estimate
    max: float | None


class TenantSummary(Struct, frozen=True):
    """One tenant's part, or everybody's under the name ""."""

    tenant: str
    num_planned: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    statuses: dict[str, int]
    ttft: Latency
    itl: Latency
    e2e: Latency
    output_tokens: int


class Summary(Struct, frozen=True):
    """A whole replay. `lateness` is the client's own: large values mean that the load was not what the plan said."""

    run: str
    num_planned: int
    duration: float  # s from the plan's zero to the last end
    lateness: Latency
    total: TenantSummary
    tenants: tuple[TenantSummary, ...]
    prompt_tokens_ratio: float | None  # usage's prompt tokens ÷ those asked for
    stopped: bool


class _Seconds:
    """A sketch and the largest value in it."""

    def __init__(self) -> None:
        self._sketch = Sketch()
        self._largest: float | None = None

    def add(self, value: float) -> None:
        """Count one; clocks of two readings may differ by less than they can tell, so below 0 is 0."""
        self._sketch.add(max(0.0, value))
        self._largest = value if self._largest is None else max(self._largest, value)

    def latency(self) -> Latency:
        """The quantiles so far."""
        p50, p90, p99 = (self._sketch.estimate(q) for q in (0.5, 0.9, 0.99))
        return Latency(p50, p90, p99, self._largest)


class _Tally:
    """Sums of one tenant."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.ttft = _Seconds()
        self.itl = _Seconds()
        self.e2e = _Seconds()
        self.output_tokens = 0

    def add(self, result: Result) -> None:
        """Count one request."""
        self.outcomes[result.outcome] += 1
        self.reasons[result.reason] += bool(result.reason)
        self.statuses[str(result.status)] += bool(result.status)
        self.output_tokens += result.output_tokens or result.num_events
        for gap in result.gaps:
            self.itl.add(gap)
        if result.ttft is not None:
            self.ttft.add(result.ttft)
        if result.e2e is not None:
            self.e2e.add(result.e2e)

    def summary(self, tenant: str) -> TenantSummary:
        """The sums as a value."""
        return TenantSummary(
            tenant=tenant,
            num_planned=self.outcomes.total(),
            outcomes={seen.value: self.outcomes[seen] for seen in Seen if self.outcomes[seen]},
            reasons=dict((+self.reasons).most_common()),
            statuses=dict(sorted((+self.statuses).items())),
            ttft=self.ttft.latency(),
            itl=self.itl.latency(),
            e2e=self.e2e.latency(),
            output_tokens=self.output_tokens,
        )


class Tallies:
    """Takes results as they come, in any order; `summary` may be asked at any time."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._total = _Tally()
        self._by_tenant: dict[str, _Tally] = {}
        self._lateness = _Seconds()
        self._prompt_tokens = [0, 0]  # asked for, actual
        self._last_end_at = 0.0

    @property
    def outcomes(self) -> Counter[str]:
        """Counts so far by outcome."""
        return self._total.outcomes

    def add(self, result: Result) -> None:
        """Count one request."""
        self._total.add(result)
        self._by_tenant.setdefault(result.tenant, _Tally()).add(result)
        self._last_end_at = max(self._last_end_at, result.ended_at)
        if result.lateness is not None:
            self._lateness.add(result.lateness)
        if result.prompt_tokens is not None:
            self._prompt_tokens[0] += result.asked_prompt_tokens
            self._prompt_tokens[1] += result.prompt_tokens

    def summary(self, start_at: float) -> Summary:
        """All that was seen so far."""
        asked, actual = self._prompt_tokens
        return Summary(
            run=self._run,
            num_planned=self._total.outcomes.total(),
            duration=max(0.0, self._last_end_at - start_at),
            lateness=self._lateness.latency(),
            total=self._total.summary(""),
            tenants=tuple(tally.summary(name) for name, tally in sorted(self._by_tenant.items())),
            prompt_tokens_ratio=actual / asked if asked else None,
            stopped=bool(self._total.outcomes[Seen.STOPPED] or self._total.outcomes[Seen.UNSENT]),
        )

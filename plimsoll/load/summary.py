"""What a replay saw, added up: outcomes and latencies by tenant."""

from array import array
from collections import Counter
from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from plimsoll.load.result import Result, Seen


class Quantiles(Struct, frozen=True):
    """Seconds, exact over `n` values; None where there are too few for an order statistic to mean something."""

    n: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


class TenantSummary(Struct, frozen=True):
    """One tenant's part, or everybody's under the name ""."""

    tenant: str
    num_planned: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    statuses: dict[str, int]
    ttft: Quantiles
    itl: Quantiles
    e2e: Quantiles
    output_tokens: int


class Summary(Struct, frozen=True):
    """A whole replay. `lateness` is the client's own: large values mean that the load was not what the plan said."""

    run: str
    num_planned: int
    duration: float  # s from the plan's zero to the last end
    lateness: Quantiles
    total: TenantSummary
    tenants: tuple[TenantSummary, ...]
    prompt_tokens_ratio: float | None  # usage's prompt tokens ÷ those asked for
    stopped: bool


class _Tally:
    """Sums of one tenant."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.ttft: array[float] = array("d")
        self.itl: array[float] = array("d")
        self.e2e: array[float] = array("d")
        self.output_tokens = 0

    def add(self, result: Result) -> None:
        """Count one request."""
        self.outcomes[result.outcome] += 1
        self.reasons[result.reason] += bool(result.reason)
        self.statuses[str(result.status)] += bool(result.status)
        self.output_tokens += result.output_tokens or result.num_events
        self.itl.extend(result.gaps)
        if result.ttft is not None:
            self.ttft.append(result.ttft)
        if result.e2e is not None:
            self.e2e.append(result.e2e)

    def summary(self, tenant: str) -> TenantSummary:
        """The sums as a value."""
        return TenantSummary(
            tenant=tenant,
            num_planned=self.outcomes.total(),
            outcomes={seen.value: self.outcomes[seen] for seen in Seen if self.outcomes[seen]},
            reasons=dict((+self.reasons).most_common()),
            statuses=dict(sorted((+self.statuses).items())),
            ttft=quantiles(self.ttft),
            itl=quantiles(self.itl),
            e2e=quantiles(self.e2e),
            output_tokens=self.output_tokens,
        )


class Tallies:
    """Takes results as they come, in any order; `summary` may be asked at any time."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._total = _Tally()
        self._by_tenant: dict[str, _Tally] = {}
        self._lateness: array[float] = array("d")
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
            self._lateness.append(result.lateness)
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
            lateness=quantiles(self._lateness),
            total=self._total.summary(""),
            tenants=tuple(tally.summary(name) for name, tally in sorted(self._by_tenant.items())),
            prompt_tokens_ratio=actual / asked if asked else None,
            stopped=bool(self._total.outcomes[Seen.STOPPED] or self._total.outcomes[Seen.UNSENT]),
        )


def quantiles(values: Sequence[float]) -> Quantiles:
    """Order statistics; a quantile q is given where at least one value is expected beyond it."""
    ordered = sorted(values)
    n = len(ordered)

    def at(q: float) -> float | None:
        return ordered[ceil(q * n) - 1] if n * (1 - q) >= 1 else None

    return Quantiles(n, at(0.5), at(0.9), at(0.99), ordered[-1] if n else None)

"""Rows counted as OTLP metrics: GenAI's histograms with the conventions' boundaries, and our own counters.

Sums since this process began (cumulative temporality); a new process begins at zero and says since when. Two traps of
the conventions are kept as they are, since dashboards rely on them: times to the first token and per output token are
those of *successful* requests, and the last boundary of the former is 10 s. Quantiles that count timeouts are
`/metrics`'.
Labels are bounded: beyond `MAX_OWNERS` combinations of tenant, tier and model, more are summed as "other".
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome
from plimsoll.telemetry.otel.naming import (
    PROVIDER,
    TENANT,
    Value,
    attributes,
    error_of,
    nanoseconds,
    operation_of,
)
from plimsoll.telemetry.prometheus import MAX_OWNERS

_CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_DURATION: Final = (*(0.01 * 2**power for power in range(14)),)
_FIRST: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_PER_TOKEN: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS: Final = (*(float(4**power) for power in range(14)),)
HISTOGRAMS: Final[dict[str, tuple[str, tuple[float, ...], str]]] = {
    "gen_ai.server.request.duration": ("s", _DURATION, "Arrival to last token, of all that reached an engine."),
    "gen_ai.server.time_to_first_token": ("s", _FIRST, "Arrival to first token, of successful requests."),
    "gen_ai.server.time_per_output_token": ("s", _PER_TOKEN, "Per token after the first, of successful requests."),
    "gen_ai.client.token.usage": ("{token}", _TOKENS, "Tokens of one request, by type."),
}
COUNTERS: Final[dict[str, tuple[str, str]]] = {
    "gen_ai.client.inference.usage.input_tokens": ("{token}", "Prompt tokens."),
    "gen_ai.client.inference.usage.output_tokens": ("{token}", "Output tokens."),
    "gen_ai.client.inference.usage.cache_read.input_tokens": ("{token}", "Prompt tokens that the engine had cached."),
    "plimsoll.requests": ("{request}", "Requests that ended, by how and why."),
    "plimsoll.verdicts": ("{event}", "What each objective said: requests, of itl tokens; bad ones with their charge."),
}
Label = tuple[str, Value]
Labels = tuple[Label, ...]


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self, num_bounds: int) -> None:
        self.counts = [0] * (num_bounds + 1)
        self.total = 0.0


class Measures:
    """Counts rows; `metrics` gives what there is."""

    def __init__(self, since: float, tenant: str = TENANT) -> None:
        """`since`: UTC epoch s, when counting began; `tenant`: that attribute's name."""
        self._since = nanoseconds(since)
        self._tenant = tenant
        self._owners: set[Labels] = set()
        self._histograms: dict[tuple[str, Labels], _Histogram] = {}
        self._sums: dict[tuple[str, Labels], int] = {}

    def add(self, record: Record) -> None:
        """One row."""
        mine = self._labels_of(record)
        ending: Labels = (("plimsoll.outcome", record.outcome.value), ("plimsoll.reason", record.reason.value))
        self._count("plimsoll.requests", mine + ending, 1)
        for verdict in record.verdicts:
            name: Labels = (("plimsoll.objective", verdict.objective),)
            charge = verdict.charge.value if verdict.charge else ""
            self._count("plimsoll.verdicts", (*mine, *name, ("plimsoll.verdict", "good")), verdict.num_good)
            bad: Labels = (("plimsoll.verdict", "bad"), ("plimsoll.charge", charge))
            self._count("plimsoll.verdicts", mine + name + bad, verdict.num_bad)
        if record.dispatched_at is None:
            return
        took = max(0.0, record.finished_at - record.arrived_at)
        self._time("gen_ai.server.request.duration", (*mine, ("error.type", error_of(record))), took)
        if record.outcome is Outcome.COMPLETED:
            for name_of_time, seconds in (("time_to_first_token", record.ttft), ("time_per_output_token", record.tpot)):
                if seconds is not None:
                    self._time(f"gen_ai.server.{name_of_time}", mine, seconds)
        self._tokens(record, mine)

    def _tokens(self, record: Record, mine: Labels) -> None:
        for kind, num in (("input", record.prompt_tokens), ("output", record.output_tokens)):
            self._time("gen_ai.client.token.usage", (*mine, ("gen_ai.token.type", kind)), float(num))
            self._count(f"gen_ai.client.inference.usage.{kind}_tokens", mine, num)
        if record.cached_tokens is not None:
            self._count("gen_ai.client.inference.usage.cache_read.input_tokens", mine, record.cached_tokens)

    def _labels_of(self, record: Record) -> Labels:
        mine = self._labels(record.tenant, record.tier, record.model, operation_of(record))
        if mine not in self._owners and len(self._owners) >= MAX_OWNERS:
            return self._labels("other", "other", "other", "other")
        self._owners.add(mine)
        return mine

    def _labels(self, tenant: str, tier: str, model: str, operation: str) -> Labels:
        return (
            ("gen_ai.operation.name", operation),
            ("gen_ai.provider.name", PROVIDER),
            ("gen_ai.request.model", model),
            (self._tenant, tenant),
            ("plimsoll.tier", tier),
        )

    def _count(self, name: str, labels: Labels, num: int) -> None:
        key = (name, labels)
        self._sums[key] = self._sums.get(key, 0) + num

    def _time(self, name: str, labels: Labels, value: float) -> None:
        bounds = HISTOGRAMS[name][1]
        histogram = self._histograms.setdefault((name, labels), _Histogram(len(bounds)))
        histogram.counts[bisect_left(bounds, value)] += 1
        histogram.total += value

    def metrics(self, now: float) -> list[Metric]:
        """All that was counted, as it stands at `now` (UTC epoch s)."""
        at = nanoseconds(now)
        found = []
        for name, (unit, bounds, text) in HISTOGRAMS.items():
            times = [self._point(at, bounds, *each) for each in self._of(name)]
            if times:
                data = Histogram(data_points=times, aggregation_temporality=_CUMULATIVE)
                found.append(Metric(name=name, unit=unit, description=text, histogram=data))
        for name, (unit, text) in COUNTERS.items():
            sums = [
                NumberDataPoint(
                    attributes=_said(labels), start_time_unix_nano=self._since, time_unix_nano=at, as_int=num
                )
                for (of, labels), num in self._sums.items()
                if of == name
            ]
            if sums:
                total = Sum(data_points=sums, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
                found.append(Metric(name=name, unit=unit, description=text, sum=total))
        return found

    def _of(self, name: str) -> Iterator[tuple[Labels, _Histogram]]:
        return ((labels, each) for (of, labels), each in self._histograms.items() if of == name)

    def _point(self, at: int, bounds: tuple[float, ...], labels: Labels, each: _Histogram) -> HistogramDataPoint:
        return HistogramDataPoint(
            attributes=_said(labels),
            start_time_unix_nano=self._since,
            time_unix_nano=at,
            count=sum(each.counts),
            sum=each.total,
            bucket_counts=each.counts,
            explicit_bounds=bounds,
        )


def _said(labels: Labels) -> list[KeyValue]:
    return attributes(dict(labels))

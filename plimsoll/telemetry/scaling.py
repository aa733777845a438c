"""What an autoscaler needs of each pool: how full it is, how much of it is left, where its tail goes.

How many replicas there should be is not ours to say: it is `busy_replicas` divided by the load that each should carry.
Formats: plain JSON (KEDA's metrics-api scaler takes a value by its path), and Kubernetes' external metrics
(`ExternalMetricValueList` of external.metrics.k8s.io/v1beta1).
"""

from collections import deque
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from msgspec import Struct

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import PoolState, Snapshot
from plimsoll.slo.timing import bucket_of
from plimsoll.telemetry.exposition import Exposition
from plimsoll.telemetry.owners import edge_of
from plimsoll.telemetry.rules import MIN_FOR_P99

SLICE: Final = 60.0  # s
RECENT: Final = 5  # slices of the P99 now
KEPT: Final = 60  # slices of the P99 that it is held against


class PoolSignal(Struct, frozen=True):
    """One pool. None is not known: no replica can be sent anything, or too few requests for a P99."""

    saturation: float | None  # 1 holds
    headroom: float | None  # what is left up to where dispatch holds, as a share of that
    replicas: int  # that can be sent something
    busy_replicas: float | None  # replicas' worth of load, what waits included
    waiting: int
    in_flight: int
    ttft_p99: float | None  # s, of the last five minutes
    ttft_p99_trend: float | None  # … divided by that of the last hour
    num: int  # requests of the last five minutes with a first token


FIELDS: Final[dict[str, str]] = {
    "headroom": "What is left of a pool up to where dispatch holds, as a share of that.",
    "busy_replicas": "Replicas' worth of load, what waits included.",
    "ttft_p99": "P99 of TTFT over the last five minutes, s.",
    "ttft_p99_trend": "P99 of TTFT of five minutes, divided by that of an hour.",
}
"""Those that /metrics has not by other names, with its words."""


class _Slice:
    __slots__ = ("buckets", "minute")

    def __init__(self, minute: int) -> None:
        self.minute = minute
        self.buckets: dict[int, int] = {}


class Scaling:
    """Counts first tokens by pool and minute; bounded by the policy's pools and an hour."""

    def __init__(self) -> None:
        self._slices: dict[str, deque[_Slice]] = {}

    def settled(self, settle: Settle) -> None:
        """One request ended. Called for each."""
        record = settle.record
        if record.ttft is None or not record.pool:
            return
        minute = int(record.finished_at // SLICE)
        slices = self._slices.get(record.pool)
        if slices is None:
            slices = self._slices[record.pool] = deque(maxlen=KEPT)
        if not slices or slices[-1].minute < minute:
            slices.append(_Slice(minute))
        buckets, bucket = slices[-1].buckets, bucket_of(max(record.ttft, 1e-6))
        buckets[bucket] = buckets.get(bucket, 0) + 1

    def signals(self, snapshot: Snapshot, limit: float) -> dict[str, PoolSignal]:
        """By pool, at the snapshot's instant; `limit` is the saturation at which dispatch holds."""
        return {pool.pool: self._signal(pool, snapshot.at, limit) for pool in snapshot.pools}

    def _signal(self, pool: PoolState, at: float, limit: float) -> PoolSignal:
        open_to = [replica.saturation for replica in pool.replicas if replica.routable]
        load = sum(open_to)
        full = pool.saturation
        hour = self._merged(pool.pool, at, KEPT)
        recent = self._merged(pool.pool, at, RECENT)
        now, usual = p99(recent), p99(hour)
        return PoolSignal(
            saturation=full,
            headroom=None if full is None else max(0.0, 1 - full / limit),
            replicas=len(open_to),
            busy_replicas=None if not open_to else load + pool.waiting * _each(pool, load),
            waiting=pool.waiting,
            in_flight=pool.in_flight,
            ttft_p99=now,
            ttft_p99_trend=None if now is None or usual is None else now / usual,
            num=sum(recent.values()),
        )

    def _merged(self, pool: str, at: float, num_slices: int) -> dict[int, int]:
        oldest, merged = int(at // SLICE) - num_slices, dict[int, int]()
        for each in self._slices.get(pool, ()):
            if each.minute > oldest:
                for bucket, num in each.buckets.items():
                    merged[bucket] = merged.get(bucket, 0) + num
        return merged


def _each(pool: PoolState, load: float) -> float:
    """A request's share of a replica: what those in flight take, on average; where none is, all of one."""
    return load / pool.in_flight if pool.in_flight and load else 1.0


def p99(buckets: dict[int, int]) -> float | None:
    """Upper edge of the bucket with the P99, s; None where there are too few values to bound one."""
    num = sum(buckets.values())
    if num < MIN_FOR_P99:
        return None
    rank, so_far = ceil(0.99 * num), 0
    for bucket in sorted(buckets):
        so_far += buckets[bucket]
        if so_far >= rank:
            return edge_of(bucket)
    return None


def write(page: Exposition, signals: dict[str, PoolSignal]) -> None:
    """The signals as gauges; what is not known has no sample."""
    for field, text in FIELDS.items():
        name = {"ttft_p99": "ttft_p99_seconds", "headroom": "headroom_ratio", "ttft_p99_trend": "ttft_p99_trend_ratio"}
        page.family(f"plimsoll_pool_{name.get(field, field)}", "gauge", text)
        for pool, signal in signals.items():
            page.optional(getattr(signal, field), pool=pool)


def external_metrics(metric: str, signals: dict[str, PoolSignal], at: float) -> dict[str, Any] | None:
    """Kubernetes' list of that field, an item a pool; quantities in thousandths. None where there is no such field."""
    if metric not in PoolSignal.__struct_fields__:
        return None
    values = {pool: getattr(signal, metric) for pool, signal in signals.items()}
    instant = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": metric,
                "metricLabels": {"pool": pool},
                "timestamp": instant,
                "value": f"{round(1000 * value)}m",
            }
            for pool, value in values.items()
            if value is not None
        ],
    }

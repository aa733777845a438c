"""Signals for autoscalers: by pool, honest about what is not known, in the shapes that KEDA and Kubernetes read."""

import pytest

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import PoolState, ReplicaState, Snapshot
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.scaling import FIELDS, PoolSignal, Scaling, external_metrics, p99, write
from tests.telemetry.test_prometheus_page import record

NOW = 1_793_500_000.0


def replica(saturation: float, *, routable: bool = True) -> ReplicaState:
    name = f"http://r{saturation}"
    return ReplicaState(
        name, True, routable, False, 4, 8, 16, "slots", saturation, {}, {}, None, None, None, None
    )  # fmt: skip


def snapshot(*replicas: ReplicaState, waiting: int = 0, saturation: float | None = 0.5) -> Snapshot:
    pool = PoolState("chat", "m", waiting, 4 * len(replicas), saturation, replicas)
    return Snapshot(NOW, "v1", False, 0, (pool,), (), ())


def fed(scaling: Scaling, ttft: float, num: int, at: float) -> None:
    for _ in range(num):
        scaling.settled(Settle(record(pool="chat", ttft=ttft, dispatched_at=1.0, finished_at=at), ()))


def test_load_is_told_in_replicas_with_what_waits() -> None:
    signal = Scaling().signals(snapshot(replica(0.5), replica(0.25), replica(0.9, routable=False), waiting=8), 1.0)
    assert signal["chat"].replicas == 2
    assert signal["chat"].busy_replicas == pytest.approx(0.75 + 8 * 0.75 / 12)
    assert signal["chat"].headroom == 0.5


def test_headroom_ends_where_dispatch_holds() -> None:
    scaling = Scaling()
    assert scaling.signals(snapshot(replica(0.5)), 0.8)["chat"].headroom == pytest.approx(0.375)
    assert scaling.signals(snapshot(replica(0.9), saturation=0.9), 0.8)["chat"].headroom == 0.0


def test_no_replica_is_not_no_load() -> None:
    signal = Scaling().signals(snapshot(saturation=None, waiting=3), 1.0)["chat"]
    assert (signal.saturation, signal.headroom, signal.busy_replicas, signal.replicas) == (None, None, None, 0)


def test_the_tail_of_five_minutes_is_held_against_an_hour() -> None:
    scaling = Scaling()
    fed(scaling, 0.5, 4000, NOW - 1800)
    assert scaling.signals(snapshot(replica(0.5)), 1.0)["chat"].ttft_p99 is None, "nobody came of late"
    fed(scaling, 2.0, 367, NOW - 10)
    assert scaling.signals(snapshot(replica(0.5)), 1.0)["chat"].ttft_p99 is None, "367 values bound no P99"
    fed(scaling, 2.0, 1, NOW - 10)
    signal = scaling.signals(snapshot(replica(0.5)), 1.0)["chat"]
    assert signal.num == 368
    assert signal.ttft_p99 == pytest.approx(2.0, rel=0.03)
    assert signal.ttft_p99_trend == pytest.approx(1.0, rel=0.03), "eight of a hundred are above the hour's P99, too"
    scaling = Scaling()
    fed(scaling, 0.5, 40_000, NOW - 1800)
    fed(scaling, 2.0, 368, NOW - 10)
    trend = scaling.signals(snapshot(replica(0.5)), 1.0)["chat"].ttft_p99_trend
    assert trend == pytest.approx(4.0, rel=0.03)


def test_an_hour_is_kept_and_no_more() -> None:
    scaling = Scaling()
    fed(scaling, 9.0, 500, NOW - 3700)
    fed(scaling, 1.0, 500, NOW)
    assert scaling.signals(snapshot(replica(0.5)), 1.0)["chat"].ttft_p99_trend == pytest.approx(1.0)


def test_p99_is_that_of_the_rank() -> None:
    assert p99({0: 396, 32: 4}) == 1.0
    assert p99({0: 395, 32: 5}) == 2.0
    assert p99({0: 367}) is None


def test_what_is_not_known_has_no_sample() -> None:
    page = Page()
    write(page, Scaling().signals(snapshot(replica(0.5)), 1.0))
    text = b"".join(page.pieces()).decode()
    assert 'plimsoll_pool_headroom_ratio{pool="chat"} 0.5' in text
    assert "plimsoll_pool_ttft_p99_seconds{" not in text
    assert FIELDS.keys() <= set(PoolSignal.__struct_fields__)


def test_kubernetes_list() -> None:
    signals = Scaling().signals(snapshot(replica(0.5), replica(0.25), waiting=0), 1.0)
    found = external_metrics("busy_replicas", signals, NOW)
    assert found is not None
    assert found["items"] == [
        {
            "metricName": "busy_replicas",
            "metricLabels": {"pool": "chat"},
            "timestamp": "2026-11-01T02:26:40Z",
            "value": "750m",
        }
    ]
    assert external_metrics("ttft_p99", signals, NOW) == found | {"items": []}
    assert external_metrics("nonsense", signals, NOW) is None

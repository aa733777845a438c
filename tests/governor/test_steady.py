"""Tiers that prefer capable replicas avoid those that stall; others do not, and nobody waits for it."""

import msgspec
import pytest

from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.governor.events import CapabilitiesReported, PolicyChanged
from plimsoll.governor.recording import decode, encode
from plimsoll.governor.shown import ReplicaSteadiness
from plimsoll.policy.document import examine, parse
from tests.governor.service import Service, only
from tests.laws.histories import START

URLS = ("http://a", "http://b", "http://c")
TEXT = """
plimsoll: 1
tiers: [{name: gold, rank: 0, prefer: capable}, {name: bronze, rank: 1}]
tenants: [{name: ada, tier: gold}, {name: bob, tier: bronze}]
pools: [{name: chat, model: m, engine: vllm, replicas: ["http://a", "http://b", "http://c"]}]
"""


def told(service: Service, at: float, *ratios: float | None) -> None:
    stalls = [ReplicaSteadiness(url, ratio) for url, ratio in zip(URLS, ratios, strict=True) if ratio is not None]
    service.governor.handle(CapabilitiesReported(START + at, tuple(stalls)))


def sent(service: Service, at: float, tenant: str = "ada") -> str:
    return only(Dispatch, service.ask(at, tenant)).replica


def test_an_unsteady_replica_is_avoided_by_the_tier_that_asks() -> None:
    service = Service(parse(TEXT))
    told(service, 0.5, 0.05, 0.001, 0.001)
    assert [sent(service, 1.0 + number / 10) for number in range(4)] == [URLS[1], URLS[2], URLS[1], URLS[2]]
    assert sent(service, 2.0, "bob") == URLS[0]


def test_it_is_taken_before_anybody_waits() -> None:
    service = Service(parse(TEXT), kv_blocks=100)
    told(service, 0.5, 0.05, 0.001, 0.001)
    replicas = [sent(service, 1.0 + number / 100) for number in range(15)]
    assert replicas.count(URLS[0]) == 5
    only(Enqueue, service.ask(2.0))


@pytest.mark.parametrize("ratios", [(0.004, 0.0, 0.0), (0.05, None, None), (0.05, 0.04, 0.04), (None, None, None)])
def test_few_stalls_nothing_known_or_no_better_ones_change_nothing(ratios: tuple[float | None, ...]) -> None:
    service = Service(parse(TEXT))
    told(service, 0.5, *ratios)
    assert sent(service, 1.0) == URLS[0]


def test_it_is_forgiven_when_it_is_clearly_better_and_forgotten_when_nothing_is_told() -> None:
    service = Service(parse(TEXT))
    told(service, 0.5, 0.05, 0.002, 0.002)
    told(service, 0.6, 0.005, 0.002, 0.002)  # below the bound of 0.6 %, but not clearly
    assert sent(service, 1.0) == URLS[1]
    told(service, 1.1, 0.003, 0.002, 0.002)
    assert sent(service, 1.2) == URLS[0]
    told(service, 1.3, 0.05, 0.002, 0.002)
    told(service, 1.4, None, None, None)
    assert sent(service, 1.5, "bob") == URLS[2]
    assert sent(service, 1.6) == URLS[0]


def test_a_reload_keeps_what_was_told() -> None:
    service = Service(parse(TEXT))
    told(service, 0.5, 0.05, 0.001, 0.001)
    service.governor.handle(PolicyChanged(START + 0.6, parse(TEXT.replace("rank: 1", "rank: 2"))))
    assert sent(service, 1.0) == URLS[1]


def test_the_snapshot_shows_it() -> None:
    service = Service(parse(TEXT))
    told(service, 0.5, 0.05, None, 0.001)
    (pool,) = service.governor.snapshot(START + 1.0).pools
    assert [replica.stall_ratio for replica in pool.replicas] == [0.05, None, 0.001]
    assert [replica.unsteady for replica in pool.replicas] == [True, False, False]


def test_the_event_can_be_replayed() -> None:
    event = CapabilitiesReported(1.0, (ReplicaSteadiness("r", 0.25),))
    assert decode(encode(event)) == event


def test_other_preferences_are_told() -> None:
    (fault,) = examine(TEXT.replace("capable", "fast")).faults
    assert fault.path == "tiers[0].prefer"
    quality = TEXT.replace("engine: vllm", "engine: vllm, quality: 0.82")
    (pool,) = parse(quality).pools
    assert pool.quality == 0.82
    assert msgspec.structs.replace(pool, quality=None) == parse(TEXT).pools[0]

"""Tiers served by the best pool that is measured to be quick enough, and the ladder's small model found that way."""

import pytest
from msgspec import json
from msgspec.structs import replace

from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.governor.events import CapabilitiesReported, Criticality, PolicyChanged, RequestRead
from plimsoll.governor.governor import Governor
from plimsoll.governor.pathway import Path, path
from plimsoll.governor.plugins import drops
from plimsoll.governor.recording import decode, encode
from plimsoll.governor.restoring import restore
from plimsoll.governor.shown import PoolPace
from plimsoll.governor.snapshot import Snapshot
from plimsoll.policy.document import parse
from tests.governor.service import Service, only
from tests.governor.test_pathway import asked as arrived
from tests.laws.histories import START

TEXT = """
plimsoll: 1
tiers:
  - {name: gold, rank: 0, classes: {within: 120ms}}
  - {name: bronze, rank: 1, classes: {usual: [slow, quick]}}
  - {name: thrift, rank: 2, classes: {usual: [quick], within: 100ms, p99_of: tpot}}
tenants: [{name: ada, tier: gold}, {name: bob, tier: bronze}, {name: tom, tier: thrift}]
pools:
  - {name: big, sla_class: slow, quality: 82, model: m70, aliases: [m], engine: vllm, replicas: ["http://big"]}
  - {name: mid, sla_class: quick, quality: 70, model: m13, aliases: [m], engine: vllm, replicas: ["http://mid"]}
  - {name: lite, sla_class: quick, quality: 60, model: m3, aliases: [m], engine: vllm, replicas: ["http://lite"]}
"""
LADDER = "degradation: {when: {p99_of: ttft, above: 1s, for: 30s}, levels: [small_model], small_model: front}\n"


def told(service: Service, at: float, *paces: PoolPace) -> None:
    service.governor.handle(CapabilitiesReported(START + at, (), paces))


def ttfts(service: Service, at: float, *times: float | None) -> None:
    """P99 of TTFT of big, mid and lite."""
    told(
        service,
        at,
        *[PoolPace(name, 0.02, time, 0.05) for name, time in zip(("big", "mid", "lite"), times, strict=True)],
    )


def pool_of(service: Service, at: float, tenant: str = "ada", **more: object) -> str:
    return only(Dispatch, service.ask(at, tenant, **more)).pool  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "pool"),
    [
        ((0.1, 0.08, 0.05), "big"),
        ((0.3, 0.1, 0.05), "mid"),
        ((0.3, 0.2, 0.05), "lite"),
        ((0.3, None, 0.25), "mid"),  # one that is not known goes before those that are known to be too slow
        ((0.3, 0.2, 0.25), "mid"),  # none is quick enough: the quickest
        ((None, None, None), "big"),  # nothing is known: the best
    ],
)
def test_the_best_of_those_that_are_quick_enough(times: tuple[float | None, ...], pool: str) -> None:
    service = Service(parse(TEXT))
    ttfts(service, 0.5, *times)
    assert pool_of(service, 1.0) == pool
    assert pool_of(service, 1.1, "bob") == "big", "a tier that names classes goes by them"


def test_before_anything_is_measured_a_pool_counts_as_it_is_built() -> None:
    text = TEXT.replace("quality: 82,", "quality: 82, built_for: 800ms,").replace(
        "quality: 70,", "quality: 70, built_for: 100ms,"
    )
    service = Service(parse(text))
    assert pool_of(service, 1.0) == "mid"
    ttfts(service, 2.0, 0.1, 0.2, None)
    assert pool_of(service, 3.0) == "big"


def test_where_it_is_full_the_next_in_that_order_takes_it_and_else_it_waits_for_the_best() -> None:
    service = Service(parse(TEXT), kv_blocks=20)
    ttfts(service, 0.5, 0.3, 0.05, 0.1)
    assert [pool_of(service, at) for at in (1.0, 2.0, 3.0)] == ["mid", "lite", "big"]
    assert only(Enqueue, service.ask(4.0)).request_id == 4
    sent = only(Dispatch, service.done(5.0, 1))
    assert (sent.request_id, sent.pool) == (4, "mid")


def test_classes_say_which_pools_and_time_a_token_may_be_what_counts() -> None:
    service = Service(parse(TEXT))
    told(
        service,
        0.5,
        PoolPace("big", 0.02, 9.0, 0.03),
        PoolPace("mid", 0.02, 9.0, 0.2),
        PoolPace("lite", 0.01, 9.0, 0.02),
    )
    assert pool_of(service, 1.0, "tom") == "lite", "big is not of its classes, mid too slow a token"


def test_a_pool_near_the_limit_does_not_come_and_go() -> None:
    service = Service(parse(TEXT))
    seen = []
    for at, time in enumerate((0.119, 0.125, 0.131, 0.133, 0.119, 0.110, 0.107, 0.125)):
        ttfts(service, at, time, 0.05, 0.05)
        seen.append(pool_of(service, at + 0.5, prompt=16, output=16))
    assert seen == ["big", "big", "big", "mid", "mid", "mid", "big", "big"]


def test_a_reload_keeps_what_was_told_and_a_report_replaces_it() -> None:
    service = Service(parse(TEXT))
    ttfts(service, 0.5, 0.3, 0.1, 0.05)
    service.governor.handle(PolicyChanged(START + 0.6, parse(TEXT.replace("rank: 2", "rank: 3"))))
    assert pool_of(service, 1.0) == "mid"
    told(service, 1.5)
    assert pool_of(service, 2.0) == "big"


def climb(service: Service, at: int) -> None:
    """Slow first tokens on big until its ladder is up."""
    for each in range(at, at + 60):
        for _ in range(2):
            sent = only(Dispatch, service.ask(each, prompt=16, output=16, criticality=Criticality.CRITICAL))
            service.first(each + 0.5, sent.request_id)
            service.done(each + 0.9, sent.request_id, began=each + 0.5)
        service.report(each + 0.95)


def ladder(paces: dict[str, float]) -> Service:
    text = TEXT.replace("classes: {within: 120ms}", "classes: {usual: [slow, quick]}") + LADDER.replace(
        "above: 1s", "above: 400ms"
    )
    service = Service(parse(text))
    told(service, 0.5, *[PoolPace(name, time) for name, time in paces.items()])
    climb(service, 1)
    assert service.governor.snapshot(START + 61).pools[0].degradation_level == 1
    return service


@pytest.mark.parametrize(
    ("paces", "pool", "model"),
    [
        ({"big": 0.03, "mid": 0.02, "lite": 0.01}, "mid", "m13"),  # the next one on the front
        ({"big": 0.03, "mid": 0.02, "lite": 0.025}, "mid", "m13"),
        ({"big": 0.03, "mid": 0.029, "lite": 0.01}, "lite", "m3"),  # not a tenth quicker
        ({"big": 0.03, "mid": 0.04, "lite": 0.05}, "big", ""),  # nobody is
        ({"mid": 0.01}, "big", ""),  # how quick the own pool is is not known, and no target is named
    ],
)
def test_the_small_model_is_the_next_on_the_front(paces: dict[str, float], pool: str, model: str) -> None:
    service = ladder(paces)
    sent = only(Dispatch, service.ask(62, prompt=16, output=16, criticality=Criticality.DEFAULT))
    assert (sent.pool, sent.model) == (pool, model)
    assert sent.degraded == ("small_model" if model else "")


def test_the_small_model_is_one_that_the_tier_may_use_and_that_is_up() -> None:
    service = ladder({"big": 0.03, "mid": 0.02, "lite": 0.01})
    service.report(61.5, down=["http://mid"])
    assert pool_of(service, 62, prompt=16, output=16, criticality=Criticality.DEFAULT) == "lite"
    slow = TEXT.replace("classes: {within: 120ms}", "classes: {usual: [slow]}") + LADDER.replace(
        "above: 1s", "above: 400ms"
    )
    service.governor.handle(PolicyChanged(START + 63, parse(slow)))
    climb(service, 64)
    assert pool_of(service, 130, prompt=16, output=16, criticality=Criticality.DEFAULT) == "big"


def test_the_path_says_it_and_a_snapshot_is_enough() -> None:
    service = Service(parse(TEXT))
    ttfts(service, 0.5, 0.11, 0.05, 0.04)
    ttfts(service, 0.6, 0.125, 0.05, None)  # big was quick enough before, and is within a tenth
    for found in (again(service), path(service.governor, arrived())):
        why = {step.step: step.why for step in found.steps}["classes"]
        assert found.pool == "big"
        assert "of those that showed a P99 of ttft within 120ms the best first" in why
        assert "big (slow, quality 82, within it with 125ms): takes it now; mid" in why
        assert "lite (quick, quality 60, not known how quick)" in why


def test_the_path_says_where_the_small_model_is_and_a_snapshot_is_enough() -> None:
    service = ladder({"big": 0.03, "mid": 0.02, "lite": 0.01})
    told(service, 61.5, PoolPace("big", 0.03), PoolPace("mid", 0.028), PoolPace("lite", 0.01))  # mid was quicker before
    event = arrived(62, prompt=16, output=16, criticality=Criticality.DEFAULT)
    for found in (again(service, event), path(service.governor, event)):
        why = {step.step: step.why for step in found.steps}["degradation"]
        assert (found.pool, found.degraded) == ("mid", "small_model")
        assert "the best of those that are quicker and can take it (28ms a token against 30ms)" in why


def again(service: Service, event: object = None) -> Path:
    """The path by a governor that only knows the JSON of the snapshot."""
    like = arrived() if event is None else event
    text = json.encode(service.governor.snapshot(like.at))  # type: ignore[attr-defined]
    fresh = Governor(service.governor.policy)
    restore(fresh, json.decode(text, type=Snapshot), like)  # type: ignore[arg-type]
    return path(fresh, like)  # type: ignore[arg-type]


def test_plugins_are_left_out_by_the_ladder_of_the_pool_that_it_goes_to() -> None:
    text = TEXT + LADDER.replace("[small_model], small_model: front", "[drop_plugins]").replace(
        "above: 1s", "above: 400ms"
    )
    service = Service(parse(text))
    ttfts(service, 0.5, 0.1, 0.05, 0.05)
    climb(service, 1)
    read = RequestRead(START + 61, 9_999, "ada", "m", 16, Criticality.DEFAULT, "")
    assert drops(service.governor.register, read)
    ttfts(service, 61.5, 0.3, 0.05, 0.05)
    assert not drops(service.governor.register, replace(read, at=START + 62)), "it goes to mid, which is quick"


def test_the_event_can_be_replayed_also_one_of_before() -> None:
    event = CapabilitiesReported(1.0, (), (PoolPace("big", 0.02, None, 0.03),))
    assert decode(encode(event)) == event

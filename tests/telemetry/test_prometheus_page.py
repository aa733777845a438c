"""The metrics page: what Prometheus' own parser reads is what was settled; unknown values have no sample."""

from fractions import Fraction
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import PoolState, QueueState, ReplicaState, Snapshot
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement, Verdict
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.owners import Histogram
from plimsoll.telemetry.prometheus import Metrics, write_snapshot

EMPTY: dict[str, Any] = {
    field.name: {str: "", int: 0, float: 0.0, bool: False}.get(field.type) for field in msgspec.structs.fields(Record)
}


def record(**fields: Any) -> Record:
    base = EMPTY | {
        "tenant": "acme",
        "tier": "gold",
        "outcome": Outcome.COMPLETED,
        "reason": Reason.DONE,
        "verdicts": (),
    }
    return Record(**(base | fields))


def samples(page: Page) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(b"".join(page.pieces()).decode()):
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            assert key not in found.setdefault(sample.name, {}), "a series twice"
            found[sample.name][key] = sample.value
    return found


def page_of(metrics: Metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    page = Page()
    for _ in metrics.write(page):
        pass
    return samples(page)


def test_what_plugins_said_and_how_long_it_took() -> None:
    metrics = Metrics()
    for plugins, seconds in (("guard:allow,topic:timeout", 0.25), ("guard:deny", 0.01), ("guard:allow", 0.02)):
        metrics.settled(Settle(record(plugins=plugins, plugin_time=seconds), ()))
    metrics.settled(Settle(record(), ()))
    page = page_of(metrics)
    said = {tuple(dict(key).values()): num for key, num in page["plimsoll_plugin_answers_total"].items()}
    assert said == {("allow", "guard"): 2, ("deny", "guard"): 1, ("timeout", "topic"): 1}
    assert list(page["plimsoll_plugins_seconds_count"].values()) == [3]


ENDINGS = st.tuples(
    st.sampled_from(["acme", 'be"ta\\', "ga\nmma"]),
    st.sampled_from(["gold", "bronze"]),
    st.sampled_from([(Outcome.COMPLETED, Reason.DONE), (Outcome.SHED, Reason.OVERLOAD)]),
    st.none() | st.floats(0.0005, 400),
)


@settings(max_examples=30)
@given(st.lists(ENDINGS, max_size=20))
def test_every_settlement_is_on_the_page_once(endings: list[Any]) -> None:
    metrics = Metrics()
    for tenant, tier, (outcome, reason), ttft in endings:
        told = record(tenant=tenant, tier=tier, outcome=outcome, reason=reason, ttft=ttft, dispatched_at=1.0)
        metrics.settled(Settle(told, ()))
    page = page_of(metrics)
    assert sum(page.get("plimsoll_requests_total", {}).values()) == len(endings)
    known = [ttft for *_, ttft in endings if ttft is not None]
    assert sum(page.get("plimsoll_ttft_seconds_count", {}).values()) == len(known)
    assert sum(page.get("plimsoll_ttft_seconds_sum", {}).values()) == pytest.approx(sum(known))


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_buckets_never_fall_and_hold_what_is_below_them(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    histogram.take_up()
    *counts, num = histogram.cumulated()
    assert counts == sorted(counts)
    assert num == histogram.num == len(values)
    assert counts[0] == sum(value <= 2.0**-10 for value in values)
    assert counts[-1] == sum(value <= 512 for value in values)


def test_itl_comes_from_sketches() -> None:
    metrics = Metrics()
    sketches = (ItlSketch(3, {-160: 2}), ItlSketch(0, {-160: 1}), ItlSketch())
    metrics.settled(Settle(record(itl_sketches=sketches, dispatched_at=1.0, output_tokens=7), ()))
    page = page_of(metrics)
    assert page["plimsoll_itl_seconds_count"] == {(("tenant", "acme"), ("tier", "gold")): 6}
    assert sum(page["plimsoll_itl_seconds_sum"].values()) == pytest.approx(3 * 2**-5)
    assert sum(page["plimsoll_output_tokens_total"].values()) == 7


def test_verdicts_are_counted_from_zero() -> None:
    metrics = Metrics()
    gold = Tier("gold", 0, objectives=(Objective("ttft", Sli.TTFT, 0.8, Fraction(99, 100)),))
    metrics.take(Policy(tiers=(gold,), tenants=(Tenant("acme", "gold"),)))
    labels = (("objective", "ttft"), ("tenant", "acme"), ("tier", "gold"))
    assert page_of(metrics)["plimsoll_verdicts_total"][(*labels, ("verdict", "bad"))] == 0
    verdicts = (Verdict("ttft", Judgement.BAD, 0, 1), Verdict("itl", Judgement.BAD, 40, 2))
    metrics.settled(Settle(record(verdicts=verdicts), ()))
    metrics.settled(Settle(record(verdicts=(Verdict("ttft", Judgement.CENSORED, 0, 0),)), ()))
    found = page_of(metrics)["plimsoll_verdicts_total"]
    told = {(dict(key)["objective"], dict(key)["verdict"]): num for key, num in found.items() if num}
    assert told == {("ttft", "bad"): 1, ("ttft", "censored"): 1, ("itl", "good"): 40, ("itl", "bad"): 2}


def test_unknown_has_no_sample() -> None:
    replica = ReplicaState("http://r1", True, True, False, 3, 40, 100, "blocks", 0.4, {}, {}, None, 0, None, None)
    state = Snapshot(
        1.0,
        "v1",
        False,
        0,
        (PoolState("chat", "m", 0, 3, None, (replica,)),),
        (QueueState("chat", "gold", "acme", 4, 0.5),),
        (),
    )
    page = Page()
    write_snapshot(page, state)
    found = samples(page)
    assert "plimsoll_replica_running_requests" not in found
    assert "plimsoll_pool_saturation_ratio" not in found
    assert list(found["plimsoll_replica_queued_requests"].values()) == [0]
    assert list(found["plimsoll_replica_up"].values()) == [1]
    assert list(found["plimsoll_waiting_requests"].values()) == [4]


def test_infinity_is_written_as_prometheus_reads_it() -> None:
    page = Page()
    page.family("x", "gauge", "X.")
    page.sample(inf)
    assert samples(page)["x"][()] == inf

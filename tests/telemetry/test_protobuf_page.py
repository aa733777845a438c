"""The protobuf page: what Google's library reads of it is what the text page says, and native buckets lose nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.governor.decisions import Settle
from plimsoll.slo.timing import bucket_of
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.prometheus import Metrics
from plimsoll.telemetry.protobufpage import CONTENT_TYPE, ProtobufPage, is_wanted
from tests.telemetry.clientmodel import families
from tests.telemetry.test_prometheus_page import ENDINGS, record, samples


def filled(endings: list[Any]) -> Metrics:
    metrics = Metrics()
    for tenant, tier, (outcome, reason), ttft in endings:
        told = record(tenant=tenant, tier=tier, outcome=outcome, reason=reason, ttft=ttft, dispatched_at=1.0)
        metrics.settled(Settle(told, ()))
    return metrics


def written(metrics: Metrics, page: Page | ProtobufPage) -> Any:
    for _ in metrics.write(page):
        pass
    return samples(page) if isinstance(page, Page) else families(b"".join(page.pieces()))


@given(st.lists(ENDINGS, max_size=12))
def test_both_formats_say_the_same(endings: list[Any]) -> None:
    metrics = filled(endings)
    text, protobuf = written(metrics, Page()), written(metrics, ProtobufPage())
    found: dict[str, dict[Any, float]] = {}
    for family in protobuf:
        for metric in family.metric:
            labels = tuple(sorted((pair.name, pair.value) for pair in metric.label))
            if metric.HasField("histogram"):
                told = metric.histogram
                found.setdefault(f"{family.name}_count", {})[labels] = told.sample_count
                found.setdefault(f"{family.name}_sum", {})[labels] = told.sample_sum
            else:
                found.setdefault(family.name, {})[labels] = metric.counter.value
    classic = {name: text.pop(name) for name in list(text) if name.endswith("_bucket")}
    assert found.keys() == text.keys()
    for name, values in text.items():
        assert found[name] == pytest.approx(values)
    assert bool(classic) is any(name.endswith("_count") for name in text)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_native_buckets_are_the_sketch_itself(values: list[float]) -> None:
    metrics = filled([("acme", "gold", ("completed", "done"), value) for value in values])
    (ttft,) = [family for family in written(metrics, ProtobufPage()) if family.name == "plimsoll_ttft_seconds"]
    told = ttft.metric[0].histogram
    assert (told.schema, told.zero_threshold, told.zero_count) == (5, 0.0, values.count(0.0))
    counted: dict[int, int] = {}
    index = num = 0
    deltas = iter(told.positive_delta)
    for span in told.positive_span:
        index += span.offset
        for _ in range(span.length):
            num += next(deltas)
            counted[index] = num
            index += 1
    expected: dict[int, int] = {}
    for value in values:
        if value > 0:
            expected[bucket_of(value)] = expected.get(bucket_of(value), 0) + 1
    assert counted == expected


def test_gauges_and_unknown_values() -> None:
    page = ProtobufPage()
    page.family("g", "gauge", "Help.")
    page.sample(1.5, pool="a")
    page.optional(None, pool="b")
    page.family("none", "gauge", "Nothing is known.")
    page.optional(None)
    (only,) = families(b"".join(page.pieces()))
    assert (only.name, only.help, only.type) == ("g", "Help.", 1)
    assert [metric.gauge.value for metric in only.metric] == [1.5]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (CONTENT_TYPE + ";q=0.7, text/plain;version=0.0.4;q=0.3", True),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", True),
        ("text/plain;version=0.0.4, " + CONTENT_TYPE, False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_gets_it(accept: str, wanted: bool) -> None:
    assert is_wanted(accept) is wanted

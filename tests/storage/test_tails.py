"""Tails by any labels: what SQL gathers is what adding row by row gives; groups are bounded and nothing is lost."""

import duckdb
import pytest
from msgspec.structs import replace

from plimsoll.analytics.gathering import EVERYTHING, Window
from plimsoll.analytics.tails import TailGroup, Tails
from plimsoll.analytics.tally import Tally, promises_of
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.slo.cutstreams import CutStreams
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.timing import bucket_of
from plimsoll.storage import tails as storage
from plimsoll.storage.columns import table_of
from plimsoll.storage.sketches import LATENCIES
from tests.analytics.records import POLICY, START, record


def tails(
    log: list[Record],
    by: tuple[str, ...],
    every: float | None = None,
    window: Window = EVERYTHING,
    most: int = 500,
    *,
    wanted: tuple[str, ...] = LATENCIES,
) -> Tails:
    with duckdb.connect(":memory:") as connection:
        connection.register("requests", table_of([Settle(each, ()) for each in log], list(range(len(log)))))
        return storage.tails(connection, window, by, every, "test", most=most, wanted=wanted)


def ttft(group: TailGroup, level: float) -> float | None:
    (latency,) = [each for each in group.latencies if each.name == "ttft"]
    return next(each.value for each in latency.quantiles if each.quantile == level)


LOG = [record(i, i / 4, ttft=0.2 + (i % 977) / 500, num=1 + i % 40) for i in range(2400)]
LOG += [
    record(5000 + i, i, ttft=None, lasted=4.0, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT) for i in range(12)
]
LOG += [record(6000 + i, i, tenant="batch", tier="bronze", ttft=1.0 + i, prompt_tokens=9000) for i in range(20)]


def test_the_whole_is_what_adding_row_by_row_gives() -> None:
    tally = Tally()
    for each in LOG:
        tally.add(each, promises_of(POLICY))
    found = tails(LOG, ("tenant", "length"))
    assert found.num == len(LOG) == sum(group.num for group in found.groups)
    by_name = {latency.name: latency for latency in found.whole.latencies}
    for name, latency in tally.latencies.items():
        assert (by_name[name].num, by_name[name].num_cut_off) == (latency.seen.num, latency.cut_off.num)
    assert found.whole.itl.num == sum(part.num for part in tally.itl)
    assert [part.num for part in found.whole.itl_by_position] == [part.num for part in tally.itl]
    assert found.whole.num_bad == sum(any(verdict.num_bad for verdict in each.verdicts) for each in LOG)


def test_of_latencies_that_are_not_wanted_nothing_is_known() -> None:
    whole, some = tails(LOG, ("tenant",)), tails(LOG, ("tenant",), wanted=("ttft",))
    for all_of_it, group in zip(whole.groups, some.groups, strict=True):
        assert (group.labels, group.num, group.num_bad) == (all_of_it.labels, all_of_it.num, all_of_it.num_bad)
        for full, latency in zip(all_of_it.latencies, group.latencies, strict=True):
            assert latency == full if latency.name == "ttft" else latency.num == latency.num_cut_off == 0
    assert any(latency.num for group in whole.groups for latency in group.latencies if latency.name == "e2e")


def test_groups_have_their_labels_and_exact_small_quantiles() -> None:
    found = tails(LOG, ("tenant", "length"))
    assert [group.labels for group in found.groups] == [
        {"tenant": "acme", "length": "below 1k"},
        {"tenant": "batch", "length": "8k to 32k"},
    ]
    assert ttft(found.groups[1], 0.5) == 10.0  # the 10th of 1.0, 2.0 … 20.0


def test_slices_of_time_are_in_order_and_add_up() -> None:
    found = tails(LOG, (), every=300.0)
    starts = [group.slice for group in found.groups]
    assert starts == sorted(starts, key=lambda start: start or 0.0)
    assert all(start is not None and start % 300.0 == 0.0 for start in starts)
    assert sum(group.num for group in found.groups) == found.whole.num == len(LOG)


def test_a_window_and_a_tenant_with_a_hard_name() -> None:
    assert tails(LOG, ("tenant",), window=Window(START + 10, START + 12, "batch")).num == 2
    assert tails(LOG, ("tenant",), window=Window(tenant="nobody' OR true")).num == 0


def test_classes_of_tenants_at_once_and_of_variation() -> None:
    many = [
        replace(record(i, 1.0 + i / 100), tenant=f"t{i % 16}", prompt_tokens=100 * (1 + i // 16)) for i in range(64)
    ]
    alone = [record(1000 + i, 3600.0 + i / 100, prompt_tokens=100) for i in range(9)]
    found = tails([*many, *alone], ("tenants", "variation"))
    assert {tuple(group.labels.values()): group.num for group in found.groups} == {
        ("16 and more", "0.5 to 1"): 64,
        ("1 to 3", "below 0.5"): 9,
    }


def test_more_groups_than_the_bound_are_one() -> None:
    log = [replace(record(i, i), tenant=f"t{min(i // 4, 5 + i % 9)}") for i in range(60)]
    found = tails(log, ("tenant",), most=3)
    assert len(found.groups) == 4
    assert found.num_folded > 0
    assert sum(group.num for group in found.groups) == 60
    assert {"tenant": "(others)"} in [group.labels for group in found.groups]


def test_an_empty_log() -> None:
    found = tails([], ("tenant",))
    assert (found.num, found.groups, found.violations) == (0, (), None)


def test_gaps_of_cut_streams_are_those_of_all_positions() -> None:
    """Answers of 300 tokens, 10 ms a gap up to token 128 and 100 ms beyond; half of them are cut after 100 tokens."""
    near, far = bucket_of(0.01), bucket_of(0.1)
    whole = (ItlSketch(0, {near: 127}), ItlSketch(0, {far: 172}), ItlSketch())
    early = (ItlSketch(0, {near: 99}), ItlSketch(), ItlSketch())
    log = [replace(record(i, i), output_tokens=300, itl_sketches=whole) for i in range(50)]
    left = record(99, 0.0, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT)
    log += [replace(left, request_id=100 + i, output_tokens=100, itl_sketches=early) for i in range(50)]
    other = replace(record(500, 0.0), tenant="batch", output_tokens=300, itl_sketches=whole)
    found = tails([*log, other], ("tenant",))
    (acme, batch), seen = found.groups, 50 * 299 + 50 * 99
    assert (acme.num_cut_streams, acme.unseen_ratio, acme.itl.num) == (50, 0.0, seen)
    assert batch.itl_uncut is None, "nobody was cut there"
    assert acme.itl_uncut is not None
    corrected = [each.value for each in acme.itl_uncut.quantiles]
    assert acme.itl.quantiles[0].value == pytest.approx(0.01, rel=0.02)
    assert corrected[0] == pytest.approx(0.1, rel=0.02), "of 299 gaps of an answer 172 are slow"
    assert acme.itl_uncut.num == pytest.approx(seen, abs=2)
    assert found.whole.num_cut_streams == 50


def test_cut_streams_by_hand() -> None:
    """Two end at 4 tokens, two are cut after 2: tokens 3 and 4 count twice."""
    cut = CutStreams({(4, False): 2, (2, True): 2})
    assert (cut.num, cut.num_cut, cut.unseen_ratio) == (4, 2, 0.0)
    assert cut.weights(2) == (1.0, 1.0, 1.0)
    assert cut.weights(4)[0] == pytest.approx((1 + 2 + 2) / 3)
    assert CutStreams({(4, False): 1, (9, True): 1}).unseen_ratio == 0.5

"""Tails by any labels: what SQL gathers is what adding row by row gives; groups are bounded and nothing is lost."""

import duckdb
from msgspec.structs import replace

from plimsoll.analytics.gathering import EVERYTHING, Window
from plimsoll.analytics.tails import TailGroup, Tails
from plimsoll.analytics.tally import Tally, promises_of
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage import tails as storage
from plimsoll.storage.columns import table_of
from tests.analytics.records import POLICY, START, record


def tails(
    log: list[Record], by: tuple[str, ...], every: float | None = None, window: Window = EVERYTHING, most: int = 500
) -> Tails:
    with duckdb.connect(":memory:") as connection:
        connection.register("requests", table_of([Settle(each, ()) for each in log], list(range(len(log)))))
        return storage.tails(connection, window, by, every, "test", most=most)


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

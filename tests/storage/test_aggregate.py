"""Gathering by SQL gives what gathering record by record gives."""

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.analytics.figures import Report
from plimsoll.analytics.gathering import EVERYTHING, MAX_CAUSES, OTHER_CAUSES, Gathered, Window, gather
from plimsoll.analytics.report import compile_report
from plimsoll.governor.decisions import Settle
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.storage.aggregate import aggregate
from plimsoll.storage.columns import table_of
from tests.analytics.records import POLICY, START, record
from tests.analytics.test_report import logs


def by_sql(log: list[Record], window: Window = EVERYTHING, versions: dict[str, Policy] | None = None) -> Gathered:
    with duckdb.connect(":memory:") as connection:
        connection.register("requests", table_of([Settle(each, ()) for each in log], list(range(len(log)))))
        return aggregate(connection, POLICY, window, versions)


def report(gathered: Gathered, window: Window = EVERYTHING) -> Report:
    gathered.design_effects.clear()
    return compile_report(gathered, POLICY, window)


windows = st.builds(
    Window,
    st.sampled_from([float("-inf"), START, START + 10, START + 30.5]),
    st.sampled_from([float("inf"), START + 20, START + 10]),
    st.sampled_from([None, "acme", "nobody' OR true"]),
)


@settings(max_examples=8, deadline=None)
@given(logs(), windows)
def test_both_ways_give_one_report(log: list[Record], window: Window) -> None:
    plain, sql = report(gather(log, POLICY, window), window), report(by_sql(log, window), window)
    assert msgspec.to_builtins(sql) == msgspec.to_builtins(plain)


def test_groups_beyond_exactness_agree_too() -> None:
    log = [record(i, i / 10, ttft=0.2 + (i % 977) / 500, gap=0.01 * (1 + i % 20), num=1 + i % 40) for i in range(3000)]
    log += [record(3000 + i, i, tenant="batch", tier="bronze", ttft=1.0 + i) for i in range(20)]
    assert report(by_sql(log)) == report(gather(log, POLICY))


def test_each_version_is_judged_by_its_own_targets() -> None:
    """40 bad tokens of 100: too many for 90 %, allowed by an older policy's 50 %."""
    gold = POLICY.tiers[0]
    objectives = tuple([msgspec.structs.replace(each, target=each.target / 2) for each in gold.objectives])
    old = msgspec.structs.replace(
        POLICY, version="old", tiers=(msgspec.structs.replace(gold, objectives=objectives), *POLICY.tiers[1:])
    )
    slow = [msgspec.structs.replace(record(i, i, gap=0.11, num=11, lasted=2.0), policy_version="old") for i in range(3)]
    verdict = msgspec.structs.replace(slow[0].verdicts[1], num_good=6, num_bad=4)
    slow = [msgspec.structs.replace(each, verdicts=(each.verdicts[0], verdict, *each.verdicts[2:])) for each in slow]
    log = [*slow, msgspec.structs.replace(slow[0], request_id=9, policy_version=POLICY.version),
           msgspec.structs.replace(slow[0], request_id=10, policy_version="unheard of")]  # fmt: skip
    plain, sql = gather(log, POLICY, versions={"old": old}), by_sql(log, versions={"old": old})
    assert report(sql) == report(plain)
    assert report(plain).total.goodput.num_met == 3
    assert plain.budgets == sql.budgets
    assert {key.target for key in plain.budgets if key.objective == "itl"} == {
        POLICY.tiers[0].objectives[1].target, old.tiers[0].objectives[1].target}  # fmt: skip


def test_rare_causes_go_under_one_name() -> None:
    log = [record(i, i, cause=f"c{min(i % 70, 60):02d}") for i in range(700)]
    plain, sql = gather(log, POLICY), by_sql(log)
    assert len(plain.causes) == MAX_CAUSES + 1
    assert plain.causes[OTHER_CAUSES].num == 110
    assert report(sql) == report(plain)


def test_resemblance_of_neighbours_widens_intervals() -> None:
    """Slow in every third minute: each request is worth a fraction of an independent one."""
    log = [record(i, i, ttft=0.5 if (i // 60) % 3 else 2.0 + (i % 7) / 10) for i in range(1800)]
    found = by_sql(log)
    effect = found.design_effects["tenant", "acme/gold", "ttft", 0.9]
    assert effect > 5
    ttft = next(each for each in compile_report(found, POLICY).tenants[0].latencies if each.name == "ttft")
    p90 = next(each for each in ttft.quantiles if each.quantile == 0.9)
    assert p90.effective_num == int(1800 / effect)
    shuffled = [record(i, (i * 1009) % 1800, ttft=each.ttft) for i, each in enumerate(log)]
    assert by_sql(shuffled).design_effects["tenant", "acme/gold", "ttft", 0.9] < 2.5


def test_nothing_gathers_to_nothing() -> None:
    assert report(by_sql([])) == report(gather([], POLICY))


@pytest.mark.parametrize("name", ["a'b", "semi;colon", "--", "\\"])
def test_names_cannot_break_out_of_the_query(name: str) -> None:
    log = [record(1, cause=name), record(2)]
    assert by_sql(log, Window(tenant=name)).tenants == {}
    assert set(by_sql(log).causes) == {name, ""}

"""A report conserves requests, does not depend on order, and says only what data bear."""

from fractions import Fraction
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.analytics.figures import GroupFigures, LatencyFigure, Report
from plimsoll.analytics.gathering import Window
from plimsoll.analytics.report import report_of
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement
from tests.analytics.records import ENDINGS, POLICY, START, record

TENANTS = (("acme", "gold"), ("globex", "gold"), ("batch", "bronze"))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    groups = st.tuples(st.sampled_from(ENDINGS), st.sampled_from(TENANTS), st.sampled_from(["", "agent"]))
    numbers = st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(1, 12))
    rows = draw(st.lists(st.tuples(groups, numbers), max_size=40))
    return [
        record(
            i, quarters, ttft=tenths / 10 if came else None, num=num, lasted=None if came else tenths / 2,
            outcome=outcome, reason=reason, tenant=tenant, tier=tier, cause=cause, cached_tokens=num if came else None,
        )
        for i, (((outcome, reason, came), (tenant, tier), cause), (quarters, tenths, num)) in enumerate(rows)
    ]  # fmt: skip


def latency(group: GroupFigures, name: str) -> LatencyFigure:
    return next(each for each in group.latencies if each.name == name)


@settings(max_examples=40)
@given(logs())
def test_every_request_is_in_every_table_once(log: list[Record]) -> None:
    report = report_of(log, POLICY)
    for groups in ((report.total,), report.tenants, report.tiers, report.causes):
        assert sum(group.num for group in groups) == len(log)
        assert all(group.conserved for group in groups)
        for outcome in Outcome:
            counted = sum(group.outcomes[outcome.value] for group in groups)
            assert counted == sum(each.outcome is outcome for each in log)
        assert sum(group.output_tokens for group in groups) == sum(each.output_tokens for each in log)
        assert sum(group.goodput.num_met for group in groups) == report.total.goodput.num_met
    assert report.num_repeated == 0


@settings(max_examples=25)
@given(logs(), st.integers())
def test_order_does_not_matter_and_the_json_reads_back(log: list[Record], seed: int) -> None:
    shuffled = log.copy()
    Random(seed).shuffle(shuffled)
    report = report_of(log, POLICY)
    assert msgspec.json.encode(report_of(shuffled, POLICY)) == msgspec.json.encode(report)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


@settings(max_examples=40)
@given(logs())
def test_verdicts_and_budgets_add_up(log: list[Record]) -> None:
    report = report_of(log, POLICY)
    for group in report.tenants:
        own = [each for each in log if (each.tenant, each.tier) == (group.name, group.tier)]
        for objective in group.objectives:
            said = [verdict for each in own for verdict in each.verdicts if verdict.objective == objective.name]
            assert objective.num_good == sum(verdict.num_good for verdict in said)
            assert objective.num_bad == sum(verdict.num_bad for verdict in said)
            assert objective.num_censored == sum(verdict.judgement is Judgement.CENSORED for verdict in said)
            assert sum(objective.charges.values()) == objective.num_bad
            assert sum(budget.spent for budget in objective.budgets) == objective.num_bad
            assert sum(budget.num_judged for budget in objective.budgets) == objective.num_good + objective.num_bad
            target = next(o.target for o in POLICY.tier(group.tier).objectives if o.name == objective.name)
            for budget in objective.budgets:
                assert budget.granted == int(budget.num_judged * (1 - target))
                assert budget.pool_part + budget.bucket == budget.granted
                assert budget.remaining == budget.granted - budget.spent


@settings(max_examples=40)
@given(logs())
def test_goodput_is_what_it_says(log: list[Record]) -> None:
    """Recounted from the log with plain fractions."""
    num = 0
    for each in log:
        if each.outcome is not Outcome.COMPLETED:
            continue
        kept = True
        for objective, verdict in zip(POLICY.tier(each.tier).objectives, each.verdicts, strict=True):
            total = verdict.num_good + verdict.num_bad
            allowed = 1 - objective.target if objective.counts_tokens else Fraction(0)
            kept &= total == 0 or Fraction(verdict.num_bad, total) <= allowed
        num += kept
    assert report_of(log, POLICY).total.goodput.num_met == num


def test_quantiles_are_those_of_the_data_with_their_interval() -> None:
    rng = np.random.default_rng(5)
    values = rng.lognormal(-1.0, 0.6, 5000)
    report = report_of([record(i, i / 10, ttft=float(value)) for i, value in enumerate(values)], POLICY)
    ttft = latency(report.total, "ttft")
    assert (ttft.num, ttft.num_cut_off) == (5000, 0)
    for figure in ttft.quantiles:
        true = float(np.quantile(values, figure.quantile, method="inverted_cdf"))
        assert figure.value == pytest.approx(true, rel=0.0109)
        assert figure.low is not None
        assert figure.value is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high
    assert ttft.p99_over_p50.value == pytest.approx(np.exp(0.6 * 2.326), rel=0.15)
    assert ttft.p99_over_p50.word == "alarm" if (ttft.p99_over_p50.value or 0) > 4 else "wide"
    gaps = report.total.itl
    assert gaps.num == 5000 * 9
    assert gaps.quantiles[0].value == pytest.approx(0.05, rel=0.011)


def test_few_requests_are_said_to_be_few() -> None:
    report = report_of([record(i, i) for i in range(120)], POLICY)
    p99 = latency(report.total, "ttft").quantiles[3]
    assert (p99.quantile, p99.value, p99.high) == (0.99, None, None)
    assert p99.low is not None
    assert latency(report.total, "ttft").p99_over_p50.word == "not enough data"
    empty = report_of([], POLICY)
    assert (empty.total.num, empty.span, empty.total.goodput.ratio, empty.p99_ttft_index) == (0, None, None, None)


def test_waits_that_were_cut_off_are_neither_dropped_nor_believed() -> None:
    """One in ten leaves after 2 s without a token: P50 stays, P99 is above what anybody waited."""
    log = [record(i, i, ttft=0.5 + (i % 7) / 100) for i in range(900)]
    log += [
        record(900 + i, i, ttft=None, lasted=2.0, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT)
        for i in range(100)
    ]
    report = report_of(log, POLICY)
    ttft = latency(report.total, "ttft")
    assert (ttft.num, ttft.num_cut_off) == (900, 100)
    p50, p99 = ttft.quantiles[0], ttft.quantiles[3]
    assert p50.value == pytest.approx(0.53)  # the 500th of 1,000
    assert (p99.value, p99.above, p99.naive_high) == (None, 2.0, None)
    assert p99.naive_low == pytest.approx(2.0)
    assert any("Kaplan–Meier" in note for note in report.notes)


def test_what_was_refused_for_the_clients_own_fault_waited_for_nothing() -> None:
    endings = [
        (Outcome.REJECTED, Reason.BAD_REQUEST),
        (Outcome.REJECTED, Reason.QUEUE_FULL),
        (Outcome.FAILED, Reason.ENGINE_REFUSED),
    ]
    refused = [
        record(i, ttft=None, lasted=0.0, outcome=outcome, reason=reason) for i, (outcome, reason) in enumerate(endings)
    ]
    report = report_of(refused, POLICY)
    assert latency(report.total, "ttft").num_cut_off == 0
    assert (report.total.goodput.num_met, report.total.goodput.num_judged) == (0, 1)


def test_a_client_whose_own_timeout_is_too_short_does_not_look_healthy() -> None:
    log = [record(i, i) for i in range(70)]
    log += [
        record(70 + i, i, ttft=None, lasted=0.2, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT) for i in range(30)
    ]
    ttft = report_of(log, POLICY).tenants[0].objectives[0]
    assert (ttft.num_good, ttft.num_censored, ttft.attainment.ratio) == (70, 30, 1.0)
    assert ttft.attainment.state == "not judged"
    assert ttft.attainment.contract_held is None
    assert ttft.budgets[0].num_judged == 70  # the ledger does not stop


def test_a_window_cuts_figures_but_a_months_budget_is_whole() -> None:
    log = [record(i, i * 3600, ttft=2.0 if i < 24 else 0.5) for i in range(48)]
    report = report_of(log, POLICY, Window(since=START + 24 * 3600))
    ttft = report.tenants[0].objectives[0]
    assert (report.total.num, ttft.num_good, ttft.num_bad) == (24, 24, 0)
    assert (ttft.budgets[0].num_judged, ttft.budgets[0].spent, ttft.budgets[0].period) == (48, 24, "2026-11")
    assert report_of(log, POLICY, Window(until=START + 24 * 3600)).total.num == 24
    assert report_of(log, POLICY, Window(tenant="globex")).total.num == 0


def test_tenants_come_by_rank_and_fairness_by_tier() -> None:
    log = [record(1, tenant="batch", tier="bronze"), record(2, tenant="globex"), record(3), record(4, ttft=3.0)]
    report = report_of(log, POLICY)
    assert [(group.name, group.tier) for group in report.tenants] == [
        ("acme", "gold"), ("globex", "gold"), ("batch", "bronze")]  # fmt: skip
    gold = report.fairness[1]
    assert (gold.tier, gold.num_tenants) == ("gold", 2)
    assert gold.goodput_ratio == pytest.approx(1.5**2 / (2 * 1.25))  # ½ and 1
    assert gold.service == pytest.approx((240 + 60) ** 2 / (2 * (240**2 + 60**2)))  # twice as much, half the weight


def test_a_repeated_row_is_told() -> None:
    report = report_of([record(1), record(1)], POLICY)
    assert report.num_repeated == 1
    assert any("repeat" in note for note in report.notes)


@pytest.mark.parametrize(("slow", "num_met"), [(1, 1), (2, 0)])
def test_a_token_objective_is_met_up_to_exactly_its_target(slow: int, num_met: int) -> None:
    """Ten gaps under a target of 90 %: one may be bad."""
    plain = record(1, num=11)
    itl = next(verdict for verdict in plain.verdicts if verdict.objective == "itl")
    worse = msgspec.structs.replace(itl, judgement=Judgement.BAD, num_good=10 - slow, num_bad=slow)
    verdicts = tuple([worse if verdict is itl else verdict for verdict in plain.verdicts])
    assert report_of([msgspec.structs.replace(plain, verdicts=verdicts)], POLICY).total.goodput.num_met == num_met


def test_a_censored_quantile_without_an_upper_bound_is_not_shown() -> None:
    """All the slowest came, so the curve has a p99; but of 120 values nothing bounds it from above."""
    log = [record(i, i, ttft=(i + 1) / 100) for i in range(120)]
    log += [record(200, ttft=None, lasted=0.05, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT)]
    p99 = latency(report_of(log, POLICY).total, "ttft").quantiles[3]
    assert (p99.value, p99.above, p99.high) == (None, None, None)
    assert p99.low is not None
    assert 1.0 < p99.low < 1.2


def test_what_limits_a_reading_is_noted() -> None:
    log = [record(i, i) for i in range(5)]
    other = msgspec.structs.replace(log[0], request_id=9, policy_version="older")
    renamed = msgspec.structs.replace(log[0].verdicts[0], objective="gone")
    strange = msgspec.structs.replace(log[0], request_id=10, verdicts=(renamed,))
    notes = " ".join(report_of([*log, other, strange], POLICY).notes)
    for word in ("independent", "Several policies", "'gone'"):
        assert word in notes
    assert report_of(log, POLICY).total.goodput.num_met == 5


def test_earlier_months_are_no_business_of_a_window() -> None:
    month = 31 * 86_400.0
    log = [record(1), record(2, month), record(3, month + 5)]
    report = report_of(log, POLICY, Window(since=START + month + 1))
    assert [budget.period for budget in report.tenants[0].objectives[0].budgets] == ["2026-12"]
    assert report.tenants[0].objectives[0].budgets[0].num_judged == 2

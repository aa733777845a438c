"""The live reading agrees with what settled, and its drawing holds whatever comes."""

from fractions import Fraction
from io import StringIO
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from plimsoll.console.live import ENOUGH, WINDOW, Live
from plimsoll.console.liveview import ReplicaReading, Scene, draw, plain
from plimsoll.governor.decisions import Dispatch, Enqueue, Reject, Settle
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import Judgement, Verdict

TTFT = Objective("ttft", Sli.TTFT, 1.0, Fraction(9, 10))
AVAILABILITY = Objective("availability", Sli.AVAILABILITY, inf, Fraction(999, 1000))
POLICY = Policy(
    tiers=(Tier("gold", 0, objectives=(TTFT, AVAILABILITY)),), tenants=(Tenant("a", "gold"), Tenant("b", "gold"))
)


def record(request_id: int, tenant: str, ttft: float | None, outcome: Outcome = Outcome.COMPLETED) -> Record:
    good = ttft is not None and ttft <= 1.0
    judgement = Judgement.GOOD if good else Judgement.BAD
    verdict = Verdict("ttft", judgement, int(good), int(not good))
    return Record(
        request_id=request_id, client_request_id="", trace_id="", session="", tenant=tenant, tier="gold",
        tier_served="gold", model="m", adapter="", precision="", pool="p", replica="r", region="", cause="",
        criticality="", endpoint="chat",
        streaming=True, deadline=None, arrived_at=0.0, dispatched_at=None, first_token_at=None, finished_at=0.0,
        upstream_time=None, upstream_trust="", queued_for=0.0, ttft=ttft, tpot=None, e2e=None, itl_max=None,
        itl_sketches=None, prompt_tokens=1, cached_tokens=None, output_tokens=1, outcome=outcome, phase=Phase.NONE,
        reason=Reason.DONE, degraded="", client_stall=0.0, baseline=None, baseline_from="", upstream_baseline=None,
        kv_blocks_reserved=0, kv_blocks_used=0, attempts=1, verdicts=(verdict,), charge=None, policy_version="",
        report_running=None, report_waiting=None, report_kv_usage=None, report_age=None,
    )  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.01, 5.0)), max_size=60))
def test_attainment_and_budget_are_those_of_the_settled(settled: list[tuple[str, float]]) -> None:
    live = Live(POLICY)
    for number, (tenant, ttft) in enumerate(settled):
        live.take(number * 0.1, tenant, Settle(record(number, tenant, ttft), ()))
    for reading in live.readings(len(settled) * 0.1):
        mine = [ttft for tenant, ttft in settled if tenant == reading.tenant]
        bad = sum(ttft > 1.0 for ttft in mine)
        assert reading.num_recent == len(mine) == sum(reading.outcomes.values())
        assert reading.attainment_ratio == (pytest.approx(1 - bad / len(mine)) if mine else None)
        allowed = len(mine) // 10
        assert reading.budget_left_ratio == (1 - bad / allowed if allowed else None)
        if mine:
            assert reading.p50 in mine
            assert reading.p99 == max(mine)


def test_quantiles_forget_what_is_older_than_the_window() -> None:
    live = Live(POLICY)
    live.take(0.0, "a", Settle(record(1, "a", 9.0), ()))
    live.take(WINDOW + 1.0, "a", Settle(record(2, "a", 0.5), ()))
    reading = live.readings(WINDOW + 1.0)[0]
    assert (reading.num_recent, reading.p99, reading.attainment_ratio) == (1, 0.5, 0.5)


def test_unknown_is_not_zero() -> None:
    quiet = Live(POLICY).readings(5.0)[0]
    assert (quiet.p50, quiet.p99, quiet.ratio, quiet.attainment_ratio, quiet.budget_left_ratio) == (None,) * 5


def test_queue_and_running_follow_the_decisions() -> None:
    live = Live(POLICY)
    live.take(0.0, "a", Enqueue(1, "gold", Reason.POOL_FULL))
    live.take(0.0, "a", Dispatch(2, "p", "http://r", "gold", Reason.FITS, 0))
    live.take(0.1, "a", Dispatch(3, "p", "http://r", "gold", Reason.FITS, 0))
    assert [(reading.num_queued, reading.num_running) for reading in live.readings(0.2)] == [(1, 2), (0, 0)]
    live.take(0.2, "a", Dispatch(1, "p", "http://r", "gold", Reason.RANK, 0))
    live.take(0.3, "a", Settle(record(3, "a", 0.1), ()))
    assert [(reading.num_queued, reading.num_running) for reading in live.readings(0.4)] == [(0, 2), (0, 0)]


@pytest.mark.parametrize("height", [5, 24, 60])
def test_the_drawing_shows_every_tenant_and_the_last_decision(height: int) -> None:
    live = Live(POLICY)
    for number in range(300):
        live.take(float(number), "a", Settle(record(number, "a", 0.2 + number % 7), ()))
    live.take(301.0, "b", Reject(400, Reason.QUEUE_FULL, retry_after=3.0))
    live.take(301.0, "b", Settle(record(400, "b", None, Outcome.REJECTED), ()))
    scene = Scene(
        "demo", 12.0, 600.0, "default", (ReplicaReading("r1", True, 3, 0.5), ReplicaReading("r2", False, None, None))
    )
    console = Console(file=StringIO(), width=120, height=height, force_terminal=False)
    console.print(draw(live, scene, 302.0, height))
    text = console.file.getvalue() if isinstance(console.file, StringIO) else ""
    for expected in ("a ", "b ", "queue_full", "retry after 3 s", "KV █████░░░░░ 50%", "??????????", "≈"):
        assert expected in text
    assert live.readings(302.0)[0].num_recent < ENOUGH
    assert "a(gold)" in plain(live, scene, 302.0)

"""Runs of agents: where a session's time went, and how the run is judged when it is over."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.analytics.runs import Run, figures, runs
from plimsoll.policy.objective import RunObjective
from plimsoll.policy.policy import Policy, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement
from tests.storage.rows import record

T = 1_793_500_000.0
OBJECTIVE = RunObjective(below=60.0, target=Fraction(9, 10), idle=30.0, half_life=10.0)
POLICY = Policy(
    tiers=(Tier("gold", 0, run=OBJECTIVE), Tier("tin", 1)), tenants=(Tenant("acme", "gold"), Tenant("beta", "tin"))
)


def turn(
    begin: float, end: float, *, upstream: float | None = None, cause: str = "", bad: bool = False, number: int = 0
) -> Record:
    row = record(number, bad=bad, arrived_at=T + begin)
    row = replace(row, verdicts=tuple(each for each in row.verdicts if each.objective == "ttft"))
    return replace(row, session="s", finished_at=T + end, upstream_time=upstream, cause=cause)


def only(*turns: Record, now: float = 10_000.0) -> Run:
    (run,) = runs(turns, POLICY, T + now)
    return run


def test_the_accounts_add_up() -> None:
    """A tool of 5 s in a gap of 8; a search of 4 s in a gap of 2; two calls at once count once."""
    run = only(
        turn(0, 10),
        turn(18, 20, upstream=5.0, cause="tool"),
        turn(22, 30, upstream=4.0, cause="rag"),
        turn(24, 32),
    )
    assert (run.total, run.llm, run.upstream, run.own) == (32.0, 22.0, {"tool": 5.0, "rag": 2.0}, 3.0)
    assert run.num_turns == 4
    assert run.judgement is Judgement.GOOD


def test_what_the_first_request_waited_for_upstream_is_part_of_the_run() -> None:
    run = only(turn(0, 10, upstream=4.0, cause="tool"))
    assert (run.started_at, run.total, run.upstream, run.own) == (T - 4.0, 14.0, {"tool": 4.0}, 0.0)


def test_a_pause_longer_than_idle_begins_another_run() -> None:
    found = runs([turn(0, 10), turn(41, 50), turn(80, 90)], POLICY, T + 1000)
    assert [(run.started_at - T, run.ended_at - T) for run in found] == [(0, 10), (41, 90)]


def test_a_run_is_judged_when_it_is_over() -> None:
    assert only(turn(0, 10), now=40).judgement is None
    assert only(turn(0, 10), now=40.1).judgement is Judgement.GOOD
    assert only(turn(0, 60)).judgement is Judgement.GOOD, "exactly the threshold"
    assert only(turn(0, 60.5)).judgement is Judgement.BAD
    lost = replace(turn(0, 10), outcome=Outcome.FAILED, reason=Reason.CONNECTION_LOST)
    assert only(lost, turn(11, 20)).judgement is Judgement.BAD
    left = replace(turn(0, 10), outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT)
    assert only(left).judgement is Judgement.EXCLUDED
    assert only(replace(left, finished_at=T + 70)).judgement is Judgement.BAD, "late before it left"


def test_turns_weigh_by_half_life() -> None:
    run = only(turn(0, 10, bad=True), turn(12, 20))
    assert run.kept_ratio == pytest.approx(1.0 / 1.5)
    assert only(replace(turn(0, 10), verdicts=())).kept_ratio is None


def test_who_has_no_run_objective_has_no_runs() -> None:
    assert runs([replace(turn(0, 10), tenant="beta"), replace(turn(0, 10), session="")], POLICY, T + 1000) == []
    assert figures([], POLICY) == []


def test_figures_by_tenant() -> None:
    found = runs([turn(0, 10), turn(100, 170), turn(300, 310)], POLICY, T + 320)
    (all_,) = figures(found, POLICY)
    assert (all_.num, all_.num_open, all_.num_good, all_.num_bad, all_.ratio) == (3, 1, 1, 1, 0.5)
    assert (all_.total, all_.llm, all_.own, all_.target) == (80.0, 80.0, 0.0, 0.9)
    (young,) = figures(found[2:], POLICY)
    assert (young.ratio, young.low) == (None, None)


TURNS = st.lists(st.tuples(st.floats(0, 300), st.floats(0, 50), st.none() | st.floats(0, 40)), min_size=1, max_size=12)


@given(TURNS, st.randoms(use_true_random=False))
def test_whatever_overlaps_every_second_is_on_one_account_and_every_turn_in_one_run(
    turns: list[tuple[float, float, float | None]], dice: object
) -> None:
    rows = [turn(at, at + length, upstream=up, cause="tool", number=i) for i, (at, length, up) in enumerate(turns)]
    found = runs(rows, POLICY, T + 10_000)
    assert sum(run.num_turns for run in found) == len(rows)
    for run in found:
        assert run.llm + sum(run.upstream.values()) + run.own == pytest.approx(run.total, abs=1e-6)
        assert min(run.llm, run.own, *run.upstream.values(), 0.0) >= 0.0
    assert runs(rows[::-1], POLICY, T + 10_000) == found, "in any order"

"""The table of judgements, row by row, and what holds for every cell."""

from fractions import Fraction
from inspect import signature
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.slo.charge import charge
from plimsoll.slo.outcome import REASONS, Blame, Outcome, Reason
from plimsoll.slo.sli import Charge, Facts, Judgement, Verdict, itl_thresholds, judge
from plimsoll.slo.timing import Timing, TokenClock

TARGET = Fraction(99, 100)
TTFT = Objective("ttft", Sli.TTFT, 1.0, TARGET)
ITL = Objective("itl", Sli.ITL, 0.5, TARGET)
TPOT = Objective("tpot", Sli.TPOT, 0.5, TARGET)
E2E = Objective("e2e", Sli.E2E, 10.0, TARGET)
USER_E2E = Objective("user-e2e", Sli.E2E, 10.0, TARGET, origin=Origin.USER)
UP = Objective("availability", Sli.AVAILABILITY, inf, Fraction(999, 1000))
ALL = (TTFT, ITL, TPOT, E2E, UP)
GOOD, BAD, CENSORED, EXCLUDED = Judgement.GOOD, Judgement.BAD, Judgement.CENSORED, Judgement.EXCLUDED


def timing(first: float = 0.25, gap: float = 0.25, num: int = 5, at: float = 100.0) -> Timing:
    clock = TokenClock(itl_thresholds(ALL))
    for i in range(num):
        clock.tokens(at + first + i * gap, 1)
    return clock.finish(None)


def facts(outcome: Outcome, reason: Reason, ended: float = 5.0, times: Timing | None = None) -> Facts:
    return Facts(outcome, reason, 100.0, 100.0 + ended, times or Timing())


def with_(known: Facts, **changes: Any) -> Facts:
    """The same facts, some changed."""
    names = list(signature(Facts).parameters)
    return Facts(**{**{name: getattr(known, name) for name in names}, **changes})


def judgements(facts: Facts) -> tuple[Judgement, ...]:
    return tuple(verdict.judgement for verdict in judge(ALL, facts))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (facts(Outcome.COMPLETED, Reason.DONE, 2, timing()), (GOOD, GOOD, GOOD, GOOD, GOOD)),
        (facts(Outcome.COMPLETED, Reason.DONE, 20, timing(2.0, 0.75, 14)), (BAD, BAD, BAD, BAD, GOOD)),
        (facts(Outcome.COMPLETED, Reason.DONE, 2, timing(num=1)), (GOOD, EXCLUDED, EXCLUDED, GOOD, GOOD)),
        (facts(Outcome.COMPLETED, Reason.DONE, 2), (BAD, EXCLUDED, EXCLUDED, GOOD, GOOD)),
        (facts(Outcome.REJECTED, Reason.TENANT_RATE, 0), (EXCLUDED,) * 5),
        (facts(Outcome.REJECTED, Reason.BAD_REQUEST, 0), (EXCLUDED,) * 5),
        (facts(Outcome.FAILED, Reason.ENGINE_REFUSED, 1), (EXCLUDED,) * 5),
        (facts(Outcome.REJECTED, Reason.QUEUE_FULL, 0), (BAD, EXCLUDED, EXCLUDED, BAD, BAD)),
        (facts(Outcome.SHED, Reason.OVERLOAD, 0.5), (BAD, EXCLUDED, EXCLUDED, BAD, BAD)),
        (facts(Outcome.EXPIRED, Reason.DEADLINE, 0.5), (BAD, EXCLUDED, EXCLUDED, BAD, BAD)),
        (facts(Outcome.FAILED, Reason.CONNECT_FAILED, 0.5), (BAD, EXCLUDED, EXCLUDED, BAD, BAD)),
        (facts(Outcome.FAILED, Reason.CONNECTION_LOST, 2, timing()), (GOOD, GOOD, GOOD, BAD, BAD)),
        (facts(Outcome.EVICTED, Reason.DRAIN_TIMEOUT, 3, timing(gap=0.75)), (GOOD, BAD, BAD, BAD, BAD)),
        (facts(Outcome.INTERRUPTED, Reason.GATEWAY_DIED, 2), (BAD, EXCLUDED, EXCLUDED, BAD, BAD)),
        (facts(Outcome.CANCELLED, Reason.CLIENT_LEFT, 0.5), (CENSORED, EXCLUDED, EXCLUDED, CENSORED, EXCLUDED)),
        (facts(Outcome.ABORTED, Reason.CLIENT_LEFT, 2), (BAD, EXCLUDED, EXCLUDED, CENSORED, EXCLUDED)),
        (facts(Outcome.ABORTED, Reason.CLIENT_LEFT, 11, timing()), (GOOD, GOOD, GOOD, BAD, EXCLUDED)),
        (facts(Outcome.EVICTED, Reason.SLOW_CLIENT, 3, timing()), (GOOD, GOOD, GOOD, CENSORED, EXCLUDED)),
    ],
)
def test_the_table(case: Facts, expected: tuple[Judgement, ...]) -> None:
    assert judgements(case) == expected


reasons_of: dict[Outcome, list[Reason]] = {
    Outcome.COMPLETED: [Reason.DONE],
    Outcome.REJECTED: [Reason.BAD_REQUEST, Reason.TENANT_RATE, Reason.QUEUE_FULL, Reason.BUDGET_SPENT],
    Outcome.SHED: [Reason.OVERLOAD, Reason.DRAINING],
    Outcome.EXPIRED: [Reason.DEADLINE, Reason.QUEUE_TIMEOUT],
    Outcome.CANCELLED: [Reason.CLIENT_LEFT],
    Outcome.ABORTED: [Reason.CLIENT_LEFT, Reason.SLOW_CLIENT],
    Outcome.FAILED: [Reason.ENGINE_REFUSED, Reason.ENGINE_ERROR, Reason.ENGINE_BUSY],
    Outcome.EVICTED: [Reason.SLOW_CLIENT, Reason.DRAIN_TIMEOUT],
    Outcome.INTERRUPTED: [Reason.GATEWAY_DIED],
}
endings = st.sampled_from([(outcome, reason) for outcome, reasons in reasons_of.items() for reason in reasons])
grid = st.integers(0, 64).map(lambda n: n / 4)


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    outcome, reason = draw(endings)
    ran = outcome in {Outcome.COMPLETED, Outcome.FAILED, Outcome.ABORTED, Outcome.EVICTED}
    num = draw(st.integers(0, 8)) if ran else 0
    times = timing(draw(grid), draw(grid), num) if num else Timing()
    ended = max(draw(grid), times.last_token_at - 100.0)
    return Facts(
        outcome,
        reason,
        100.0,
        100.0 + ended,
        times,
        generative=draw(st.booleans()),
        streaming=draw(st.booleans()),
        num_choices=draw(st.sampled_from([1, 1, 2])),
        judge_non_streaming=draw(st.booleans()),
        infeasible_deadline=draw(st.booleans()),
        upstream_time=draw(st.none() | grid),
        baseline_ttft=draw(st.none() | grid),
        baseline_tpot=draw(st.none() | grid),
        upstream_baseline=draw(grid),
    )


@given(any_facts())
def test_counts_agree_with_the_word_and_only_bad_is_charged(case: Facts) -> None:
    for objective, verdict in zip((*ALL, USER_E2E), judge((*ALL, USER_E2E), case), strict=True):
        assert verdict.objective == objective.name
        assert (verdict.judgement is BAD) == (verdict.num_bad > 0) == (verdict.charge is not None)
        assert (verdict.judgement in {CENSORED, EXCLUDED}) == (verdict.num_good + verdict.num_bad == 0)
        if not objective.counts_tokens:
            assert verdict.num_good + verdict.num_bad <= 1


@given(any_facts())
def test_the_clients_and_the_tenants_own_doing_is_never_held_against_us(case: Facts) -> None:
    if REASONS[case.reason].blame in {Blame.CLIENT, Blame.TENANT}:
        assert set(judgements(case)) == {EXCLUDED}
    if REASONS[case.reason].blame is Blame.LEFT:
        assert judgements(case)[-1] is EXCLUDED


@given(any_facts())
def test_what_we_refused_or_broke_is_always_bad_availability(case: Facts) -> None:
    infeasible = case.infeasible_deadline and case.reason is Reason.DEADLINE
    if REASONS[case.reason].blame is Blame.OURS and not infeasible:
        assert judgements(case)[-2:] == (BAD, BAD)


@given(any_facts(), grid)
def test_a_looser_threshold_never_turns_good_into_bad(case: Facts, more: float) -> None:
    for objective in (TTFT, E2E, USER_E2E):
        looser = Objective("looser", objective.sli, objective.below + more, TARGET, origin=objective.origin)
        tight, loose = judge((objective, looser), case)
        assert not (tight.judgement is GOOD and loose.judgement is BAD)


@given(any_facts())
def test_embeddings_and_unstreamed_answers_have_no_token_figures(case: Facts) -> None:
    if not case.generative or not (case.streaming or case.judge_non_streaming):
        assert judgements(case)[:3] == (EXCLUDED,) * 3


def test_the_users_clock_starts_upstream() -> None:
    late = Facts(Outcome.COMPLETED, Reason.DONE, 100.0, 104.0, timing(num=16), upstream_time=7.0)
    here, user = judge((E2E, USER_E2E), late)
    assert here.judgement is GOOD
    assert user == Verdict("user-e2e", BAD, 0, 1, Charge.UNLABELLED)  # no baseline known, so nobody's
    known = Facts(
        Outcome.COMPLETED, Reason.DONE, 100.0, 104.0, timing(num=16), upstream_time=7.0,
        baseline_ttft=0.25, baseline_tpot=0.25, upstream_baseline=1.0,
    )  # fmt: skip
    assert judge((USER_E2E,), known)[0].charge is Charge.UPSTREAM  # 7 + 4 > 10 and 1 + 4 is not


def stalled(before: float, between: float, after: float) -> Timing:
    """First token after 0.5 s of ours, ten gaps of 0.25 s, and what the client held back."""
    clock = TokenClock(itl_thresholds(ALL))
    clock.stall(before)
    for i in range(11):
        if i == 5:
            clock.stall(between)
        clock.tokens(100.5 + before + i * 0.25 + (between if i >= 5 else 0.0), 1)
    clock.stall(after)
    return clock.finish(None)


@pytest.mark.parametrize(
    ("held", "ended", "expected", "e2e"),
    [
        ((0.0, 0.0, 0.0), 3.0, GOOD, None),
        ((5.0, 0.0, 0.0), 8.0, GOOD, None),  # 8 s in all, below 10
        ((8.0, 0.0, 0.0), 11.0, BAD, Charge.CLIENT),
        ((0.0, 9.0, 0.0), 12.0, BAD, Charge.CLIENT),
        ((4.0, 5.0, 0.0), 12.0, BAD, Charge.CLIENT),
        ((0.0, 0.0, 50.0), 53.0, GOOD, None),  # behind the last token it delays nothing
    ],
)
def test_what_the_client_held_back_is_its_own(
    held: tuple[float, float, float], ended: float, expected: Judgement, e2e: Charge | None
) -> None:
    *tokens, whole, up = judge(ALL, facts(Outcome.COMPLETED, Reason.DONE, ended, stalled(*held)))
    assert [verdict.judgement for verdict in tokens] == [GOOD] * 3
    assert (whole.judgement, whole.charge) == (expected, e2e)
    assert up.judgement is GOOD


def test_a_breach_that_a_stall_does_not_explain_stays_ours() -> None:
    late = timing(2.0, 0.75, 14)  # 11.75 s of ours
    late = replace(late, client_stall=1.0, stall_between=1.0, last_token_at=late.last_token_at + 1.0)
    assert judge((E2E,), facts(Outcome.COMPLETED, Reason.DONE, 20, late))[0].charge is Charge.OURS


def test_a_stall_is_taken_off_before_our_time_is_weighed_against_upstreams() -> None:
    case = Facts(
        Outcome.COMPLETED, Reason.DONE, 100.0, 112.0, stalled(0.0, 9.0, 0.0), upstream_time=7.5,
        baseline_ttft=0.5, baseline_tpot=0.25, upstream_baseline=0.5,
    )  # fmt: skip
    assert judge((USER_E2E,), case)[0].charge is Charge.UPSTREAM  # 7.5 + 3 > 10; with 12 s of ours it would be joint
    assert judge((USER_E2E,), with_(case, upstream_time=6.5))[0].charge is Charge.CLIENT


def test_who_stops_reading_and_is_given_up_is_not_held_against_us() -> None:
    times = replace(Timing(), client_stall=11.0, stall_before=11.0)
    ttft, *_, whole, up = judge(ALL, facts(Outcome.ABORTED, Reason.SLOW_CLIENT, 11.5, times))
    assert (ttft.judgement, whole.charge, up.judgement) == (CENSORED, Charge.CLIENT, EXCLUDED)


def test_an_answer_in_one_piece_that_its_client_does_not_take() -> None:
    times = replace(Timing(), client_stall=9.0, stall_before=9.0)
    case = with_(facts(Outcome.COMPLETED, Reason.DONE, 12.0, times), streaming=False)
    assert judge((E2E,), case)[0] == Verdict("e2e", BAD, 0, 1, Charge.CLIENT)
    assert judge((E2E,), with_(case, ended_at=130.0))[0].charge is Charge.OURS


def test_an_infeasible_deadline_is_excluded_only_when_it_expires() -> None:
    queued = Facts(Outcome.EXPIRED, Reason.DEADLINE, 100.0, 100.0, Timing(), infeasible_deadline=True)
    assert set(judgements(queued)) == {EXCLUDED}
    served = Facts(Outcome.COMPLETED, Reason.DONE, 100.0, 102.0, timing(), infeasible_deadline=True)
    assert judgements(served) == (GOOD,) * 5


def test_thresholds_not_counted_exactly_are_read_from_the_sketch_and_never_too_many() -> None:
    times = timing(gap=0.75, num=11)
    other = Objective("other", Sli.ITL, 0.5, TARGET)
    verdict = judge((ITL, other), facts(Outcome.COMPLETED, Reason.DONE, 9, times))[1]
    assert verdict == Verdict("other", BAD, 0, 10, Charge.OURS)
    same_bucket = Objective("edge", Sli.ITL, 0.749, TARGET)
    assert judge((ITL, same_bucket), facts(Outcome.COMPLETED, Reason.DONE, 9, times))[1].num_bad == 0


USER_TTFT = Objective("user-ttft", Sli.TTFT, 8.0, TARGET, origin=Origin.USER)


@given(any_facts(), st.booleans())
def test_breaches_of_the_users_clock_are_charged_by_the_table(case: Facts, trusted: bool) -> None:
    """Own time: what was measured, how long the client waited, or for ever where we delivered nothing."""
    case = with_(case, upstream_trusted=trusted)
    timing, left = case.timing, REASONS[case.reason].blame is Blame.LEFT
    ended = case.ended_at - 100.0
    whole = (
        (timing.last_token_at - 100.0 if timing.last_token_at else ended) if case.outcome is Outcome.COMPLETED else inf
    )
    first = timing.first_token_at - 100.0 if timing.first_token_at else whole
    b, per_token, further = case.baseline_ttft, case.baseline_tpot, max(0, timing.num_tokens - 1)
    to_the_end = b if b is None or further == 0 else None if per_token is None else b + further * per_token
    for objective, own, baseline in ((USER_TTFT, whole if first == inf else first, b), (USER_E2E, whole, to_the_end)):
        verdict = judge((objective,), case)[0]
        waited = ended if own == inf and left else own
        late = (case.upstream_time or 0.0) + waited > objective.below
        if verdict.judgement is BAD:
            assert late
            assert verdict.charge is charge(
                objective.below, case.upstream_time, waited, baseline, case.upstream_baseline, trusted=trusted
            )
        elif verdict.judgement in {GOOD, CENSORED}:
            assert not late
            assert (verdict.judgement is CENSORED) == (own == inf)


def test_several_choices_have_no_gaps_of_their_own() -> None:
    several = with_(facts(Outcome.COMPLETED, Reason.DONE, 20, timing(2.0, 0.75, 14)), num_choices=2)
    assert judgements(several) == (BAD, EXCLUDED, EXCLUDED, BAD, GOOD)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
def test_a_late_first_token_is_charged_by_when_it_came_and_by_its_own_baseline(outcome: Outcome) -> None:
    """7.5 s upstream and 1 s here under 8 s: as usual we take 0.25 s, and upstream 1 s; what followed is no matter."""
    reason = Reason.DONE if outcome is Outcome.COMPLETED else Reason.CONNECTION_LOST
    late = Facts(
        outcome, reason, 100.0, 110.0, timing(first=1.0, num=8), upstream_time=7.5,
        baseline_ttft=0.25, baseline_tpot=2.0, upstream_baseline=1.0,
    )  # fmt: skip
    assert judge((USER_TTFT,), late)[0].charge is Charge.JOINT  # 7.5 + 0.25 <= 8 and 1 + 1 <= 8
    worse = with_(late, upstream_time=7.9)
    assert judge((USER_TTFT,), worse)[0].charge is Charge.UPSTREAM  # 7.9 + 0.25 > 8

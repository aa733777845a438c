"""Hedges of first tokens: who is asked twice, who pays, and that each of two places is given back once."""

from collections import Counter
from fractions import Fraction

import pytest
from msgspec.structs import replace

from plimsoll.errors import IllegalTransition
from plimsoll.governor.decisions import Decision, Dispatch, Fail, WakeAt
from plimsoll.governor.events import (
    AttemptFailed,
    BudgetsReported,
    BudgetState,
    FirstToken,
    RequestFinished,
    TimerFired,
)
from plimsoll.governor.snapshot import PoolState
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.policy import Hedging, Scheduling, Tenant
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, all_of, only, row
from tests.laws.histories import START, policy_of

NORMAL = 0.1  # s to a first token
LATE = 1.0


def service_of(
    *,
    beyond: Fraction = Fraction(19, 20),
    num_replicas: int = 3,
    kv_blocks: int = 1000,
    budget: BudgetRules = BudgetRules(),  # noqa: B008 - a frozen value
) -> Service:
    """120 requests have shown their first token after 0.1 s; the budget covers six like them."""
    rules = Scheduling(hedging=Hedging(beyond=beyond))
    tenants = (Tenant("ada", "gold"), Tenant("dan", "bronze"))
    policy = replace(policy_of(tenants=tenants, num_replicas=num_replicas, scheduling=rules), budget=budget)
    service = Service(policy, kv_blocks=kv_blocks)
    for num in range(120):
        at = 1 + num / 4
        service.ask(at)
        service.first(at + NORMAL, num + 1)
        service.done(at + 0.2, num + 1, output=160, began=at + NORMAL)
    timer(service, 90)
    return service


def timer(service: Service, at: float) -> list[Decision]:
    return service.governor.handle(TimerFired(START + at))


def hedged(service: Service, at: float = 100.0) -> tuple[int, str, str]:
    """A request that is late is asked of a second replica: its number, the first, the second."""
    first = only(Dispatch, service.ask(at)).replica
    sent = only(Dispatch, timer(service, at + LATE))
    assert (sent.reason, sent.request_id, sent.attempt) == (Reason.HEDGED, service.num, 2)
    assert sent.replica != first
    return service.num, first, sent.replica


def state(service: Service, at: float = 200.0) -> PoolState:
    return service.governor.snapshot(START + at).pools[0]


def in_flight(service: Service) -> Counter[str]:
    return Counter({replica.replica: replica.in_flight for replica in state(service).replicas if replica.in_flight})


def test_a_late_first_token_is_looked_for_elsewhere_when_it_is_late_and_not_before() -> None:
    service = service_of()
    wake = only(WakeAt, service.ask(100.0)).at - START
    assert 100.0 + NORMAL < wake < 100.0 + 2 * NORMAL
    assert not all_of(Dispatch, timer(service, wake - 0.01))
    assert only(Dispatch, timer(service, wake)).reason is Reason.HEDGED
    assert sum(in_flight(service).values()) == 2


def test_a_first_token_in_time_is_not_hedged() -> None:
    service = service_of()
    service.ask(100.0)
    service.first(100.05, service.num)
    assert not all_of(Dispatch, timer(service, 101.0))


@pytest.mark.parametrize("by_hedge", [False, True])
def test_the_first_token_of_either_gives_the_others_place_back(by_hedge: bool) -> None:
    service = service_of()
    request_id, first, second = hedged(service)
    service.governor.handle(FirstToken(START + 101.5, request_id, hedge=by_hedge))
    assert in_flight(service) == {second if by_hedge else first: 1}
    assert (state(service).hedges, state(service).hedges_won) == (1, by_hedge)
    told = row(service.done(102, request_id, began=101.5))
    assert (told.replica, told.hedge) == (second if by_hedge else first, "won" if by_hedge else "lost")
    assert told.queued_for == 0.0
    assert not in_flight(service)
    assert all(
        replica.reserved == replica.pending_prompt == replica.context == 0 for replica in state(service).replicas
    )


@pytest.mark.parametrize("hedge_first", [False, True])
def test_one_may_fail_and_the_other_goes_on(hedge_first: bool) -> None:
    service = service_of()
    request_id, first, second = hedged(service)
    lost, left = (second, first) if hedge_first else (first, second)
    decisions = service.governor.handle(
        AttemptFailed(START + 101.2, request_id, Reason.CONNECT_FAILED, hedge=hedge_first)
    )
    assert not all_of(Dispatch, decisions)
    assert not all_of(Fail, decisions)
    assert in_flight(service) == {left: 1}
    assert not next(replica for replica in state(service).replicas if replica.replica == lost).healthy
    again = only(Dispatch, service.failed(101.4, request_id, Reason.ENGINE_ERROR))
    assert again.replica not in {first, second}, "both have failed it"
    service.first(101.5, request_id)
    assert row(service.done(102, request_id)).outcome is Outcome.COMPLETED
    assert not in_flight(service)


def test_a_hedge_that_came_too_late_to_be_sent_is_held_against_nobody() -> None:
    service = service_of()
    request_id, first, second = hedged(service)
    service.governor.handle(AttemptFailed(START + 101.2, request_id, Reason.HEDGED, hedge=True))
    assert in_flight(service) == {first: 1}
    assert all(replica.routable for replica in state(service).replicas), second


@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.EVICTED, Outcome.FAILED])
def test_whatever_ends_it_before_a_token_gives_both_back_once(outcome: Outcome) -> None:
    service = service_of()
    request_id, _, _ = hedged(service)
    told = row(
        service.governor.handle(
            RequestFinished(START + 101.3, request_id, outcome, Reason.TOTAL_TIMEOUT, Timing(), 0, 0)
        )
    )
    assert (told.outcome, told.hedge) == (outcome, "asked")
    assert not in_flight(service)
    assert all(replica.reserved == 0 for replica in state(service).replicas)


def test_hedges_cost_no_more_than_their_budget() -> None:
    """All requests are late from now on: one in twenty is asked twice, beside the few that were saved up."""
    service = service_of(beyond=Fraction(1, 10))
    num = 200
    for index in range(num):
        at = 100.0 + index * 5
        service.ask(at)
        timer(service, at + LATE)
        service.first(at + 2.0, service.num)
        service.done(at + 2.1, service.num, output=160, began=at + 2.0)
    assert num // 25 <= state(service).hedges <= num // 20 + 4


def test_the_policy_says_whether_a_budget_closes_hedges() -> None:
    for rules, states, hedged in (
        (BudgetRules(spent_forbids=("lending",)), [BudgetState("ada", "ttft", 1.1, exhausted=True)], True),
        (BudgetRules(healthy_allows=("hedging",)), [], False),
        (BudgetRules(healthy_allows=("hedging",)), [BudgetState("ada", "t", 0.1, health=BudgetHealth.HEALTHY)], True),
    ):
        service = service_of(budget=rules)
        service.governor.handle(BudgetsReported(START + 90, tuple(states)))
        service.ask(100.0)
        assert bool(all_of(Dispatch, timer(service, 101.0))) is hedged


def test_no_hedge_while_the_budget_is_spent_somebody_waits_or_no_replica_is_left() -> None:
    spent = service_of()
    spent.governor.handle(BudgetsReported(START + 90, (BudgetState("ada", "ttft", 1.1, exhausted=True),)))
    spent.ask(100.0)
    assert not all_of(Dispatch, timer(spent, 101.0))
    alone = service_of(num_replicas=1)
    alone.ask(100.0)
    assert not all_of(Dispatch, timer(alone, 101.0))
    crowded = service_of(num_replicas=2, kv_blocks=20)
    crowded.ask(100.0)
    crowded.ask(100.0)
    crowded.ask(100.0)
    assert not all_of(Dispatch, timer(crowded, 101.0)), "one waits"


def test_a_token_of_a_hedge_that_was_never_made_is_a_bug_of_the_hands() -> None:
    service = service_of()
    service.ask(100.0)
    with pytest.raises(IllegalTransition):
        service.governor.handle(FirstToken(START + 100.1, service.num, hedge=True))
    with pytest.raises(IllegalTransition):
        service.governor.handle(AttemptFailed(START + 100.1, service.num, Reason.ENGINE_ERROR, hedge=True))

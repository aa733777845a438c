"""What happens after a dispatch: failures and retries, busy and dead replicas, expiry, drain, growth, a new policy."""

from fractions import Fraction

import pytest

from plimsoll.errors import IllegalTransition
from plimsoll.governor.decisions import Dispatch, Enqueue, Expire, Fail, Settle, Shed, WakeAt
from plimsoll.governor.events import (
    DrainStarted,
    PolicyChanged,
    RequestCancelled,
    ReservationOutgrown,
)
from plimsoll.policy.policy import Pool, Scheduling, Tenant, Tier
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.governor.service import Service, all_of, only, replica_of, row
from tests.laws.histories import START, objectives, policy_of

ONE_TIER = (Tier("gold", 0, queue_timeout=10.0, objectives=objectives()),)
ADA = (Tenant("ada", "gold"), Tenant("bob", "gold"))


def one_replica(**scheduling: object) -> Service:
    rules = Scheduling(**scheduling)  # type: ignore[arg-type]  # a test's shorthand
    return Service(policy_of(tiers=ONE_TIER, tenants=ADA, num_replicas=1, scheduling=rules), kv_blocks=20)


def test_a_refused_connection_is_retried_elsewhere_and_the_replica_left_alone() -> None:
    service = Service(policy_of())
    first = replica_of(service.ask(1))
    again = only(Dispatch, service.failed(1.1, 1, Reason.CONNECT_FAILED))
    assert (again.attempt, again.replica != first) == (2, True)
    assert [replica_of(service.ask(1.2)) for _ in range(3)] == [again.replica] * 3
    service.report(2)
    assert replica_of(service.ask(2.1)) == first
    assert row(service.done(3, 1)).attempts == 2


def test_a_busy_replica_is_backed_off_not_dead() -> None:
    service = Service(policy_of())
    first = replica_of(service.ask(1))
    decisions = service.failed(1.1, 1, Reason.ENGINE_BUSY, 2.0)
    assert only(WakeAt, decisions).at == START + 3.1
    other = replica_of(decisions)
    assert replica_of(service.ask(2)) == other
    states = {r.replica: r for r in service.governor.snapshot(START + 2).pools[0].replicas}
    assert states[first].healthy
    assert not states[first].routable
    service.timer(3.1)
    assert first in {replica_of(service.ask(3.2)) for _ in range(4)}


def test_a_replica_that_asks_for_days_is_tried_again_in_a_minute() -> None:
    service = Service(policy_of())
    first = replica_of(service.ask(1))
    service.failed(1.0, 1, Reason.ENGINE_BUSY, 999_999.0)
    service.timer(61.1)
    assert first in {replica_of(service.ask(61.2)) for _ in range(4)}


def test_when_no_other_replica_is_left_it_fails_and_says_when_to_come_back() -> None:
    service = one_replica()
    service.ask(1)
    decisions = service.failed(1.1, 1, Reason.ENGINE_BUSY, 2.0)
    fail = only(Fail, decisions)
    assert fail.reason is Reason.ENGINE_BUSY
    assert fail.retry_after == pytest.approx(2.0)
    record = row(decisions)
    assert (record.outcome, record.attempts, record.phase) == (Outcome.FAILED, 1, Phase.PREFILL)
    assert only(Settle, decisions).entries


@pytest.mark.parametrize("reason", [Reason.FIRST_BYTE_TIMEOUT, Reason.TOTAL_TIMEOUT, Reason.ENGINE_REFUSED])
def test_some_failures_are_not_worth_another_attempt(reason: Reason) -> None:
    service = Service(policy_of())
    service.ask(1)
    assert only(Fail, service.failed(1.1, 1, reason)).reason is reason


def test_retries_end() -> None:
    policy = policy_of(num_replicas=5, scheduling=Scheduling(retries=2))
    service = Service(policy)
    service.ask(1)
    assert only(Dispatch, service.failed(1.1, 1, Reason.ENGINE_ERROR)).attempt == 2
    assert only(Dispatch, service.failed(1.2, 1, Reason.ENGINE_ERROR)).attempt == 3
    assert only(Fail, service.failed(1.3, 1, Reason.ENGINE_ERROR)).reason is Reason.ENGINE_ERROR


def test_a_retry_waits_in_front_where_the_other_replica_is_full() -> None:
    service = Service(policy_of(tiers=ONE_TIER, tenants=ADA, num_replicas=2), kv_blocks=20)
    service.ask(1)  # fills one replica
    service.ask(1)  # and the other
    assert only(Enqueue, service.ask(1)).request_id == 3
    decisions = service.failed(1.1, 1, Reason.ENGINE_ERROR)
    assert only(Enqueue, decisions).request_id == 1
    assert only(Dispatch, decisions).request_id == 3  # the failed replica is free for somebody else
    retried = only(Dispatch, service.done(2, 2))
    assert (retried.request_id, retried.reason) == (1, Reason.RETRIED)


def test_expiry_by_queue_timeout_and_by_deadline() -> None:
    service = one_replica()
    service.ask(1)
    assert only(WakeAt, service.ask(2)).at == START + 12
    assert only(WakeAt, service.ask(3, deadline_at=START + 5)).at == START + 5
    decisions = service.timer(5)
    expire = only(Expire, decisions)
    assert (expire.request_id, expire.reason) == (3, Reason.DEADLINE)
    assert only(WakeAt, decisions).at == START + 12
    late = service.done(12.5, 1)  # the timer is late: nobody is dispatched after its time
    assert only(Expire, late).reason is Reason.QUEUE_TIMEOUT
    assert all_of(Dispatch, late) == []


def test_a_client_that_leaves_the_queue() -> None:
    service = one_replica()
    service.ask(1)
    service.ask(2)
    record = row(service.governor.handle(RequestCancelled(START + 3, 2)))
    assert (record.outcome, record.phase, record.replica) == (Outcome.CANCELLED, Phase.QUEUE, "")
    with pytest.raises(IllegalTransition, match="not open"):
        service.governor.handle(RequestCancelled(START + 3, 2))
    with pytest.raises(IllegalTransition, match="dispatched"):
        service.governor.handle(RequestCancelled(START + 3, 1))


def test_bugs_in_the_hands_are_told() -> None:
    service = Service(policy_of())
    service.ask(1)
    service.num = 0
    with pytest.raises(IllegalTransition, match="arrive"):
        service.ask(1)
    service.first(2, 1)
    with pytest.raises(IllegalTransition, match="streaming"):
        service.failed(3, 1, Reason.CONNECTION_LOST)
    with pytest.raises(IllegalTransition, match="first_token"):
        service.first(3, 1)
    service.done(4, 1)
    with pytest.raises(IllegalTransition, match="not open"):
        service.done(5, 1)


def test_a_drain_sheds_who_still_waits_after_its_grace() -> None:
    service = one_replica()
    service.ask(1)
    service.ask(2)
    assert only(WakeAt, service.governor.handle(DrainStarted(START + 3, 4.0))).at == START + 7
    shed = service.timer(7)
    assert only(Shed, shed).reason is Reason.DRAINING
    assert row(service.done(8, 1)).outcome is Outcome.COMPLETED


def test_growth_is_booked_and_holds_the_replica() -> None:
    service = one_replica()
    service.ask(1, prompt=160, output=0)  # unknown output: 512 tokens, all 20 blocks
    assert only(Enqueue, service.ask(2)).reason is Reason.POOL_FULL
    service.done(3, 1)
    service.first(4, 2)
    for tokens in (161, 320):
        service.governor.handle(ReservationOutgrown(START + 5, 2, tokens))
    replica = service.governor.snapshot(START + 5).pools[0].replicas[0]
    assert replica.reserved == 20  # its own max_tokens bounds it
    assert row(service.done(6, 2, output=150)).kv_blocks_reserved == 20


def test_growth_without_a_bound_goes_beyond_the_limit_and_nothing_is_sent_there() -> None:
    policy = policy_of(tiers=ONE_TIER, tenants=ADA, num_replicas=1)
    service = Service(policy, kv_blocks=100)
    for num in range(25):
        service.ask(1 + num, prompt=16, output=16)
        service.done(1.5 + num, num + 1, output=16)
    service.ask(50, prompt=16, output=0)  # 16 usual: 2 blocks
    service.ask(50, prompt=1500, output=16)  # 95 blocks
    service.governor.handle(ReservationOutgrown(START + 51, 26, 17))
    assert service.governor.snapshot(START + 51).pools[0].replicas[0].reserved == 99
    service.governor.handle(ReservationOutgrown(START + 52, 26, 150))
    assert service.governor.snapshot(START + 52).pools[0].replicas[0].reserved > 100
    assert only(Enqueue, service.ask(53, prompt=1, output=1)).reason is Reason.POOL_FULL


def test_strict_mode_reserves_the_remaining_context_for_all_choices() -> None:
    pools = (Pool("chat", "m", "vllm", ("http://r0",), max_context=1600),)
    service = Service(policy_of(pools=pools, scheduling=Scheduling(strict=True, oversubscription=Fraction(1, 2))))
    assert only(Dispatch, service.ask(1, prompt=160, output=0)).reserved_output_tokens == 1440
    service.ask(1, prompt=160, output=160, num_choices=3)
    reserved = [r.reserved for r in service.governor.snapshot(START + 1).pools[0].replicas]
    assert reserved == [100 + 3 * 20]


def test_replicas_and_pools_that_leave_the_policy_finish_what_they_run() -> None:
    service = Service(policy_of())
    gone = replica_of(service.ask(1))
    other = ({"http://r0", "http://r1"} - {gone}).pop()
    pools = (Pool("chat", "m", "vllm", (other,)),)
    assert service.governor.handle(PolicyChanged(START + 2, policy_of(pools=pools, version="v2"))) == []
    assert {replica_of(service.ask(3)) for _ in range(3)} == {other}
    record = row(service.done(4, 1))
    assert (record.replica, record.policy_version, record.outcome) == (gone, "v2", Outcome.COMPLETED)
    service.governor.handle(PolicyChanged(START + 5, policy_of(pools=(Pool("new", "n", "vllm", ("http://n",)),))))
    assert row(service.done(6, 2)).pool == "chat"


def test_who_waits_for_a_pool_that_leaves_is_answered() -> None:
    service = one_replica()
    service.ask(1)
    service.ask(2)
    decisions = service.governor.handle(
        PolicyChanged(START + 3, policy_of(pools=(Pool("new", "n", "vllm", ("http://n",)),)))
    )
    assert only(Shed, decisions).reason is Reason.NO_REPLICA

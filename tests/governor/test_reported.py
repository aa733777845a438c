"""Saturation by what replicas say, and tenants in turn: rules that stand beside ours to be measured against."""

from fractions import Fraction

from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.policy.policy import Order, Scheduling, Tenant, Tier
from plimsoll.policy.schedulingrules import SaturationRule
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, all_of, only
from tests.laws.histories import objectives, policy_of

TIERS = (Tier("gold", 0, objectives=objectives(1.0)),)
TENANTS = (Tenant("ada", "gold"), Tenant("bob", "gold"))


def service(**rules: object) -> Service:
    scheduling = Scheduling(reserve_kv=False, saturation=SaturationRule.REPORTED, **rules)  # type: ignore[arg-type]
    return Service(policy_of(tiers=TIERS, tenants=TENANTS, num_replicas=1, scheduling=scheduling))


def test_the_gate_is_shut_by_reported_queues_or_kv_and_opens_again() -> None:
    world = service()
    world.report(1.0, waiting=4, kv_usage=0.79)
    assert all_of(Dispatch, world.ask(1.1))
    for waiting, usage in ((5, 0.1), (0, 0.8)):
        world.report(2.0, waiting=waiting, kv_usage=usage)
        assert only(Enqueue, world.ask(2.1)).reason is Reason.SATURATED
        assert all_of(Dispatch, world.report(3.0, waiting=0, kv_usage=0.5))


def test_the_gates_limit_is_the_policys_and_silence_is_not_zero() -> None:
    world = service(saturation_limit=Fraction(1, 2))
    world.report(1.0, waiting=3)
    assert all_of(Enqueue, world.ask(1.1))
    world.report(2.0)
    assert all_of(Dispatch, world.ask(2.1)), "nothing told: what is booked, and nothing is bounded here"


def test_tenants_take_turns_by_requests_however_large() -> None:
    world = service(order=Order.TURNS)
    world.report(1.0, waiting=9)
    for num in range(4):
        world.ask(2.0 + num, "ada", prompt=8000)
    for num in range(4):
        world.ask(6.0 + num, "bob", prompt=10)
    sent = all_of(Dispatch, world.report(20.0, waiting=0))
    assert sorted([d.request_id for d in sent][:4]) == [1, 2, 5, 6]
    assert len(sent) == 8

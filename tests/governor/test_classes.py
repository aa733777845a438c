"""Classes of requests: weights within a tenant's turns, fading under pressure, and who is shed first."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.classes import Classes
from plimsoll.governor.decisions import Dispatch, Enqueue, Reject, Settle, Shed
from plimsoll.governor.events import Criticality, PolicyChanged
from plimsoll.policy.policy import Limits, Scheduling, Tenant, Tier
from plimsoll.policy.schedulingrules import RequestClass
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, all_of, only
from tests.laws.histories import START, policy_of

PAYMENT = RequestClass("payment", ("callback",), Fraction(4))
NO_LIMITS = Limits()
LOG = RequestClass("log", ("log",), Fraction(1), decay=10.0, sheddable=True)


def service_of(*classes: RequestClass, limits: Limits = NO_LIMITS) -> Service:
    """One replica with room for one request of 20 blocks at a time."""
    policy = policy_of(
        tenants=(Tenant("ada", "gold", limits=limits), Tenant("bob", "gold")),
        num_replicas=1,
        scheduling=Scheduling(classes=classes, bypasses=0),
    )
    return Service(policy, kv_blocks=20)


def served(service: Service, num: int, *, every: float, start: float) -> list[str]:
    """Causes of the next `num` dispatched as one after the other ends."""
    found = []
    running = 1
    for i in range(num):
        decisions = service.done(start + i * every, running, output=160)
        running = only(Dispatch, decisions).request_id
        found.append(running)
    return [str(request) for request in found]


def test_weights_fade_to_a_thousandth_and_no_further() -> None:
    classes = Classes((PAYMENT, LOG))
    assert [classes.of(cause) for cause in ("callback", "log", "else")] == [1, 2, 0]
    assert classes.weight(1, 1e6) == 4.0
    assert classes.weight(2, 0.0) == 1.0
    assert classes.weight(2, 20.0) == pytest.approx(0.25)
    assert classes.weight(2, 1e6) == pytest.approx(2.0**-10)


@settings(max_examples=15, deadline=None)
@given(weight=st.integers(1, 6), rounds=st.integers(20, 40))
def test_two_backlogged_classes_are_served_by_weight(weight: int, rounds: int) -> None:
    """Within one charge of each, as all charges are equal here."""
    service = service_of(RequestClass("payment", ("callback",), Fraction(weight)), RequestClass("order", ("order",)))
    service.ask(1)
    for num in range(2 * rounds + 2):
        service.ask(1.1, cause="callback" if num % 2 else "order")
    ids = served(service, rounds, every=0.01, start=2.0)
    payments = sum((int(request) - 2) % 2 for request in ids)
    assert abs(payments / weight - (rounds - payments)) <= 1.0 / weight + 1.0


@pytest.mark.parametrize("busy", ["callback", "order", "else"])
def test_what_a_class_had_while_nobody_waited_is_not_held_against_it(busy: str) -> None:
    """A hundred of one class went at once; when both wait, the other is not served alone until it has had as much."""
    service = service_of(RequestClass("payment", ("callback",)), RequestClass("order", ("order",)))
    for num in range(100):
        service.ask(1 + num * 0.01, cause=busy)
        service.done(1.005 + num * 0.01, service.num, output=160)
    running = service.num + 1
    service.ask(3)
    idle = "order" if busy == "callback" else "callback"
    for num in range(40):
        service.ask(3.1, cause=busy if num % 2 else idle)
    of_busy = 0
    for number in range(20):
        sent = only(Dispatch, service.done(4 + number * 0.01, running, output=160)).request_id
        of_busy += (sent - 102) % 2
        running = sent
    assert of_busy == pytest.approx(10, abs=1)


def test_a_class_fades_while_somebody_waits() -> None:
    """Equal weights; `log` halves every 10 s of pressure, so after 40 s it has a sixteenth."""
    even = RequestClass("payment", ("callback",))
    service = service_of(even, LOG)
    service.ask(1)
    for num in range(120):
        service.ask(1.1, cause="callback" if num % 2 else "log")
    early = served(service, 20, every=0.01, start=2.0)
    assert sum((int(request) - 2) % 2 for request in early) == pytest.approx(10, abs=2)
    running = int(early[-1])
    late = []
    for i in range(34):
        running = only(Dispatch, service.done(41.0 + i * 0.01, running, output=160)).request_id
        late.append((running - 2) % 2)
    assert sum(late) >= 30


def test_the_tenants_turns_stay_as_they_were() -> None:
    """ada says that all she sends is a payment; bob, who has no classes, gets his half."""
    service = service_of(PAYMENT)
    service.ask(1)
    for num in range(40):
        service.ask(1.1, "ada" if num % 2 else "bob", cause="callback" if num % 2 else "")
    ids = served(service, 20, every=0.01, start=2.0)
    assert sum((int(request) - 2) % 2 for request in ids) == pytest.approx(10, abs=1)


def test_a_sheddable_one_gives_its_place_in_a_full_queue() -> None:
    service = service_of(LOG, limits=Limits(queue=2))
    service.ask(1)
    assert only(Enqueue, service.ask(1.1, cause="log"))
    assert only(Enqueue, service.ask(1.2, criticality=Criticality.SHEDDABLE))
    refused = service.ask(1.3, cause="log")
    assert only(Reject, refused).reason is Reason.TENANT_QUEUE  # nobody's place is his
    decisions = service.ask(1.4)
    shed = only(Shed, decisions)
    assert (shed.request_id, shed.reason) == (3, Reason.OVERLOAD)  # the newest
    assert only(Settle, decisions).record.outcome is Outcome.SHED
    assert only(Enqueue, decisions).request_id == 5
    assert only(Shed, service.ask(1.5)).request_id == 2
    assert only(Reject, service.ask(1.6)).reason is Reason.TENANT_QUEUE  # nobody left who may be shed
    assert [d.request_id for d in all_of(Dispatch, service.done(2, 1))] == [5]


def test_a_place_freed_in_another_tier_is_none_in_a_full_one() -> None:
    """Ada's queue is full of what waits in bronze, gold's of what others wait with: gold stays within its limit."""
    policy = policy_of(
        tiers=(Tier("gold", 0, Fraction(1, 2), queue_limit=1), Tier("bronze", 2, Fraction(1, 5), queue_limit=9)),
        tenants=(Tenant("ada", "gold", tiers=("bronze",), limits=Limits(queue=1)), Tenant("bob", "gold")),
        num_replicas=1,
        scheduling=Scheduling(classes=(LOG,), bypasses=0),
    )
    for bob_may_be_shed in (False, True):
        service = Service(policy, kv_blocks=20)
        service.ask(1)
        assert only(Enqueue, service.ask(1.1, tier="bronze", cause="log"))
        assert only(Enqueue, service.ask(1.2, tenant="bob", cause="log" if bob_may_be_shed else "else"))
        decisions = service.ask(1.3)
        if bob_may_be_shed:
            assert [shed.request_id for shed in all_of(Shed, decisions)] == [2, 3]
            assert only(Enqueue, decisions).request_id == 4
        else:
            assert only(Reject, decisions).reason is Reason.TENANT_QUEUE
            assert not all_of(Shed, decisions)  # nobody goes in vain


def test_who_waits_anew_is_noted_once_when_the_list_is_cleared() -> None:
    limits = Limits(queue=500)
    service = service_of(LOG, limits=limits)
    service.ask(1)
    for number in range(100):
        service.ask(1.1 + number / 1000, cause="log")
    tenants = (Tenant("ada", "gold", limits=limits), Tenant("bob", "gold"))
    for number in range(9):
        policy = policy_of(
            tenants=tenants, num_replicas=1, scheduling=Scheduling(classes=(LOG,), bypasses=0), version=f"v{number + 2}"
        )
        service.governor.handle(PolicyChanged(START + 2 + number, policy))
    assert service.governor.dispatcher.sheddable.num_notes <= 2 * (2 * 100 + 65)

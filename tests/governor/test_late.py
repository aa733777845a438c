"""Who can no longer meet its objective waits behind those who can, by example; what that may do to rank is law 6."""

from fractions import Fraction

from plimsoll.governor.decisions import Dispatch
from plimsoll.policy.policy import Order, Scheduling, Tenant, Tier
from plimsoll.policy.schedulingrules import Late, RequestClass
from tests.governor.service import Service, only
from tests.laws.histories import objectives, policy_of

TENANTS = (Tenant("ada", "gold"), Tenant("dan", "bronze"))
TIERS = (
    Tier("gold", 0, queue_timeout=30.0, objectives=objectives(1.0)),
    Tier("bronze", 2, queue_timeout=30.0, objectives=objectives(5.0)),
)


def busy(scheduling: Scheduling | None = None, tiers: tuple[Tier, ...] = TIERS) -> Service:
    """One replica with room for one request of 20 blocks, which it has since 1 s."""
    policy = policy_of(tiers=tiers, tenants=TENANTS, num_replicas=1, scheduling=scheduling)
    service = Service(policy, kv_blocks=20)
    only(Dispatch, service.ask(1.0))
    return service


def order_of(service: Service, at: float, num: int) -> list[int]:
    """Who is sent next, one at a time."""
    running, found = 1, []
    for step in range(num):
        running = only(Dispatch, service.done(at + step / 100, running)).request_id
        found.append(running)
    return found


def test_in_a_lasting_overload_who_is_late_goes_last_and_the_oldest_of_those_first() -> None:
    service = busy()
    for at in (2.0, 2.1, 8.5, 8.6):
        service.ask(at)
    assert order_of(service, 9.0, 4) == [4, 5, 2, 3]


def test_a_burst_of_less_than_five_seconds_is_served_as_it_came() -> None:
    service = busy()
    for at in (2.0, 2.1, 6.5, 6.6):
        service.ask(at)
    assert order_of(service, 6.9, 4) == [2, 3, 4, 5]


def test_the_late_wait_behind_lower_tiers_but_for_their_own_floor() -> None:
    for share, expected in ((0, [3, 2]), (100, [2, 3])):
        tiers = (Tier("gold", 0, Fraction(share, 100), objectives=TIERS[0].objectives), TIERS[1])
        service = busy(tiers=tiers)
        service.ask(2.0, "ada")
        service.ask(8.0, "dan")
        assert order_of(service, 9.0, 2) == expected


def test_whom_no_waiting_made_late_keeps_its_place() -> None:
    """Its prompt alone takes longer than the objective: at the pace that first tokens showed, 10 ms a token."""
    service = busy()
    for num in range(8 * 20):
        at = 2.0 + num
        service.done(at, service.num)
        service.ask(at, prompt=160)
        service.first(at + 1.6, service.num)
    began = 2.0 + 8 * 20
    service.ask(began, prompt=160)
    service.ask(began + 6.0, prompt=16)
    first = only(Dispatch, service.done(began + 6.5, service.num - 2)).request_id
    assert first == service.num - 1


def test_by_arrival_and_by_choice_nobody_is_late() -> None:
    for rules in (
        Scheduling(order=Order.FCFS),
        Scheduling(late=Late.IN_TURN),
        Scheduling(Order.EDF, late=Late.IN_TURN),
    ):
        service = busy(rules)
        for at in (2.0, 8.5):
            service.ask(at)
        assert order_of(service, 9.0, 2) == [2, 3]


def test_a_class_divides_its_tenants_turns_whoever_is_late_in_it() -> None:
    service = busy(Scheduling(classes=(RequestClass("pay", ("pay",), Fraction(1)),)))
    for at, cause in ((2.0, "pay"), (2.1, "pay"), (8.0, "pay"), (8.1, "log"), (8.2, "log")):
        service.ask(at, cause=cause)
    sent = order_of(service, 8.5, 5)
    assert [number for number in sent if number in {2, 3, 4}] == [4, 2, 3]
    assert sent[1] in {5, 6} or sent[0] in {5, 6}  # the other class has its turn between


def test_the_late_expire_when_their_time_is_over() -> None:
    service = busy()
    for at in (2.0, 2.1, 31.9):
        service.ask(at)
    service.timer(32.05)  # the first one's 30 s are over
    assert order_of(service, 32.06, 2) == [4, 3]

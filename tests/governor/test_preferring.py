"""Orders beside fair turns, by example; what they may do to fairness is law 6 (tests/laws/test_fairness)."""

from plimsoll.governor.decisions import Dispatch
from plimsoll.policy.policy import Order, Scheduling, Tenant
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, only
from tests.laws.histories import START, policy_of

TENANTS = (Tenant("ada", "gold"), Tenant("bob", "gold"))


def service_of(order: Order, *, deficit: int = 16_384, bypasses: int = 16) -> Service:
    """One replica with room for one request of 20 blocks at a time, which is busy."""
    scheduling = Scheduling(order=order, deficit=deficit, bypasses=bypasses)
    service = Service(policy_of(tenants=TENANTS, num_replicas=1, scheduling=scheduling), kv_blocks=20)
    service.ask(1, "ada", prefix_hashes=(1, 2), prefix_block_tokens=64)
    return service


def test_the_earliest_due_goes_first() -> None:
    service = service_of(Order.EDF)
    service.ask(1.1, "ada")  # due by its objective, 0.8 s after its arrival
    service.ask(1.2, "bob", deadline_at=START + 1.8)
    service.ask(1.3, "ada", deadline_at=START + 50)
    sent = only(Dispatch, service.done(1.5, 1))
    assert (sent.request_id, sent.reason) == (3, Reason.PREFERRED)
    assert only(Dispatch, service.done(1.6, 3)).request_id == 2


def test_the_longest_prefix_held_goes_first() -> None:
    service = service_of(Order.LOCALITY)
    service.ask(1.1, "ada", prefix_hashes=(7, 8), prefix_block_tokens=64)
    service.ask(1.2, "ada", prefix_hashes=(1, 9), prefix_block_tokens=64)
    service.ask(1.3, "bob", prefix_hashes=(1, 2), prefix_block_tokens=64)
    running, order = 1, []
    for num in range(3):
        running = only(Dispatch, service.done(1.5 + num / 10, running)).request_id
        order.append(running)
    assert order == [4, 3, 2]


def test_nobody_is_passed_more_often_than_the_policy_says() -> None:
    service = service_of(Order.LOCALITY, bypasses=2)
    service.ask(1.1, "ada", prefix_hashes=(7, 8), prefix_block_tokens=64)
    for _ in range(4):
        service.ask(1.2, "bob", prefix_hashes=(1, 2), prefix_block_tokens=64)
    running, order = 1, []
    for num in range(4):
        running = only(Dispatch, service.done(1.5 + num / 10, running)).request_id
        order.append(running)
    assert order.index(2) == 2


def test_a_tenant_gets_ahead_by_the_deficit_and_no_further() -> None:
    """Each is charged 160 + 2 × 160 tokens or less; with 0 deficit only one largest charge ahead is allowed."""

    def ahead(deficit: int) -> int:
        service = service_of(Order.LOCALITY, deficit=deficit, bypasses=1000)
        for _ in range(12):
            service.ask(1.1, "ada", prefix_hashes=(7, 8), prefix_block_tokens=64)
            service.ask(1.2, "bob", prefix_hashes=(1, 2), prefix_block_tokens=64)
        running, num = 1, 0
        while num < 12:
            running = only(Dispatch, service.done(1.5 + num / 100, running, output=160)).request_id
            if running % 2 == 0:  # ada's
                return num
            num += 1
        return num

    assert ahead(0) < 4
    assert ahead(100_000) == 12

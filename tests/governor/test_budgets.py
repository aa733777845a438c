"""What budgets do to scheduling: standings of past months, and risks that spent ones close."""

from fractions import Fraction

from msgspec.structs import replace

from plimsoll.governor.decisions import Decision, Dispatch, Reject
from plimsoll.governor.events import BudgetsReported, BudgetState, Standing
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.policy import Limits, Scheduling, Tenant, Tier
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, all_of, only
from tests.laws.histories import START, objectives, policy_of

TIERS = (
    Tier("gold", 0, Fraction(1, 2), wait=4.0, objectives=objectives(1.0)),
    Tier("silver", 1, Fraction(1, 5), objectives=objectives(2.0)),
)
TENANTS = (Tenant("ada", "gold", limits=Limits(concurrency=2)), Tenant("cyd", "silver"), Tenant("eve", "silver"))


def service_of(oversubscription: Fraction = Fraction(0), **risks: tuple[str, ...]) -> Service:
    scheduling = Scheduling(oversubscription=oversubscription)
    policy = policy_of(tiers=TIERS, tenants=TENANTS, num_replicas=1, scheduling=scheduling)
    return Service(replace(policy, budget=replace(BudgetRules(), **risks)), kv_blocks=100)


def tell(service: Service, at: float, *of: BudgetState, standings: tuple[Standing, ...] = ()) -> list[Decision]:
    return service.governor.handle(BudgetsReported(START + at, of, standings))


def spent(tenant: str) -> BudgetState:
    return BudgetState(tenant, "ttft", 0.97, health=BudgetHealth.DEGRADED, degrade=True)


def test_headroom_counts_in_its_month_only() -> None:
    service = service_of()
    tell(service, 1, standings=(Standing("ada", START + 10, START + 20, headroom=1),))

    def taken(at: float) -> int:
        sent = [d for _ in range(4) for d in all_of(Dispatch, service.ask(at, prompt=16, output=16))]
        for dispatch in sent:
            service.done(at + 0.5, dispatch.request_id)
        return len(sent)

    assert [taken(5), taken(12), taken(20)] == [2, 3, 2]
    assert only(Reject, [d for _ in range(3) for d in service.ask(25, prompt=16, output=16)]).reason is (
        Reason.TENANT_CONCURRENCY
    )


def test_a_demoted_tenant_waits_one_rank_lower_and_keeps_its_tier() -> None:
    service = service_of()
    tell(service, 1, standings=(Standing("ada", START, START + 100, demoted=True),))
    service.ask(2, "cyd", prompt=800, output=800)  # all of the replica
    service.ask(2.1, "eve", prompt=800, output=640)
    waits = service.ask(2.2, "ada", prompt=800, output=640)
    assert all_of(Dispatch, waits) == []
    queue = [(q.tier, q.tenant) for q in service.governor.snapshot(START + 3).queues]
    assert ("gold", "ada") in queue
    first = only(Dispatch, service.done(4, 1, output=800))
    assert (first.request_id, first.tier_served) == (2, "silver")  # gold would have gone first
    tell(service, 5)  # no standing any more
    service.ask(6, "ada", prompt=800, output=640)
    assert {d.request_id for d in all_of(Dispatch, service.done(7, 2, output=640))} == {4}


def test_a_spent_budget_closes_oversubscription_and_a_whole_one_opens_it() -> None:
    service = service_of(oversubscription=Fraction(1, 2))

    def fits(at: float) -> int:
        sent = [d for _ in range(20) for d in all_of(Dispatch, service.ask(at, "cyd", prompt=80, output=80))]
        for num, dispatch in enumerate(sent):
            service.first(at + 0.01 + num / 1000, dispatch.request_id)
        return len(sent)

    def clear(at: float) -> None:
        for replica in service.governor.pools()[0].replicas:
            for request in list(replica.in_flight):
                service.done(at, request, output=80)

    limits = [service.governor.pools()[0].replicas[0].limit]
    tell(service, 1, spent("ada"))
    limits.append(service.governor.pools()[0].replicas[0].limit)
    service.report(2)  # a report of the replica does not open it again
    limits.append(service.governor.pools()[0].replicas[0].limit)
    tell(service, 3, BudgetState("ada", "ttft", 0.2, health=BudgetHealth.HEALTHY))
    limits.append(service.governor.pools()[0].replicas[0].limit)
    assert limits == [150, 100, 100, 150]
    assert fits(4) > 0
    clear(5)


def limit_of(service: Service) -> int:
    return service.governor.pools()[0].replicas[0].limit


def test_the_policy_says_what_a_spent_budget_forbids() -> None:
    service = service_of(oversubscription=Fraction(1, 2), spent_forbids=("lending",))
    tell(service, 1, spent("ada"))
    assert limit_of(service) == 150
    assert service.governor.pools()[0].lending.closed[:2] == [True, False]
    service = service_of(oversubscription=Fraction(1, 2), spent_forbids=())
    tell(service, 1, spent("ada"))
    assert service.governor.pools()[0].lending.closed[:2] == [False, False]


def test_what_a_healthy_budget_allows_is_closed_until_all_are_known_to_be_so() -> None:
    service = service_of(oversubscription=Fraction(1, 2), healthy_allows=("oversubscription",))
    limits = [limit_of(service)]
    states = {name: BudgetState(name, "ttft", 0.1, health=BudgetHealth.HEALTHY) for name in ("ada", "cyd", "eve")}
    for told in ({}, {"ada": states["ada"]}, states, states | {"eve": BudgetState("eve", "ttft", 0.85)}, states):
        tell(service, 1 + len(limits), *told.values())
        limits.append(limit_of(service))
    assert limits == [100, 100, 100, 150, 100, 150]
    assert service.governor.pools()[0].lending.closed[:2] == [False, False], "what the policy does not name stays open"


def test_the_floor_of_a_spent_tenants_tier_is_not_lent_on_promise() -> None:
    """As known of releases gold's floor may be lent: see test_turns. Not while gold's budget is spent."""

    def lent(*budgets: BudgetState) -> int:
        service = service_of()
        for num in range(30):
            at = 2.0 * num
            service.ask(at, "cyd", prompt=80, output=80)
            service.first(at + 0.1, service.num)
            service.done(at + 1.0, service.num, output=80)
        tell(service, 90, *budgets)
        reasons = []
        for num in range(12):
            for dispatch in all_of(Dispatch, service.ask(100 + num / 100, "cyd", prompt=80, output=80)):
                service.first(100 + num / 100, dispatch.request_id)
                reasons.append(dispatch.reason)
        return reasons.count(Reason.LENT)

    assert lent() >= 3
    assert lent(spent("ada")) == 0
    assert lent(spent("cyd")) >= 3  # the borrower's budget does not matter

"""Law 1: at every instant, by tenant and tier, what came is somewhere, and every request is settled once."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.events import DrainStarted, PolicyChanged
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Order, RoutingRule, Scheduling, Tenant
from tests.laws.histories import Traffic, World, policy_of

SCHEDULES = (
    Scheduling(),
    Scheduling(strict=True),
    Scheduling(routing=RoutingRule.ROUND_ROBIN, retries=0),
    Scheduling(order=Order.FCFS, routing=RoutingRule.LEAST_REQUESTS, tiers_matter=False, reserve_kv=False),
)

worlds = st.builds(
    lambda seed, rules, traffic, replicas: World(
        Governor(policy_of(num_replicas=replicas, scheduling=rules)), traffic, seed
    ),
    st.integers(0, 1 << 32),
    st.sampled_from(SCHEDULES),
    st.builds(
        Traffic,
        rate=st.sampled_from((3.0, 20.0, 60.0)),
        attempt_fails=st.sampled_from((0.0, 0.05, 0.4)),
        leaves_queue=st.sampled_from((0.0, 0.3)),
        outage=st.sampled_from((0.0, 0.1)),
        kv_blocks=st.sampled_from((None, 300, 2000)),
        matched=st.sampled_from((0.0, 0.5)),
    ),
    st.integers(1, 4),
)


def check_books(world: World) -> None:
    told = {
        (c.tenant, c.tier): (c.received, Counter({k: v for k, v in c.by_state.items() if v}))
        for c in world.governor.snapshot(world.at).counts
        if c.received
    }
    seen: dict[tuple[str, str], Counter[str]] = {}
    for (tenant, tier, place), num in world.counts().items():
        seen.setdefault((tenant, tier), Counter())[place] += num
    assert told.keys() == seen.keys()
    for key, (received, by_state) in told.items():
        assert received == sum(by_state.values()) == sum(seen[key].values())
        by_state["dispatched"] += by_state.pop("streaming", 0)
        assert +by_state == seen[key]


@settings(max_examples=20, deadline=None)
@given(world=worlds)
def test_everything_is_somewhere(world: World) -> None:
    for number, _ in enumerate(world.run(300)):
        if number % 10 == 0:
            check_books(world)
    for _ in world.finish():
        pass
    check_books(world)
    assert all(fate.num_settled == 1 for fate in world.fates.values())


@settings(max_examples=10, deadline=None)
@given(world=worlds, grace=st.sampled_from((0.0, 0.5, 20.0)))
def test_a_drain_answers_everybody(world: World, grace: float) -> None:
    for _ in world.run(200):
        pass
    world.tell(DrainStarted(world.at, grace))
    for _ in world.finish():
        pass
    assert all(fate.num_settled == 1 for fate in world.fates.values())
    arrival = world.arrival()
    world.tell(arrival)
    assert world.fates[arrival.request_id].place == "rejected"
    check_books(world)


@settings(max_examples=15, deadline=None)
@given(world=worlds, seed=st.integers(0, 1000))
def test_a_new_policy_loses_nobody(world: World, seed: int) -> None:
    for _ in world.run(200):
        pass
    before = world.policy
    tenants = tuple(Tenant(t.name, before.tiers[(i + seed) % 3].name) for i, t in enumerate(before.tenants))
    changed = policy_of(tenants=tenants, num_replicas=1 + seed % 5, scheduling=SCHEDULES[seed % 4], version="v2")
    world.tell(PolicyChanged(world.at, changed))
    world.policy = changed
    for _ in world.run(200):
        pass
    for _ in world.finish():
        pass
    assert all(fate.num_settled == 1 for fate in world.fates.values())
    check_books(world)  # by the tiers promised at arrival: those stay

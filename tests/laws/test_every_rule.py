"""Laws 1, 3 and 7 under every rule that a policy can choose: all are settled once, replay alike, and give back all."""

from fractions import Fraction

import msgspec
import pytest

from plimsoll.engine import profiles
from plimsoll.governor.events import BudgetsReported, BudgetState
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import (
    Adapt,
    Degradation,
    Hedging,
    Limits,
    Order,
    Policy,
    Pool,
    RoutingRule,
    Scheduling,
    Tenant,
    Trigger,
)
from plimsoll.policy.schedulingrules import RequestClass
from tests.laws.histories import Traffic, World, policy_of

PROFILE = "h100-llama70b-tp4"
RULES = {
    **{order.value: Scheduling(order=order) for order in Order},
    **{routing.value: Scheduling(routing=routing) for routing in RoutingRule},
    "classes": Scheduling(classes=(RequestClass("log", ("log",), Fraction(1, 2), 5.0, True),)),
}


def policy_under(rules: Scheduling) -> Policy:
    """Everything that adapts is on."""
    pools = (
        Pool("chat", "m", "vllm", ("http://r0", "http://r1", "http://r2"), profile=PROFILE, max_concurrency=12),
        Pool("lite", "small", "vllm", ("http://s0",), degrade_target=True),
    )
    tenants = (
        Tenant("ada", "gold", limits=Limits(concurrency=6)),
        Tenant("bob", "gold", limits=Limits(tokens_per_minute=100_000, adapt=Adapt())),
        Tenant("dan", "bronze", tiers=("silver",)),
    )
    made = policy_of(scheduling=rules, pools=pools, tenants=tenants)
    ladder = Degradation(Trigger("ttft", 0.1, 2.0), ("drop_plugins", "batch_of_one", "small_model"))
    return Policy(made.service, made.tiers, made.tenants, made.pools, degradation=ladder, scheduling=rules)


@pytest.mark.parametrize("name", sorted(RULES))
def test_everybody_is_settled_once_and_a_replay_is_the_same(name: str) -> None:
    settles_everybody_and_replays(RULES[name])


@pytest.mark.parametrize("routing", [RoutingRule.LOAD, RoutingRule.PREDICTED])
def test_so_they_are_where_some_are_asked_of_two_replicas(routing: RoutingRule) -> None:
    rules = Scheduling(routing=routing, hedging=Hedging(beyond=Fraction(1, 4)))
    world = settles_everybody_and_replays(rules, Traffic(rate=15.0, kv_blocks=4000, prompt_tokens=300), 1800)
    assert sum(fate.num_hedges for fate in world.fates.values()) > 5


def settles_everybody_and_replays(rules: Scheduling, traffic: Traffic | None = None, num_events: int = 700) -> World:
    policy, known = policy_under(rules), {PROFILE: profiles.load(PROFILE)}
    world = World(Governor(policy, known), traffic or Traffic(rate=40.0, kv_blocks=600), seed=11)
    history = []
    for num, (event, decisions) in enumerate(world.run(num_events)):
        history.append((event, msgspec.msgpack.encode(decisions)))
        if num % 200 == 100:
            budgets = (BudgetState("dan", "ttft", 0.97, degrade=True),) if num < 400 else ()
            told = BudgetsReported(world.at, budgets)
            history.append((told, msgspec.msgpack.encode(world.tell(told))))
    history += [(event, msgspec.msgpack.encode(decisions)) for event, decisions in world.finish()]
    assert all(fate.num_settled == 1 for fate in world.fates.values())
    assert sum(bool(fate.dispatches) for fate in world.fates.values()) > 50
    for pool in world.governor.snapshot(world.at).pools:
        assert all(replica.reserved == 0 and replica.in_flight == 0 for replica in pool.replicas)
    again = Governor(policy, known)
    for event, encoded in history:
        assert msgspec.msgpack.encode(again.handle(event)) == encoded
    return world

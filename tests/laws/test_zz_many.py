"""A new policy may change anything while requests wait and run: nobody is lost, and every number comes back to zero."""

from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.governor.events import BudgetsReported, BudgetState, Criticality, PolicyChanged, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.policy import (
    Adaptive,
    Degradation,
    Hedging,
    Limits,
    Order,
    Policy,
    Pool,
    RoutingRule,
    Scheduling,
    Service,
    Tenant,
    Tier,
    Trigger,
)
from plimsoll.policy.schedulingrules import Late, RequestClass, SaturationRule, SpeculationRules
from tests.laws.histories import Traffic, World, objectives
from tests.laws.test_conservation import check_books

TENANTS = ("ada", "bob", "cyd", "dan", "eve")
CAUSES = ("", "pay", "log")


def tiers_of(dice: Random) -> tuple[Tier, ...]:
    """One to three of three names, in any order of rank."""
    names = dice.sample(("gold", "silver", "bronze"), dice.randint(1, 3))
    classes = TierClasses(("a", "b"), ("b", "a"), ("b",)) if dice.random() < 0.4 else None
    return tuple(
        Tier(
            name,
            rank,
            dice.choice((Fraction(0), Fraction(3, 10))),
            dice.choice((Fraction(0), Fraction(1, 20))),
            sheddable=dice.random() < 0.5,
            queue_limit=dice.choice((1, 5, 1000)),
            queue_timeout=dice.choice((0.5, 10.0)),
            objectives=objectives(dice.choice((0.1, 2.0))),
            classes=classes,
        )
        for rank, name in enumerate(names)
    )


def tenants_of(dice: Random, tiers: tuple[Tier, ...]) -> tuple[Tenant, ...]:
    limits = (
        Limits(),
        Limits(concurrency=4),
        Limits(queue=1),
        Limits(requests_per_minute=60, tokens_per_minute=20_000),
    )
    return tuple(
        Tenant(name, dice.choice(tiers).name, limits=dice.choice(limits), tiers=(dice.choice(tiers).name,))
        for name in dice.sample(TENANTS, dice.randint(1, 5))
    )


def pools_of(dice: Random) -> tuple[Pool, ...]:
    """Two pools of one model or of two, on some of six replicas; one may be split by length and share replicas."""
    urls = [f"http://r{number}" for number in range(6)]
    dice.shuffle(urls)
    num, more = dice.randint(1, 3), dice.randint(1, 2)
    split = dice.random() < 0.4
    first = Pool(
        "chat", "m", "vllm", tuple(urls[:num]), max_prompt_tokens=800 if split else None,
        max_concurrency=dice.choice((None, 1, 4)), sla_class="a", speculation=dice.choice(("", "on")),
    )  # fmt: skip
    second = Pool(
        dice.choice(("long", "lite")), "m" if split else dice.choice("mn"), "vllm", tuple(urls[num : num + more]),
        min_prompt_tokens=800 if split else 0, max_concurrency=first.max_concurrency, sla_class="b",
        speculation=dice.choice(("", "off")), degrade_target=dice.random() < 0.5,
        adaptive=Adaptive("chat", 3, dwell=0.5) if split and dice.random() < 0.7 and num > 1 else None,
    )  # fmt: skip
    return (first, second) if split or dice.random() < 0.7 else (first,)


def policy_by(dice: Random, version: str) -> Policy:
    tiers = tiers_of(dice)
    levels = tuple(level for level in ("drop_plugins", "batch_of_one", "small_model") if dice.random() < 0.5)
    classes = RequestClass("log", (dice.choice(CAUSES[1:]),), Fraction(dice.choice((1, 8))), dice.choice((1.0, 60.0)))
    rules = Scheduling(
        order=dice.choice(tuple(Order)),
        routing=dice.choice(tuple(RoutingRule)),
        tiers_matter=dice.random() < 0.7,
        reserve_kv=dice.random() < 0.7,
        strict=dice.random() < 0.3,
        bypasses=dice.choice((0, 16)),
        saturation=dice.choice(tuple(SaturationRule)),
        late=dice.choice(tuple(Late)),
        classes=(classes,) if dice.random() < 0.5 else (),
        hedging=Hedging(at_least=0.05) if dice.random() < 0.5 else None,
        speculation=SpeculationRules(Fraction(3, 10)) if dice.random() < 0.5 else None,
        retries=dice.choice((0, 2)),
    )
    return Policy(
        service=Service(),
        tiers=tiers,
        tenants=tenants_of(dice, tiers),
        pools=pools_of(dice),
        degradation=Degradation(Trigger("ttft", 0.01, 0.5), levels),
        scheduling=rules,
        version=version,
    )


class ManyWishes(World):
    """Requests with causes, of any criticality."""

    def arrival(self) -> RequestArrived:
        wishes = {"cause": self.random.choice(CAUSES), "criticality": self.random.choice(tuple(Criticality))}
        return replace(super().arrival(), **wishes)


def check_at_rest(world: World) -> None:
    """Nothing waits and nothing runs, so nothing is booked."""
    for pool in world.governor.pools():
        assert (pool.num_waiting, pool.num_in_flight) == (0, 0)
        assert [lane.num for lane in pool.lanes] == [0] * len(pool.lanes)
        for replica in pool.replicas:
            assert (replica.num_in_flight, replica.reserved, replica.pending_prompt) == (0, 0, 0)
            assert replica.room.used == [0] * len(replica.room.used)
    register = world.governor.register
    assert all(tier.num_waiting == 0 for tier in register.tiers.values())
    assert all((each.num_open, each.num_waiting) == (0, 0) for each in register.accounts.values())


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 1 << 32), changes=st.integers(1, 8), rate=st.sampled_from((10.0, 80.0)))
def test_whatever_policies_follow_each_other_nobody_is_lost(seed: int, changes: int, rate: float) -> None:
    dice = Random(seed)
    first = policy_by(dice, "v0")
    world = ManyWishes(Governor(first), Traffic(rate=rate, kv_blocks=dice.choice((None, 300)), outage=0.05), seed)
    for number in range(changes):
        for _ in world.run(dice.randint(0, 80)):
            pass
        if dice.random() < 0.5:
            spent = [BudgetState(name, "ttft", 0.96, degrade=True) for name in TENANTS if dice.random() < 0.3]
            world.tell(BudgetsReported(world.at, tuple(spent)))
        changed = policy_by(dice, f"v{number + 1}")
        world.policy = changed
        world.tell(PolicyChanged(world.at, changed))
        check_books(world)
    for _ in world.finish():
        pass
    assert all(fate.num_settled == 1 for fate in world.fates.values())
    check_books(world)
    check_at_rest(world)

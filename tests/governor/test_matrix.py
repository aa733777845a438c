"""Tiers and classes of pools: which pool a request goes to, by class, room and how its tenant's budgets are."""

import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Decision, Dispatch, Enqueue
from plimsoll.governor.events import BudgetsReported, BudgetState, PolicyChanged, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.governor.pathway import path
from plimsoll.governor.restoring import restore
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.policy import Policy, Pool, Tenant, Tier
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, all_of, only, refused
from tests.laws.histories import START, objectives, policy_of


def pool(name: str, sla_class: str, model: str, built_for: float | None = None) -> Pool:
    url = f"http://{name}"
    return Pool(name, model, "vllm", (url,), aliases=("assistant",), sla_class=sla_class, built_for=built_for)


POOLS = (pool("big", "fast", "m70", 0.12), pool("middle", "standard", "m13", 0.3), pool("small", "economy", "m3", 0.8))
GOLD = TierClasses(("fast", "standard"), ("fast", "standard"), ("fast", "standard"))
SILVER = TierClasses(("standard", "economy"), ("fast", "standard"), ("economy",))


def policy(pools: tuple[Pool, ...] = POOLS) -> Policy:
    return policy_of(
        tiers=(
            Tier("gold", 0, objectives=objectives(), classes=GOLD),
            Tier("silver", 1, objectives=objectives(), classes=SILVER),
            Tier("bronze", 2, objectives=objectives()),
        ),
        tenants=(Tenant("ada", "gold"), Tenant("sid", "silver"), Tenant("bob", "bronze", tiers=("silver",))),
        pools=pools,
    )


def asked(service: Service, at: float, tenant: str, **more: object) -> list[Decision]:
    """160 prompt and 160 output tokens: all 20 blocks of a replica of theirs."""
    return service.ask(at, tenant, model="assistant", **more)  # type: ignore[arg-type]


def pool_of(decisions: list[Decision]) -> str:
    return only(Dispatch, decisions).pool


def health(service: Service, at: float, *health: BudgetHealth, tenant: str = "sid") -> None:
    states = [
        BudgetState(tenant, f"o{i}", None, degrade=each is BudgetHealth.DEGRADED, health=each)
        for i, each in enumerate(health)
    ]
    service.governor.handle(BudgetsReported(START + at, tuple(states)))


def test_the_first_class_that_has_room_and_else_the_first() -> None:
    service = Service(policy(), kv_blocks=20)
    assert [pool_of(asked(service, at, "ada")) for at in (1, 2)] == ["big", "middle"]
    assert only(Enqueue, asked(service, 3, "ada")).request_id == 3
    assert all_of(Dispatch, service.done(4, 2)) == [], "it does not move to where room is later"
    sent = only(Dispatch, service.done(5, 1))
    assert (sent.request_id, sent.pool) == (3, "big"), "it waits where it would have gone first"
    assert pool_of(asked(service, 6, "ada")) == "middle"


def test_a_class_whose_replicas_are_down_is_passed_over() -> None:
    service = Service(policy(), kv_blocks=20)
    service.report(1, down=["http://big"])
    assert pool_of(asked(service, 2, "ada")) == "middle"
    service.report(3, down=["http://big", "http://middle", "http://small"])
    assert refused(asked(service, 4, "ada"))[0] is Reason.NO_REPLICA


@pytest.mark.parametrize(
    ("states", "pools"),
    [
        ((), ["middle", "small"]),
        ((BudgetHealth.HEALTHY, BudgetHealth.NO_TRAFFIC), ["big", "middle"]),
        ((BudgetHealth.NO_PLAN, BudgetHealth.TOO_FEW), ["middle", "small"]),
        ((BudgetHealth.HEALTHY, BudgetHealth.WARN), ["middle", "small"]),
        ((BudgetHealth.HEALTHY, BudgetHealth.DEGRADED), ["small", ""]),
    ],
)
def test_budgets_choose_the_column(states: tuple[BudgetHealth, ...], pools: list[str]) -> None:
    """Unknown is not healthy; what calls for action closes the better classes, however much room they have."""
    service = Service(policy(), kv_blocks=20)
    health(service, 0.5, *states)
    for at, expected in enumerate(pools, 1):
        decisions = asked(service, at, "sid")
        assert [sent.pool for sent in all_of(Dispatch, decisions)] == [expected] * bool(expected)
    assert pool_of(asked(Service(policy()), 1, "ada")) == "big"


def test_a_tier_asked_for_by_header_has_its_own_row_and_one_without_takes_what_comes_first() -> None:
    service = Service(policy())
    assert pool_of(asked(service, 1, "bob")) == "big", "no classes: the document's first pool, as ever"
    assert pool_of(asked(service, 2, "bob", tier="silver")) == "middle"


def test_a_pool_without_a_class_is_everybodys_last() -> None:
    service = Service(policy((pool("plain", "", "m1"), *POOLS[1:2])), kv_blocks=20)
    assert [pool_of(asked(service, at, "ada")) for at in (1, 2)] == ["middle", "plain"]


def test_a_model_that_the_tier_may_not_use_is_not_there_for_it() -> None:
    service = Service(policy())
    reason, detail = refused(service.ask(1, "ada", model="m3"))
    assert (reason, detail) == (Reason.UNKNOWN_MODEL, "m3 is not for requests of this tier now")
    assert only(Dispatch, service.ask(2, "sid", model="m3")).pool == "small"


def test_prompt_ranges_hold_within_the_order() -> None:
    short = replace(POOLS[0], max_prompt_tokens=1000)
    service = Service(policy((short, *POOLS[1:])), kv_blocks=4000)
    assert pool_of(asked(service, 1, "ada", prompt=999)) == "big"
    assert pool_of(asked(service, 2, "ada", prompt=1000)) == "middle"
    full = Service(policy((POOLS[0], replace(POOLS[1], max_prompt_tokens=160), POOLS[2])), kv_blocks=20)
    asked(full, 1, "ada")
    assert all_of(Enqueue, asked(full, 2, "ada")), "room in a pool that does not take such prompts is none"


def test_what_is_reserved_is_what_the_pool_that_takes_it_needs() -> None:
    """The first pool has a small context, so its answers are short: the other one's are counted anew."""
    small = replace(POOLS[0], max_context=320)
    service = Service(policy((small, *POOLS[1:])), kv_blocks=60)
    assert [pool_of(asked(service, at, "ada", output=0)) for at in range(1, 5)] == [*["big"] * 3, "middle"]
    pools = service.governor.snapshot(START + 5).pools
    assert [pool.replicas[0].reserved for pool in pools] == [60, -(-(160 + 512) // 16), 0]


def test_what_waits_is_placed_by_the_new_matrix() -> None:
    service = Service(policy(), kv_blocks=20)
    health(service, 0.5, BudgetHealth.DEGRADED)
    for at in (1, 2):
        asked(service, at, "sid")
    changed = replace(policy().tiers[1], classes=TierClasses(("standard",), ("standard",), ("standard",)))
    made = policy()
    sent = only(
        Dispatch,
        service.governor.handle(PolicyChanged(START + 3, replace(made, tiers=(made.tiers[0], changed, made.tiers[2])))),
    )
    assert (sent.request_id, sent.pool) == (2, "middle")


def test_a_governor_restored_from_a_snapshot_knows_the_column() -> None:
    for state, expected in ((BudgetHealth.HEALTHY, "big"), (BudgetHealth.DEGRADED, "small"), (None, "middle")):
        service = Service(policy(), kv_blocks=20)
        health(service, 0.5, *([state] if state else []))
        asking = RequestArrived(START + 2, 99, "sid", "assistant", 160, 160)
        restored = Governor(policy(), {})
        restore(restored, service.governor.snapshot(START + 1), asking)
        assert path(restored, asking).pool == expected


def test_explain_tells_the_row_and_why() -> None:
    service = Service(policy(), kv_blocks=20)
    health(service, 0.5, BudgetHealth.HEALTHY)
    asked(service, 1, "ada")
    found = path(service.governor, RequestArrived(START + 2, 99, "sid", "assistant", 160, 160))
    (step,) = [step for step in found.steps if step.step == "classes"]
    assert step.answer == "fast, standard"
    assert "while its tenant's budget is healthy" in step.why
    assert "big (fast, built for 120ms): full; middle (standard, built for 300ms): takes it now" in step.why
    assert found.pool == "middle"

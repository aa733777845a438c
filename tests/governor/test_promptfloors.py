"""Long prompts of lower tiers: their floor of computation, what is lent, and who is not kept waiting for it."""

from fractions import Fraction
from itertools import pairwise

import pytest

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import unloaded_ttft
from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.promptfloors import BURST, DEBT, DEPTH, PEAK, PromptFloors
from plimsoll.policy.policy import Policy, Pool, Scheduling, Tenant, Tier
from tests.governor.service import Service, all_of
from tests.laws.histories import objectives, policy_of

OPEN = [False, False]


def floors(wait: float) -> PromptFloors:
    """Gold holds twice as much as bronze; a token takes a millisecond."""
    found = PromptFloors([0.5, 0.25], [wait, 5.0])
    found.token_time = 0.001
    return found


def test_a_floor_of_computation_is_earned_and_paid() -> None:
    """A third of the time is bronze's: tiers divide all of it by their shares."""
    prompts = floors(wait=0.0)
    started = [0.0]
    at = 100.0
    for _ in range(4000):
        if prompts.may_start(1, 4000, OPEN, at):
            prompts.started(1, prompts.costs(4000, 0), at)
            started.append(at)
        at += 0.1
    used = 4.0 * (len(started) - 1)
    assert used == pytest.approx((at - 100.0 + DEPTH) / 3.0, abs=4.0)
    gaps = [after - before for before, after in pairwise(started[25:])]
    assert max(gaps) == pytest.approx(12.0, abs=0.2)


def test_what_is_over_within_the_lenders_wait_is_lent() -> None:
    prompts = floors(wait=4.0)
    prompts.started(1, 1000.0, 100.0)  # in debt
    assert prompts.may_start(1, 4000, OPEN, 100.0)
    assert not prompts.may_start(1, 4001, OPEN, 100.0)
    assert not prompts.may_start(1, 4000, [True, False], 100.0)


def test_outputs_are_paid_for_and_a_tier_without_a_share_earns_what_no_tier_holds() -> None:
    prompts = floors(wait=0.0)
    prompts.output_time, prompts.held_time = 0.001, 1e-6
    prompts.started(1, prompts.costs(1000, 1000), 100.0)  # 1 s, and a thousand times 2 ms; a third of ten was at hand
    assert prompts.may_start(1, 1000, OPEN, 100.0)
    prompts.started(1, prompts.costs(1000, 0), 100.0)
    assert not prompts.may_start(1, 1000, OPEN, 100.0)
    poor = PromptFloors([0.8, 0.0], [0.0, 5.0])
    poor.token_time = 0.001
    poor.started(1, 3.0, 100.0)  # 2 s were at hand
    assert not poor.may_start(1, 1000, OPEN, 103.9)
    assert poor.may_start(1, 1000, OPEN, 104.1)


def test_what_is_saved_is_spent_hardly_faster_than_it_is_earned() -> None:
    """A third of the time is earned. Of the 20 s that are saved 3.3 are at hand; then a quarter more than is earned."""
    prompts = floors(wait=0.0)
    at, spent = 100.0, 0.0
    spent_by: list[float] = []
    for _ in range(3000):
        if prompts.may_start(1, 100, OPEN, at):
            prompts.started(1, 0.1, at)
            spent += 0.1
        spent_by.append(spent)
        at += 0.1
    assert spent_by[100] == pytest.approx((BURST + PEAK * 10.0) / 3.0, abs=0.2)
    assert spent_by[400] == pytest.approx((BURST + PEAK * 40.0) / 3.0, abs=0.2)
    assert spent_by[-1] == pytest.approx((DEPTH + 300.0) / 3.0, abs=0.2)  # all that was saved is gone


def test_who_asks_for_its_share_unevenly_gets_it_without_delay() -> None:
    """Half a minute of nothing, then half a minute of a quarter more than the share, again and again."""
    prompts = floors(wait=0.0)
    refused = 0
    for second in range(600):
        if second % 60 >= 30:
            if not prompts.may_start(1, 100, OPEN, 100.0 + second):
                refused += 1
            prompts.started(1, 0.99 * PEAK / 3.0, 100.0 + second)
    assert refused == 0


def test_debt_is_over_in_time_and_unknown_time_forbids_nothing() -> None:
    prompts = floors(wait=0.0)
    prompts.started(1, 1000.0, 100.0)
    assert not prompts.may_start(1, 1, OPEN, 100.0 + DEBT)
    assert prompts.may_start(1, 1, OPEN, 100.1 + DEBT)
    prompts.token_time = 0.0
    assert prompts.may_start(1, 1_000_000, OPEN, 100.0)


def service(wait: float) -> Policy:
    tiers = (
        Tier("gold", 0, Fraction(1, 2), wait=wait, objectives=objectives(1.0)),
        Tier("bronze", 2, Fraction(1, 2), objectives=objectives(5.0)),
    )
    pool = Pool("chat", "m", "vllm", ("a", "b"), profile="p")
    return policy_of(tiers=tiers, tenants=(Tenant("ada", "gold"), Tenant("dan", "bronze")), pools=(pool,))


def test_bronze_starts_no_more_long_prompts_than_its_floor_allows_where_gold_runs() -> None:
    """Prompts of 10 s each; gold runs on both replicas, half of whose time is bronze's: one a second each 10 s."""
    steps = StepCoefficients(b=0.001)
    profile = EngineProfile("p", "made for this test", steps, steps, num_blocks=10_000, max_batched_tokens=1000)
    assert unloaded_ttft(profile, 10_000) == pytest.approx(10.0)
    world = Service(service(wait=0.1), kv_blocks=10_000, profiles={"p": profile})
    for at in (0.1, 0.2):
        world.ask(at, "ada", prompt=100, output=100)
        world.first(at + 0.01, world.num)
    sent: dict[int, float] = {}
    for second in range(1, 101):
        decisions = world.ask(float(second), "dan", prompt=10_000, output=10, deadline_at=float("inf"))
        decisions = [*decisions, *world.report(second + 0.5)]
        for request_id in [num for num, at in sent.items() if second - at == 10]:
            decisions += world.first(second + 0.6, request_id)
        sent |= {d.request_id: second for d in all_of(Dispatch, decisions)}
    assert 14 <= len(sent) <= 17  # a second of every second, and the minute's worth that was saved before


def test_rules_without_reservations_know_no_floors_of_computation() -> None:
    assert not Scheduling(reserve_kv=False).reserve_kv
    world = Service(
        policy_of(
            tiers=service(0.0).tiers,
            tenants=service(0.0).tenants,
            pools=service(0.0).pools,
            scheduling=Scheduling(reserve_kv=False),
        ),
        profiles={"p": EngineProfile("p", "made for this test", StepCoefficients(b=1.0), StepCoefficients(b=1.0))},
    )
    world.ask(0.1, "ada", prompt=100, output=100)
    sent = [decision for num in range(20) for decision in all_of(Dispatch, world.ask(1.0 + num, "dan", prompt=9000))]
    assert len(sent) == 20

"""Shares of service: who is behind, who gives way, and that prompts inside an engine hold nobody back from a share."""

from fractions import Fraction

import pytest

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.queueing import Lane
from plimsoll.governor.servicefloors import AHEAD, LATELY, PART, SAVED, ServiceFloors
from plimsoll.policy.policy import Policy, Pool, Scheduling, Tenant, Tier
from tests.governor.service import Service, all_of
from tests.laws.histories import objectives, policy_of


def floors(waiting: int = 1) -> ServiceFloors:
    """Gold holds half, bronze a quarter of one replica that computes 1,000 tokens a step; somebody of bronze waits."""
    lanes = [Lane(fair=True, trickle=0.0) for _ in range(2)]
    lanes[1].num = waiting
    found = ServiceFloors(lanes, [0.5, 0.25])
    found.step_tokens = 1000
    return found


def test_a_lane_is_behind_by_its_share_of_what_others_are_charged() -> None:
    service = floors()
    service.charged(0, 1000.0)
    assert service.is_behind(1)
    service.charged(1, 300.0)  # it had earned 250 + 75
    assert service.is_behind(1)
    service.charged(1, 100.0)
    assert not service.is_behind(1)
    service.charged(1, -300.0)  # it used less
    assert service.is_behind(1)


def test_what_is_saved_and_what_is_owed_are_bounded() -> None:
    service = floors()
    service.charged(0, 1e9)
    for _ in range(int(SAVED) + 1):
        assert service.is_behind(1)
        service.charged(1, 1000.0 / 0.75)
    assert not service.is_behind(1)
    service.charged(1, 1e9)
    for _ in range(int(AHEAD)):
        assert not service.is_behind(1)
        service.charged(0, 4000.0)
    service.charged(0, 4.0)
    assert service.is_behind(1)


def test_who_computes_more_than_its_share_gives_way_while_another_is_behind() -> None:
    service = floors()
    service.charged(0, 10_000.0)
    assert not service.gives_way(0)  # no time is known, as without a profile
    service.computes(0, 0.5 * PART * LATELY - 0.1, 100.0)
    assert not service.gives_way(0)
    service.computes(0, 0.2, 100.0)
    assert service.gives_way(0)
    assert not service.gives_way(1)
    service.computes(0, 0.0, 100.0 + LATELY)  # what was long ago counts less
    assert not service.gives_way(0)
    idle = floors(waiting=0)
    idle.charged(0, 10_000.0)
    idle.computes(0, LATELY, 100.0)
    assert not idle.gives_way(0)


def crowded(scheduling: Scheduling | None = None) -> Policy:
    tiers = (
        Tier("gold", 0, Fraction(1, 2), objectives=objectives(1.0)),
        Tier("bronze", 2, Fraction(1, 4), objectives=objectives(60.0)),
    )
    tenants = (Tenant("ada", "gold"), Tenant("dan", "bronze"))
    pool = Pool("chat", "m", "vllm", ("a",), profile="p")
    return policy_of(tiers=tiers, tenants=tenants, pools=(pool,), scheduling=scheduling)


@pytest.mark.parametrize("reserves", [True, False])
def test_bronze_gets_its_share_of_service_though_gold_asks_for_all(reserves: bool) -> None:
    """The engine computes a prompt of 1,000 tokens a second, one after the other, and gold asks for all of it; so there
    is KV and a slot for everybody, and every prompt of bronze would wait for those of gold inside the engine."""
    profile = EngineProfile(
        "p",
        "made for this test",
        StepCoefficients(a=1e-3),
        StepCoefficients(b=0.001),
        num_blocks=100_000,
        max_batched_tokens=1000,
    )
    world = Service(crowded(Scheduling(reserve_kv=reserves)), kv_blocks=100_000, profiles={"p": profile})
    inside: list[int] = []
    sent = {"gold": 0, "bronze": 0}

    def take(dispatches: list[Dispatch]) -> None:
        for dispatch in dispatches:
            inside.append(dispatch.request_id)
            sent[dispatch.tier_served] += int(began > 200)

    for second in range(1, 601):
        began = float(second)
        for tenant in ("ada", "dan"):
            take(all_of(Dispatch, world.ask(began, tenant, prompt=1000, output=1)))
        if inside:
            request = inside.pop(0)
            take(all_of(Dispatch, world.first(began + 0.5, request)))
            take(all_of(Dispatch, world.done(began + 0.6, request, output=1, prompt_tokens=1000)))
    part = sent["bronze"] / (sent["gold"] + sent["bronze"])
    if reserves:
        assert part == pytest.approx(0.25, abs=0.03)
    else:
        assert part == pytest.approx(0.5, abs=0.03)  # the engine takes all that comes, as it comes

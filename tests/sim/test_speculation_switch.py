"""Keeping requests from drafts that would be wrong, in the simulator: what it gives them, and those who are drafted."""

from functools import cache
from statistics import mean

import pytest
from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.features import Speculation
from plimsoll.governor.decisions import Decision, Dispatch, Settle
from plimsoll.policy.policy import Policy, Pool, Scheduling, Tenant, Tier
from plimsoll.policy.schedulingrules import SpeculationRules
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

DRAFTS = Speculation(
    source="an assumption: a draft that knows code, and prose that it does not",
    draft_tokens=4,
    acceptance={"default": (0.8, 0.68, 0.58, 0.5), "prose": (0.08, 0.01, 0.0, 0.0)},
    draft_time=0.0015,
    draft_time_per_sequence=2e-5,
)
PLAIN = profiles.load("rtxpro6000-llama8b")
PROFILES = {"drafts": replace(PLAIN, name="drafts", speculation=DRAFTS), "plain": replace(PLAIN, name="plain")}
TENANTS = ("code", "prose")
LEARNT = 10.0  # s after which all is learnt that is to be learnt


def pool(name: str, replicas: tuple[str, ...], profile: str, speculation: str) -> Pool:
    return Pool(name, "m", "llamacpp", replicas, profile=profile, speculation=speculation)


ALL_DRAFT = (pool("p", ("http://r1", "http://r2"), "drafts", "on"),)
APART = (pool("drafting", ("http://r1",), "drafts", "on"), pool("plain", ("http://r2",), "plain", "off"))
SWITCH = (pool("p", ("http://r1",), "drafts", "switch"),)


@cache
def played(pools: tuple[Pool, ...], rules: SpeculationRules | None, rate: float) -> dict[str, float]:
    """Mean time a token by tenant, s; and the share of prose that was drafted for."""
    policy = Policy(
        tiers=(Tier("gold", 0),),
        tenants=tuple(Tenant(name, "gold") for name in TENANTS),
        pools=pools,
        scheduling=Scheduling(speculation=rules),
    )
    prompt, output = Lengths(400, 0.6, 2000), Lengths(200, 0.5, 600)
    profiled = tuple(TenantProfile(name, rate, prompt=prompt, output=output) for name in TENANTS)
    workload = Workload(profiled, 30.0, "m")
    settles: list[Settle] = []
    seen: list[Decision] = []
    run = Simulation(policy, PROFILES, workload.arrivals(2), settles.append, seen=lambda _, each: seen.append(each))
    run.run()
    rows = [each.record for each in settles if each.record.arrived_at > run.start_at + LEARNT]
    sent = {each.request_id: each for each in seen if isinstance(each, Dispatch)}
    found = {name: mean([row.tpot for row in rows if row.tenant == name and row.tpot]) for name in TENANTS}
    prose = [sent[row.request_id] for row in rows if row.tenant == "prose"]
    return found | {"drafted": mean([each.drafts and each.pool != "plain" for each in prose])}


def test_replicas_apart_help_those_whom_drafts_do_not_and_hurt_nobody() -> None:
    """Two replicas: both draft for everybody, or one for those for whom it is worth it."""
    everybody, apart = played(ALL_DRAFT, None, 8.0), played(APART, SpeculationRules(), 8.0)
    assert apart["prose"] < 0.75 * everybody["prose"]
    assert apart["code"] < everybody["code"]
    assert apart["drafted"] < 0.1
    unruled = played(APART, None, 8.0)
    assert unruled["drafted"] == 1.0, "without the rules nobody is sent where nothing is drafted"


def test_an_engine_with_a_switch_drafts_for_fewer_and_is_quicker_for_all() -> None:
    always, switched = played(SWITCH, None, 8.0), played(SWITCH, SpeculationRules(), 8.0)
    assert switched["code"] < 0.9 * always["code"]
    assert switched["prose"] < 0.95 * always["prose"]
    assert switched["drafted"] == pytest.approx(1 / 32, abs=0.03), "one in so many, so that a change would be seen"

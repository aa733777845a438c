"""Labelled incidents from the simulator: six minutes of a small service in which, after 150 s, one thing goes wrong.

Each kind is drawn with its severity, policy, engine and traffic from the seed. Even seeds are for choosing parameters,
odd ones for reporting: those have another engine profile and other traffic.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec
import numpy as np

from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.randomness import stream
from plimsoll.sim.replica import Replica
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

DURATION: Final = 360.0
BEGINS: Final = 150.0
ENDS: Final = 300.0
VICTIM: Final = "acme"
ENGINES: Final = (("rtxpro6000-llama8b", 7.5, 60), ("h100-llama70b-tp4", 7.5, 110))
"""Profile, requests a second that keep two of its replicas at a good half of their capacity, TPOT threshold in ms."""

FREE: Final = "scheduling: {order: fcfs, routing: least_requests, tiers_matter: false, reserve_kv: false}"
GOVERNED: Final = ""


@dataclass
class Plan:
    """An incident in the making: traffic by tenant, and what happens to engines."""

    rng: np.random.Generator
    rate: float  # of the whole service, requests a second
    scheduling: str = GOVERNED
    tenants: dict[str, list[TenantProfile]] = field(default_factory=dict)
    pace: dict[int, float] = field(default_factory=dict)  # replica number → factor on its steps, while it lasts
    engine: dict[str, object] = field(default_factory=dict)  # fields of the profile that differ

    def draw(self, low: float, high: float) -> float:
        """A severity."""
        return float(self.rng.uniform(low, high))

    def split(self, name: str, **during: object) -> None:
        """The tenant is different while the incident lasts."""
        (usual,) = self.tenants[name]
        replace = msgspec.structs.replace
        self.tenants[name] = [
            replace(usual, ends=BEGINS, phase=0),
            replace(usual, starts=BEGINS, ends=ENDS, phase=1, **during),
            replace(usual, starts=ENDS, phase=2),
        ]


@dataclass(frozen=True)
class Episode:
    """What a diagnosis is given, and what it should say: `kinds` are the right answers, none means no fault."""

    records: list[Record]
    engines: dict[str, EngineProfile]  # by pool
    policy: str
    kinds: frozenset[CauseKind]
    subject: str


def _lengths(plan: Plan, median: float) -> Lengths:
    return Lengths(median * plan.draw(0.8, 1.25), plan.draw(0.6, 0.9), 8192)


def _quiet(plan: Plan) -> None:
    """Nothing happens but the swings of load that every service has."""
    swing = plan.draw(0.85, 1.1)
    for name in list(plan.tenants):
        (usual,) = plan.tenants[name]
        plan.tenants[name] = [
            msgspec.structs.replace(usual, changes=((BEGINS, usual.rate * swing), (ENDS, usual.rate)))
        ]


def _neighbour_long(plan: Plan) -> None:
    plan.scheduling = FREE
    plan.split("eel", rate=plan.rate * plan.draw(0.08, 0.14), prompt=Lengths(plan.draw(12000, 20000), 0.2, 30000))


def _neighbour_surge(plan: Plan) -> None:
    plan.scheduling = FREE
    plan.split("eel", rate=plan.rate * plan.draw(1.3, 1.8))


def _own_prompts(plan: Plan) -> None:
    plan.split(VICTIM, prompt=Lengths(plan.draw(3000, 4500), 0.4, 16000))


def _own_answers(plan: Plan) -> None:
    plan.split(VICTIM, output=Lengths(plan.draw(800, 1200), 0.4, 3000))


def _own_surge(plan: Plan) -> None:
    plan.split(VICTIM, rate=plan.rate * plan.draw(1.6, 2.2))


def _overload(plan: Plan) -> None:
    plan.scheduling = FREE
    factor = plan.draw(2.2, 2.8)
    for name in list(plan.tenants):
        plan.split(name, rate=plan.tenants[name][0].rate * factor)


def _cache(plan: Plan) -> None:
    plan.scheduling = FREE
    for name in list(plan.tenants):
        (usual,) = plan.tenants[name]
        plan.tenants[name] = [msgspec.structs.replace(usual, shared_tokens=4096)]
    for name in list(plan.tenants):
        plan.split(name, variants=1_000_000)


def _slow_replica(plan: Plan) -> None:
    plan.pace[1] = plan.draw(1.8, 3.0)


def _slow_engines(plan: Plan) -> None:
    factor = plan.draw(1.5, 2.0)
    plan.pace.update(dict.fromkeys(range(2), factor))


def _upstream(plan: Plan) -> None:
    plan.split(VICTIM, upstream=Lengths(plan.draw(50000, 70000), 0.3, 200000))


def _blocks(plan: Plan) -> None:
    plan.scheduling = FREE
    plan.engine["num_blocks"] = int(plan.draw(2200, 3000))
    for name in list(plan.tenants):
        plan.split(name, output=Lengths(plan.draw(350, 450), 0.4, 1500))


KINDS: Final[dict[str, tuple[Callable[[Plan], None], frozenset[CauseKind], str]]] = {
    "no_fault": (_quiet, frozenset(), ""),
    "neighbour_long_prompts": (_neighbour_long, frozenset({CauseKind.NEIGHBOUR_LONG_PROMPTS}), "eel"),
    "neighbour_surge": (_neighbour_surge, frozenset({CauseKind.NEIGHBOUR_SURGE}), "eel"),
    "own_longer_prompts": (_own_prompts, frozenset({CauseKind.OWN_LONGER_PROMPTS}), VICTIM),
    "own_longer_answers": (_own_answers, frozenset({CauseKind.OWN_LONGER_ANSWERS}), VICTIM),
    "own_surge": (_own_surge, frozenset({CauseKind.OWN_SURGE}), VICTIM),
    "overload": (_overload, frozenset({CauseKind.OVERLOAD}), ""),
    "cache_misses": (_cache, frozenset({CauseKind.CACHE_MISSES}), ""),
    "slow_replica": (_slow_replica, frozenset({CauseKind.SLOW_REPLICA}), "http://r2"),
    "slower_engines": (_slow_engines, frozenset({CauseKind.SLOWER_ENGINES}), ""),
    "upstream": (_upstream, frozenset({CauseKind.UPSTREAM}), ""),
    "kv_exhaustion": (_blocks, frozenset({CauseKind.KV_EXHAUSTION}), ""),
}

ACCUSED: Final = frozenset(kind for _, kinds, _ in KINDS.values() for kind in kinds)
"""Root causes that some kind of incident should be blamed on."""


def episode(kind: str, seed: int) -> Episode:
    """One incident of a kind; the same seed is the same incident."""
    happen, kinds, subject = KINDS[kind]
    rng = stream(seed, "episode", kind)
    engine, rate, tpot = ENGINES[seed % 2]
    plan = Plan(rng, rate * float(rng.uniform(0.85, 1.05)))
    median = plan.draw(500, 900)
    for name, share in ((VICTIM, 0.35), ("crane", 0.35), ("eel", 0.3)):
        plan.tenants[name] = [
            TenantProfile(
                name, plan.rate * share, prompt=_lengths(plan, median), output=_lengths(plan, 180), shared_tokens=512
            )
        ]
    happen(plan)
    profile = msgspec.structs.replace(profiles.load(engine), **plan.engine)
    text = _policy(engine, tpot, plan.scheduling)
    tenants = tuple(phase for phases in plan.tenants.values() for phase in phases)
    records = _run(parse(text, kind), {engine: profile}, Workload(tenants, DURATION, "m"), plan, seed)
    return Episode(records, {"chat": profile}, text, kinds, subject)


def _policy(engine: str, tpot: int, scheduling: str) -> str:
    return f"""
plimsoll: 1
service: {{upstream_time: header}}
tiers:
  - {{name: gold, rank: 0, share: 40%, objectives: [{{sli: ttft, below: 1s, target: 99%}}, {{sli: tpot, below: {tpot}ms, target: 99%}}, {{sli: e2e, below: 60s, from: user, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 30%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants: [{{name: {VICTIM}, tier: gold}}, {{name: crane, tier: silver}}, {{name: eel, tier: bronze}}]
pools:
  - {{name: chat, model: m, engine: vllm, profile: {engine}, replicas: ["http://r1", "http://r2"]}}
{scheduling}
"""  # noqa: E501 - one line a tier


def _run(policy: Policy, engines: dict[str, EngineProfile], workload: Workload, plan: Plan, seed: int) -> list[Record]:
    settles: list[Settle] = []
    simulation = Simulation(policy, engines, workload.arrivals(seed), settles.append)
    simulation.run(EPOCH + BEGINS)
    usual = {number: cast(Replica, simulation.fleet.replicas[number]) for number in plan.pace}
    steps = {number: replica._steps for number, replica in usual.items()}
    for number, replica in usual.items():
        factor = plan.pace[number] * replica.profile.host_factor
        replica._steps = StepTime(msgspec.structs.replace(replica.profile, host_factor=factor))  # a fault of the engine
    simulation.run(EPOCH + ENDS)
    for number, replica in usual.items():
        replica._steps = steps[number]
    simulation.run()
    return [settle.record for settle in settles]

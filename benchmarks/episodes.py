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
from plimsoll.engine.features import (
    AllToAll,
    ColdStart,
    KvTier,
    KvTiers,
    Lora,
    MixtureOfExperts,
    Speculation,
    Topology,
)
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.sim.gate import GatedReplica
from plimsoll.sim.kvtiers import TieredKv
from plimsoll.sim.outage import Outage
from plimsoll.sim.randomness import stream
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.speculation import Drafting
from plimsoll.sim.stepping import SteppingReplica
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.storage.statewindows import StateWindows

DURATION: Final = 360.0
BEGINS: Final = 150.0
ENDS: Final = 300.0
VICTIM: Final = "acme"
ENGINES: Final = (("rtxpro6000-llama8b", 7.5, 60), ("h100-llama70b-tp4", 7.5, 110))
"""Profile, requests a second that keep two of its replicas at a good half of their capacity, TPOT threshold in ms."""

FREE: Final = "scheduling: {order: fcfs, routing: least_requests, tiers_matter: false, reserve_kv: false}"
GOVERNED: Final = ""
OTHERWISE: Final = ("", "scheduling: {order: edf, routing: least_requests}")
"""Scheduling where a kind asks for none: odd seeds have the second in turn."""


Fault = Callable[[Simulation], Callable[[], None]]
"""Breaks something in engines at the instant at which it is called; what it returns mends it."""


@dataclass
class Plan:
    """An incident in the making: traffic by tenant, and what happens to engines."""

    rng: np.random.Generator
    rate: float  # of the whole service, requests a second
    tpot: int  # threshold, ms
    is_large: bool  # the model
    e2e: int = 60  # threshold, s
    scheduling: str = GOVERNED
    tenants: dict[str, list[TenantProfile]] = field(default_factory=dict)
    pace: dict[int, float] = field(default_factory=dict)  # replica number → factor on its steps, while it lasts
    engine: dict[str, object] = field(default_factory=dict)  # fields of the profile that differ
    faults: list[Fault] = field(default_factory=list)  # what happens inside engines, while it lasts
    outages: list[Outage] = field(default_factory=list)
    adapters: tuple[str, ...] = ()

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
    states: list[ReplicaWindow]  # as live probes would have read them


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
    plan.split("eel", rate=plan.rate * plan.draw(2.0, 2.8))


def _own_prompts(plan: Plan) -> None:
    plan.split(VICTIM, prompt=Lengths(plan.draw(5000, 8000), 0.4, 20000))


def _own_answers(plan: Plan) -> None:
    plan.e2e = 25 if plan.is_large else 18  # so that answers of a thousand tokens are late
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
    plan.tpot = 45 if plan.is_large else 35
    plan.pace[1] = plan.draw(1.8, 3.0)


def _slow_engines(plan: Plan) -> None:
    plan.tpot = 34 if plan.is_large else 26
    factor = plan.draw(1.6, 2.4)
    plan.pace.update(dict.fromkeys(range(2), factor))


def _upstream(plan: Plan) -> None:
    plan.split(VICTIM, upstream=Lengths(plan.draw(50000, 70000), 0.3, 200000))


def _blocks(plan: Plan) -> None:
    plan.scheduling = FREE
    plan.engine["num_blocks"] = int(plan.draw(2200, 3000))
    for name in list(plan.tenants):
        plan.split(name, output=Lengths(plan.draw(350, 450), 0.4, 1500))


MOE: Final = MixtureOfExperts(
    source="made up for episodes",
    num_ranks=8,
    experts_per_token=8,
    expert_share=0.6,
    skew=((1.0, 1.3), (4096.0, 1.2)),
    num_layers=48,
    topology=Topology.ACROSS,
    across=AllToAll(20e-6, 0.02e-6),
)
DRAFTS: Final = Speculation(
    source="made up for episodes",
    draft_tokens=3,
    acceptance={"default": (0.85, 0.7, 0.55)},
    draft_time=1e-3,
)


def _with_experts(**changes: object) -> Fault:
    """Other experts' figures in every replica's steps."""

    def happen(simulation: Simulation) -> Callable[[], None]:
        usual = []
        for number, replica in enumerate(simulation.fleet.replicas):
            moe = msgspec.structs.replace(cast(MixtureOfExperts, replica.profile.moe), **changes)
            steps = StepTime(msgspec.structs.replace(replica.profile, moe=moe))
            usual.append(simulation.fleet.retime(number, steps))

        def mend() -> None:
            for number, steps in enumerate(usual):
                simulation.fleet.retime(number, steps)

        return mend

    return happen


def _imbalance(plan: Plan) -> None:
    plan.engine["moe"] = MOE
    factor = plan.draw(3.0, 5.0)
    plan.faults.append(_with_experts(skew=((1.0, 1.3 * factor), (4096.0, 1.2 * factor))))


def _all_to_all(plan: Plan) -> None:
    plan.engine["moe"] = MOE
    factor = plan.draw(20.0, 45.0)
    plan.faults.append(_with_experts(across=AllToAll(20e-6 * factor, 0.02e-6 * factor)))


def _with_acceptance(tenant: str, chances: tuple[float, ...]) -> Fault:
    """Drafts that are right less often: of one tenant, or of all."""

    def happen(simulation: Simulation) -> Callable[[], None]:
        draftings = [
            cast(Drafting, batch.drafting)
            for each in simulation.fleet.replicas
            for batch in cast(SteppingReplica, each).ranks
        ]
        for drafting in draftings:
            drafting._acceptance[tenant] = list(chances)
            if tenant == "default":
                drafting._default = drafting._acceptance["default"]

        def mend() -> None:
            for drafting in draftings:
                drafting._acceptance[tenant] = list(DRAFTS.acceptance["default"])
                drafting._default = drafting._acceptance["default"]

        return mend

    return happen


def _collapse(plan: Plan) -> None:
    plan.engine["speculation"] = DRAFTS
    plan.tpot = 18 if plan.is_large else 13  # so that drafts matter to what was promised
    left = plan.draw(0.1, 0.35)
    plan.faults.append(_with_acceptance("default", tuple(left * chance for chance in DRAFTS.acceptance["default"])))


def _shape(plan: Plan) -> None:
    plan.engine["speculation"] = DRAFTS
    plan.tpot = 18 if plan.is_large else 13
    for name in list(plan.tenants):
        plan.tenants[name] = [msgspec.structs.replace(plan.tenants[name][0], entropy=plan.draw(3.5, 4.5))]
    usual = cast(float, plan.tenants[VICTIM][0].entropy)
    plan.split(VICTIM, entropy=usual + plan.draw(1.2, 2.0))
    left = plan.draw(0.05, 0.2)
    plan.faults.append(_with_acceptance(VICTIM, tuple(left * chance for chance in DRAFTS.acceptance["default"])))


def _links(plan: Plan) -> None:
    """Another copy on the link below the GPUs' memory, on which shared beginnings come up."""
    read = 20e9
    tier = KvTier("dram", 400e9, read, read, 1e-4)
    plan.engine["kv_tiers"] = KvTiers("made up for episodes", 131_072.0, (tier,))
    plan.engine["num_blocks"] = 12_000
    for name in list(plan.tenants):
        plan.tenants[name] = [msgspec.structs.replace(plan.tenants[name][0], shared_tokens=4096, variants=40)]
    slower = msgspec.structs.replace(tier, read_bandwidth=read / plan.draw(12.0, 18.0))

    def happen(simulation: Simulation) -> Callable[[], None]:
        tiers = [cast(TieredKv, cast(GatedReplica, each).tiers).tiers[0] for each in simulation.fleet.replicas]
        for each in tiers:
            each.spec = slower

        def mend() -> None:
            for each in tiers:
                each.spec = tier

        return mend

    plan.faults.append(happen)


def _adapters(plan: Plan) -> None:
    """A neighbour begins to use more adapters than there are slots, so that the victim's must be loaded again."""
    plan.adapters = tuple(f"lora-{number}" for number in range(12))
    plan.engine["lora"] = Lora("made up for episodes", 6, plan.draw(0.5, 0.9))
    (mine,) = plan.tenants[VICTIM]
    plan.tenants[VICTIM] = [
        msgspec.structs.replace(mine, rate=mine.rate / 4, model=f"lora-{number}", phase=number) for number in range(4)
    ]
    (eel,) = plan.tenants["eel"]
    plan.tenants["eel"] = [
        msgspec.structs.replace(eel, ends=BEGINS, phase=0),
        msgspec.structs.replace(eel, starts=ENDS, phase=1),
        *(
            msgspec.structs.replace(
                eel, rate=eel.rate / 8, starts=BEGINS, ends=ENDS, phase=2 + number, model=f"lora-{number + 4}"
            )
            for number in range(8)
        ),
    ]


def _wakes(seconds: float, numbers: range, factor: float = 1.0) -> Fault:
    """Replicas load their model again; what they run goes on, what comes waits. `factor` on their steps thereafter."""

    def happen(simulation: Simulation) -> Callable[[], None]:
        gates = [cast(GatedReplica, simulation.fleet.replicas[number]) for number in numbers]
        usual = []
        for number, gate in zip(numbers, gates, strict=True):
            gate._warm_at = simulation.now + seconds
            gate._started_at = simulation.now
            gate._num_wakes += 1
            factors = gate.inner.profile.host_factor * factor
            steps = StepTime(msgspec.structs.replace(gate.inner.profile, host_factor=factors))
            usual.append(simulation.fleet.retime(number, steps))

        def mend() -> None:
            for number, steps in zip(numbers, usual, strict=True):
                simulation.fleet.retime(number, steps)

        return mend

    return happen


def _cold(plan: Plan) -> None:
    plan.engine["cold_start"] = ColdStart("made up for episodes", 0.01)
    plan.faults.append(_wakes(plan.draw(12.0, 30.0), range(1, 2)))


def _changed(plan: Plan) -> None:
    plan.engine["cold_start"] = ColdStart("made up for episodes", 0.01)
    plan.faults.append(_wakes(0.5, range(2), plan.draw(1.6, 2.2)))


def _storm(plan: Plan) -> None:
    """Answers become long where prompts are admitted by what they take at first: who runs is put out again."""
    plan.scheduling = FREE
    plan.engine["num_blocks"] = int(plan.draw(1800, 2400) if plan.is_large else plan.draw(1150, 1500))
    for name in list(plan.tenants):
        plan.split(name, prompt=Lengths(200, 0.3, 1000), output=Lengths(plan.draw(550, 750), 0.3, 2000))


def _lost(plan: Plan) -> None:
    plan.scheduling = FREE
    for name in list(plan.tenants):  # one replica alone is not enough
        plan.tenants[name] = [plan.tenants[name][0].scaled(2.2)]
    plan.outages.append(Outage(BEGINS, "http://r2", ENDS - BEGINS))


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
    "kv_exhaustion": (_blocks, frozenset({CauseKind.KV_EXHAUSTION, CauseKind.PREEMPTION_STORM}), ""),
    "expert_imbalance": (_imbalance, frozenset({CauseKind.EXPERT_IMBALANCE}), ""),
    "all_to_all": (_all_to_all, frozenset({CauseKind.ALL_TO_ALL}), ""),
    "speculation_collapse": (_collapse, frozenset({CauseKind.SPECULATION_COLLAPSE}), ""),
    "prompt_shape": (_shape, frozenset({CauseKind.PROMPT_SHAPE}), VICTIM),
    "link_contention": (_links, frozenset({CauseKind.LINK_CONTENTION}), ""),
    "adapter_loading": (_adapters, frozenset({CauseKind.ADAPTER_LOADING}), ""),
    "cold_start": (_cold, frozenset({CauseKind.COLD_START}), "http://r2"),
    "changed_engine": (_changed, frozenset({CauseKind.CHANGED_ENGINE}), ""),
    "preemption_storm": (_storm, frozenset({CauseKind.PREEMPTION_STORM, CauseKind.KV_EXHAUSTION}), ""),
    "replica_lost": (_lost, frozenset({CauseKind.REPLICA_LOST, CauseKind.REPLICA_FAILED, CauseKind.OVERLOAD}), ""),
}
PAIRS: Final = (
    ("slow_replica", "own_longer_prompts"),
    ("upstream", "slower_engines"),
    ("neighbour_long_prompts", "own_longer_answers"),
    ("expert_imbalance", "neighbour_surge"),
    ("speculation_collapse", "own_longer_answers"),
    ("cold_start", "upstream"),
)
"""Incidents of two causes at once: `a+b` is a kind too, and either is a right answer."""

ACCUSED: Final = frozenset(kind for _, kinds, _ in KINDS.values() for kind in kinds)
"""Root causes that some kind of incident should be blamed on."""


def episode(kind: str, seed: int) -> Episode:
    """One incident of a kind; the same seed is the same incident."""
    parts = [KINDS[name] for name in kind.split("+")]
    kinds, subject = frozenset(each for part in parts for each in part[1]), parts[0][2]
    rng = stream(seed, "episode", kind)
    engine, rate, tpot = ENGINES[seed % 2]
    plan = Plan(rng, rate * float(rng.uniform(0.85, 1.05)), tpot, seed % 2 == 1)
    median = plan.draw(500, 900)
    for name, share in ((VICTIM, 0.35), ("crane", 0.35), ("eel", 0.3)):
        plan.tenants[name] = [
            TenantProfile(
                name, plan.rate * share, prompt=_lengths(plan, median), output=_lengths(plan, 180), shared_tokens=512
            )
        ]
    for happen, _, _ in parts:
        happen(plan)
    profile = msgspec.structs.replace(profiles.load(engine), **plan.engine)
    scheduling = plan.scheduling or OTHERWISE[seed // 2 % 2 if seed % 2 else 0]
    text = _policy(engine, (plan.tpot, plan.e2e), scheduling, plan.adapters)
    tenants = tuple(phase for phases in plan.tenants.values() for phase in phases)
    workload = Workload(tenants, DURATION, "m", outages=tuple(plan.outages))
    records, states = _run(parse(text, kind), {engine: profile}, workload, plan, seed)
    return Episode(records, {"chat": profile}, text, kinds, subject, states)


def _policy(engine: str, below: tuple[int, int], scheduling: str, adapters: tuple[str, ...]) -> str:
    tpot, e2e = below
    served = f", adapters: [{', '.join(adapters)}]" if adapters else ""
    return f"""
plimsoll: 1
service: {{upstream_time: header}}
tiers:
  - {{name: gold, rank: 0, share: 40%, objectives: [{{sli: ttft, below: 1s, target: 99%}}, {{sli: tpot, below: {tpot}ms, target: 99%}}, {{sli: e2e, below: {e2e}s, from: user, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 30%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants: [{{name: {VICTIM}, tier: gold}}, {{name: crane, tier: silver}}, {{name: eel, tier: bronze}}]
pools:
  - {{name: chat, model: m, engine: vllm, profile: {engine}, replicas: ["http://r1", "http://r2"]{served}}}
{scheduling}
"""  # noqa: E501 - one line a tier


def _run(
    policy: Policy, engines: dict[str, EngineProfile], workload: Workload, plan: Plan, seed: int
) -> tuple[list[Record], list[ReplicaWindow]]:
    settles: list[Settle] = []
    windows, states = StateWindows(), list[ReplicaWindow]()
    simulation = Simulation(
        policy,
        engines,
        workload.arrivals(seed),
        settles.append,
        outages=workload.outages,
        reported=lambda told: states.extend(windows.add(told.at, told.reports)),
    )
    simulation.run(EPOCH + BEGINS)
    mend = [fault(simulation) for fault in plan.faults]
    usual = {}
    for number, pace in plan.pace.items():  # a fault of the engine
        profile = simulation.fleet.profiles[number]
        slower = StepTime(msgspec.structs.replace(profile, host_factor=pace * profile.host_factor))
        usual[number] = simulation.fleet.retime(number, slower)
    simulation.run(EPOCH + ENDS)
    for number, steps in usual.items():
        simulation.fleet.retime(number, steps)
    for undo in mend:
        undo()
    simulation.run()
    return [settle.record for settle in settles], [*states, *windows.close()]

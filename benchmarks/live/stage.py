"""What is played: the engines, who asks them for what, and the trace that live clients and the simulator both read.

It is the experiment of `benchmarks/studies/isolation.py` with shorter prompts and answers, so that a minute holds a
thousand requests of gold and two cores carry gateway, clients and engines.
"""

import csv
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.studies.run import run
from benchmarks.studies.service import AZURE, BRONZE, LONG, SHARES, TIERS
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.queueing import OUTPUT_WEIGHT
from plimsoll.policy.policy import Policy
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.storage.tracerow import TraceRow
from plimsoll.storage.traces import read

KEEPS_TO: Final = 0.8  # of their shares, gold and silver
NOISE: Final = 4.0
FAIR, NOISY = "fair", "noisy"
QUIET_BRONZE: Final = 0.01  # of all service, each of the other two of bronze


class Stage(Struct, frozen=True):
    """Engines, lengths of requests, and what counts as a starved machine."""

    name: str
    profile: str  # name, or path of a YAML file
    model: str
    engine: str
    replicas: int
    prompt: Lengths
    output: Lengths
    long: Lengths  # the neighbour's prompts
    gold_ttft: float  # s
    slots: float  # of published caps of requests a replica: answers that are shorter leave fewer at work at once
    duration: float  # s of arrivals
    warm_up: float  # s of them that are not counted
    least_idle: float  # share of the machine's CPU that must be idle
    most_lag: float  # s, P99 of how long gateway and engines take to answer the simplest question
    most_wait: float  # share of the time that any process may have waited for a core

    def loaded(self) -> EngineProfile:
        """The engines' profile."""
        return profiles.load(self.profile)


def scaled(lengths: Lengths, factor: float, most: int) -> Lengths:
    """The same distribution, shorter."""
    table = tuple((share, min(float(most), max(1.0, tokens * factor))) for share, tokens in lengths.quantiles)
    return Lengths(lengths.median * factor, 0.0, min(most, max(1, round(lengths.most * factor))), table)


EMULATED: Final = Stage(
    name="emulated",
    profile="h100-llama70b-tp4",
    model="llama-3.1-70b",
    engine="vllm",
    replicas=3,
    prompt=scaled(AZURE.prompt, 0.4, 8192),
    output=scaled(AZURE.output, 0.2, 256),
    long=scaled(LONG, 0.4, 16_384),
    gold_ttft=1.0,
    slots=0.2,
    duration=44.0,
    warm_up=8.0,
    least_idle=0.25,
    most_lag=0.025,
    most_wait=0.10,
)
LLAMA: Final = Stage(
    name="llama",
    profile="tiny-llamacpp",
    model="tiny",
    engine="llamacpp",
    replicas=2,
    prompt=scaled(AZURE.prompt, 0.05, 512),
    output=scaled(AZURE.output, 0.03, 24),
    long=scaled(LONG, 0.05, 1600),
    gold_ttft=1.0,
    slots=0.2,
    duration=50.0,
    warm_up=6.0,
    least_idle=0.0,  # both engines compute all the time, on two cores
    most_lag=0.05,
    most_wait=0.25,
)
STAGES: Final = {stage.name: stage for stage in (EMULATED, LLAMA)}


def tenants() -> dict[str, str]:
    """Tenant → tier."""
    named = {name: tier for tier, members in TIERS.items() for name in members}
    return named | dict.fromkeys(BRONZE, "bronze")


def workload(stage: Stage, kind: str, capacity: float, duration: float) -> Workload:
    """The traffic of one run. `capacity` is what all replicas serve, tokens of service a second."""

    def sender(name: str, share: float, prompt: Lengths = stage.prompt) -> TenantProfile:
        rate = share * capacity / (prompt.mean + OUTPUT_WEIGHT * stage.output.mean)
        return TenantProfile(name, rate, prompt=prompt, output=stage.output, max_output=-1)

    asks = [sender(n, KEEPS_TO * SHARES[tier] / len(names)) for tier, names in TIERS.items() for n in names]
    asks += [sender(name, QUIET_BRONZE) for name in BRONZE[:2]]
    asks.append(sender(BRONZE[2], SHARES["bronze"] * (NOISE if kind == NOISY else 1.0), stage.long))
    return Workload(tuple(asks), duration, stage.model)


def capacity_of(stage: Stage, policy: Policy) -> float:
    """What all replicas serve where their queues never run empty, tokens of service a second; simulated."""
    profile = stage.loaded()
    step = profile.max_batched_tokens
    guess = step / StepTime(profile).mixed(step, 1, 0, 0, step * step / 2, 0.0)
    overload = workload(stage, FAIR, 3.0 * guess * stage.replicas, 60.0)
    return run(policy, overload, 0, profiles.of_policy(policy), (15.0, 55.0)).service


def write_trace(path: Path, traffic: Workload, seed: int) -> list[TraceRow]:
    """Its requests as a trace file; the rows as every reader of it will see them."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("at", "prompt_tokens", "output_tokens", "tenant"))
        for each in traffic.arrivals(seed):
            out.writerow((f"{each.at:.4f}", each.prompt_tokens, each.output_tokens, each.tenant))
    return list(read(path))


def is_gold(tenant: str) -> bool:
    """Whose times are compared."""
    return tenant in TIERS["gold"]


def lasting(stage: Stage, duration: float) -> Stage:
    """The same for so long (0: as it is)."""
    return replace(stage, duration=duration) if duration else stage

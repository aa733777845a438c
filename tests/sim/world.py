"""A small service to simulate: three tiers, five tenants, one pool; and traffic for it."""

import msgspec

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

PROFILE = "rtxpro6000-llama8b"
PROFILES: dict[str, EngineProfile] = {PROFILE: profiles.load(PROFILE)}
TEXT = f"""
plimsoll: 1
tiers:
  - {{name: gold, rank: 0, share: 50%, objectives: [{{sli: ttft, below: 1s, target: 99%}}, {{sli: itl, below: 150ms, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 30%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, sheddable: true, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants:
  - {{name: acme, tier: gold}}
  - {{name: bolt, tier: gold}}
  - {{name: crane, tier: silver}}
  - {{name: eel, tier: bronze}}
  - {{name: noisy, tier: bronze}}
pools:
  - {{name: chat, model: m, engine: vllm, profile: {PROFILE}, replicas: ["http://r1", "http://r2"]}}
"""  # noqa: E501 - one line a tier
POLICY: Policy = parse(TEXT, "world")


def tenant(name: str, rate: float, **more: object) -> TenantProfile:
    return TenantProfile(name, rate, prompt=Lengths(500, 0.8, 4000), output=Lengths(100, 0.7, 600), **more)  # type: ignore[arg-type]


def traffic(duration: float = 60.0, rate: float = 1.0, **more: object) -> Workload:
    """Five tenants; the noisy one bursts in the middle third."""
    names = ("acme", "bolt", "crane", "eel")
    burst = tenant("noisy", 20 * rate, starts=duration / 3, ends=2 * duration / 3, **more)
    return Workload((*(tenant(name, rate, **more) for name in names), burst), duration, "m")


def simulated(workload: Workload, seed: int, policy: Policy = POLICY) -> tuple[Simulation, list[Record]]:
    """The run and its rows."""
    settles: list[Settle] = []
    run = Simulation(policy, PROFILES, workload.arrivals(seed), settles.append)
    run.run()
    return run, [settle.record for settle in settles]


def as_bytes(records: list[Record]) -> bytes:
    return msgspec.msgpack.encode(records)

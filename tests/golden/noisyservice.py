"""A busy service and a noisy neighbour: the traffic of the isolation test and of `benchmarks/isolation.py`."""

from plimsoll.engine import profiles
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.policy.presets import preset
from plimsoll.sim.isolation import Isolation, isolation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

PROFILE = "h100-llama70b-tp4"
POLICY = parse(
    f"""
plimsoll: 1
tiers:
  - {{name: gold, rank: 0, share: 50%, objectives: [{{sli: ttft, below: 1s, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 20%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants:
  - {{name: acme, tier: gold}}
  - {{name: crane, tier: silver}}
  - {{name: bulk, tier: bronze}}
  - {{name: noisy, tier: bronze}}
pools:
  - {{name: chat, model: m, engine: vllm, profile: {PROFILE}, replicas: ["http://r1", "http://r2"]}}
""",
    "noisyservice",
)
"""Gold asks with long prompts, bronze writes long answers; without the neighbour the service is three quarters full."""


def workload(busy: float) -> Workload:
    """The neighbour comes at 10 s and stays `busy` s, with four times what bronze asked for before."""
    answers = Lengths(1200, 0.3, 3000)
    tenants = (
        TenantProfile("acme", 5.0, prompt=Lengths(1500, 0.6, 12_000), output=Lengths(100, 0.5, 600), max_output=600),
        TenantProfile("crane", 1.0, prompt=Lengths(500, 0.5, 4000), output=Lengths(100, 0.5, 600), max_output=600),
        TenantProfile("bulk", 5.0, prompt=Lengths(150, 0.5, 2000), output=answers, max_output=3000),
        TenantProfile(
            "noisy", 20.0, prompt=Lengths(150, 0.5, 2000), output=answers, max_output=3000, starts=10.0, ends=10 + busy
        ),
    )
    return Workload(tenants, 10.0 + busy, "m")


def pairs(rules: str, seeds: range, busy: float = 80.0) -> Isolation:
    """Runs with and without the neighbour under a preset."""
    policy: Policy = preset(POLICY, rules)
    known = {PROFILE: profiles.load(PROFILE)}
    return isolation(policy, known, workload(busy), neighbour="noisy", tier="gold", seeds=seeds)

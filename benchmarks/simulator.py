"""Simulated requests a CPU second, live policy in the loop and engine alone.

`python -m benchmarks.simulator [SECONDS]`.

Eight replicas of an 8B model at about two thirds of saturation, lengths like Azure's conversations (mean 1,155 in, 211
out), shared beginnings that hit the prefix cache, three tiers with floors, a report every second.
"""

import sys
import time

from plimsoll.engine import profiles
from plimsoll.policy.document import parse
from plimsoll.sim.job import Job
from plimsoll.sim.replica import Replica
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

PROFILE = "rtxpro6000-llama8b"
REPLICAS = ", ".join(f'"http://r{number}"' for number in range(8))
POLICY = f"""
plimsoll: 1
tiers:
  - {{name: gold, rank: 0, share: 40%, objectives: [{{sli: ttft, below: 1s, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 30%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants: [{{name: a, tier: gold}}, {{name: b, tier: gold}}, {{name: c, tier: silver}}, {{name: d, tier: bronze}}]
pools:
  - {{name: chat, model: m, engine: vllm, profile: {PROFILE}, replicas: [{REPLICAS}]}}
"""


def workload(seconds: float) -> Workload:
    tenants = [
        TenantProfile(name, 9.0, prompt=Lengths(430, 0.85, 8192), output=Lengths(165, 0.7, 1500), shared_tokens=512)
        for name in "abcd"
    ]
    return Workload(tuple(tenants), seconds, "m")


def whole(seconds: float) -> None:
    done: list[object] = []
    simulation = Simulation(
        parse(POLICY, "benchmark"), {PROFILE: profiles.load(PROFILE)}, workload(seconds).arrivals(1), done.append
    )
    began = time.process_time()
    simulation.run()
    cpu = time.process_time() - began
    replicas = simulation.fleet.replicas
    hits = sum(r.batch.prefix_hits for r in replicas) / sum(r.batch.prefix_queries for r in replicas)
    print(f"whole service: {len(done)} requests, {len(done) / cpu:,.0f} a CPU s, prefix hits {hits:.0%}")


def engine_alone(seconds: float) -> None:
    arrivals = list(workload(seconds).arrivals(1))
    replica = Replica(profiles.load(PROFILE))
    began = time.process_time()
    for number, arrival in enumerate(arrivals):
        at = 8 * arrival.at  # one replica gets the load of one
        replica.advance(at)
        replica.submit(at, Job(number, arrival.prompt_tokens, arrival.output_tokens, arrival.hashes))
    while (at := replica.next_at()) < float("inf"):
        replica.advance(at)
    cpu = time.process_time() - began
    print(f"engine alone: {len(arrivals)} requests, {len(arrivals) / cpu:,.0f} a CPU s")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    whole(seconds)
    engine_alone(seconds)


if __name__ == "__main__":
    main()

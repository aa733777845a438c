"""How long `plimsoll diagnose` takes over an hour with 100,000 requests, as somebody who types it would wait.

`python -m benchmarks.diagnosishour [DIR]`. Simulates the hour into DIR where there is none yet: eight tenants on eight
replicas, of which one begins to send long prompts after half an hour under fcfs, as `plimsoll simulate` leaves it. Then
the command is run as a process of its own three times, for everything and for one tenant.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TENANTS = (("gold", "acme", "birch"), ("silver", "crane", "dune", "elm"), ("bronze", "fern", "grove", "heron"))
NUM_REPLICAS = 8
RATE = 3.475  # requests a second of each tenant: 100,000 in an hour

POLICY = """
plimsoll: 1
tiers:
  - {{name: gold, rank: 0, share: 40%, objectives: [{{sli: ttft, below: 1s, target: 99%}}, {{sli: tpot, below: 60ms, target: 99%}}]}}
  - {{name: silver, rank: 1, share: 30%, objectives: [{{sli: ttft, below: 3s, target: 98%}}]}}
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants: [{tenants}]
pools: [{{name: chat, model: m, engine: vllm, profile: rtxpro6000-llama8b, replicas: [{replicas}]}}]
scheduling: {{order: fcfs, routing: least_requests, tiers_matter: false, reserve_kv: false}}
"""  # noqa: E501 - one line a tier
USUAL = "prompt: {median: 700, sigma: 0.8}, output: {median: 180, sigma: 0.7}"
LONG = "prompt: {median: 8000, sigma: 0.2}, output: {median: 180, sigma: 0.7}"


def simulate(out: Path) -> None:
    """The hour as a data directory."""
    names = [(tier, name) for tier, *members in TENANTS for name in members]
    people = ", ".join(f"{{name: {name}, tier: {tier}}}" for tier, name in names)
    urls = ", ".join(f'"http://r{number}"' for number in range(NUM_REPLICAS))
    lines = [f"  - {{name: {name}, rate: {RATE}, {USUAL}}}" for _, name in names[:-1]]
    changed = [f"{{at: 30min, rate: {RATE * 2.2}, {LONG}}}", f"{{at: 40min, rate: {RATE}, {USUAL}}}"]
    lines.append(f"  - {{name: {names[-1][1]}, rate: {RATE}, {USUAL}, changes: [{', '.join(changed)}]}}")
    with tempfile.TemporaryDirectory() as home:
        policy, traffic = Path(home, "policy.yaml"), Path(home, "traffic.yaml")
        policy.write_text(POLICY.format(tenants=people, replicas=urls))
        traffic.write_text("duration: 1h\ntenants:\n" + "\n".join(lines) + "\n")
        line = ["simulate", "-c", str(policy), "--workload", str(traffic), "--out", str(out)]
        subprocess.run([sys.executable, "-m", "plimsoll", *line], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(), "hour")
    if not out.exists():
        simulate(out)
    for more in ([], ["--tenant", "acme"]):
        for _ in range(3):
            before, began = os.times(), time.perf_counter()
            line = [sys.executable, "-m", "plimsoll", "diagnose", str(out), "--json", *more]
            said = subprocess.run(line, check=True, capture_output=True).stdout
            wall, after = time.perf_counter() - began, os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            num = json.loads(said)["num"]
            print(f"{' '.join(['diagnose', *more]):24} {wall:6.2f} s wall, {cpu:6.2f} s CPU; {num:,} requests")


if __name__ == "__main__":
    main()

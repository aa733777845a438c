"""Is a pool of its own for long prompts worth it? `python -m benchmarks.studies.longpool [--seeds N]`.

The same requests and the same four replicas, once all in one pool, once three of them below 8k prompt tokens and one
from 8k on, where a part of service grows with long prompts. Prompt lengths vary by sigma of their logarithm: little
variation leaves nothing above 8k. Under plain routing (least requests, FCFS) and under our rules.
"""

from math import exp

from msgspec.structs import replace

from benchmarks.studies.arms import ARMS, PLIMSOLL, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run, shown
from benchmarks.studies.service import AZURE, REPLICAS, SHARES, TIERS, policy, share_of
from plimsoll.policy.policy import Policy
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

LIMIT = 8192
MEAN = 1500.0
LOAD = 0.7


def workload(sigma: float, duration: float) -> Workload:
    """Log-normal prompts of one mean whatever their variation."""
    prompt = Lengths(MEAN * exp(-sigma * sigma / 2.0), sigma, 100_000)
    names = [name for members in (*TIERS.values(), ("bronze-1", "bronze-2", "noisy")) for name in members]
    total = sum(SHARES.values())
    service = MEAN + 2.0 * 211.0
    rate = LOAD * AZURE.capacity * REPLICAS / service / total
    tenants = [
        TenantProfile(name, rate * share_of(name), prompt=prompt, output=AZURE.output, max_output=1000)
        for name in names
    ]
    return Workload(tuple(tenants), duration, "m")


def carved(promises: Policy) -> Policy:
    """One replica of the pool becomes a pool of its own for long prompts."""
    (pool,) = promises.pools
    short = replace(pool, replicas=pool.replicas[:-1], max_prompt_tokens=LIMIT)
    return replace(
        promises, pools=(short, replace(pool, name="long", replicas=pool.replicas[-1:], min_prompt_tokens=LIMIT))
    )


def _run(asked: Command, arm: Arm, sigma: float, kind: str, seed: int) -> Figures:
    promises = arm.put(policy(AZURE), arm.settings[0])
    return asked.kept.get(
        f"longpool/{arm.name}/{sigma}/{kind}/{asked.duration:g}/{seed}",
        lambda: run(carved(promises) if kind == "dedicated" else promises, workload(sigma, asked.duration), seed),
    )


def main() -> None:
    asked = command(__doc__, "longpool", duration=600.0)
    asked.head("P99 TTFT, one pool against a pool of its own for prompts of 8k and more; load 70 %")
    for arm in (PLIMSOLL, ARMS[1]):
        for sigma in (0.3, 0.8, 1.2, 1.6):
            p99: dict[str, list[float | None]] = {"mixed": [], "dedicated": []}
            for seed in asked.seeds:
                for kind, times in p99.items():
                    found = _run(asked, arm, sigma, kind, seed)
                    times.append(found.all.ttft_p99)
            pairs = zip(p99["dedicated"], p99["mixed"], strict=True)
            change = shown([None if a is None or b is None else 100.0 * (a / b - 1.0) for a, b in pairs], " %")
            print(
                f"{arm.name:21} sigma {sigma}: mixed {shown(p99['mixed'], ' s')}, dedicated"
                f" {shown(p99['dedicated'], ' s')}; change {change}; {found.all.num}+"
            )
    asked.foot()


if __name__ == "__main__":
    main()

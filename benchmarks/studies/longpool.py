"""Is a pool of its own for long prompts worth it? `python -m benchmarks.studies.longpool [--seeds N]`.

The same requests and the same four replicas, once all in one pool, once three of them below a limit of prompt tokens
and one from there on: 8k whatever the lengths, and the limit above which a quarter of all service lies. Prompt lengths
vary by sigma of their logarithm: little variation leaves nothing above 8k. Under plain routing (least requests, FCFS)
and under our rules. P99 is of all, and of the prompts below the fitting limit, whom long ones are said to hold up.
"""

from math import exp, log
from statistics import NormalDist

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
OUTPUT = 211.0  # the mean
LOAD = 0.7
MIXED, SPLIT, FITTED = "mixed", "dedicated", "fitted"


def workload(sigma: float, duration: float) -> Workload:
    """Log-normal prompts of one mean whatever their variation."""
    prompt = Lengths(MEAN * exp(-sigma * sigma / 2.0), sigma, 100_000)
    names = [name for members in (*TIERS.values(), ("bronze-1", "bronze-2", "noisy")) for name in members]
    total = sum(SHARES.values())
    service = MEAN + 2.0 * OUTPUT
    rate = LOAD * AZURE.capacity * REPLICAS / service / total
    tenants = [
        TenantProfile(name, rate * share_of(name), prompt=prompt, output=AZURE.output, max_output=1000)
        for name in names
    ]
    return Workload(tuple(tenants), duration, "m")


def fitting(sigma: float) -> int:
    """The prompt length from which on a replica's part of all service lies."""
    normal, low, high = NormalDist(), 1.0, 100_000.0
    while high - low > 1.0:
        middle = (low + high) / 2.0
        place = log(middle / MEAN) / sigma + sigma / 2.0
        above = MEAN * normal.cdf(sigma - place) + 2.0 * OUTPUT * normal.cdf(-place)
        low, high = (middle, high) if above > (MEAN + 2.0 * OUTPUT) / REPLICAS else (low, middle)
    return round(high)


def carved(promises: Policy, limit: int) -> Policy:
    """One replica of the pool becomes a pool of its own for long prompts."""
    (pool,) = promises.pools
    short = replace(pool, replicas=pool.replicas[:-1], max_prompt_tokens=limit)
    return replace(
        promises, pools=(short, replace(pool, name="long", replicas=pool.replicas[-1:], min_prompt_tokens=limit))
    )


def _run(asked: Command, arm: Arm, sigma: float, kind: str, seed: int) -> Figures:
    promises = arm.put(policy(AZURE), arm.settings[0])
    if kind != MIXED:
        promises = carved(promises, LIMIT if kind == SPLIT else fitting(sigma))
    return asked.kept.get(
        f"longpool/{arm.name}/{sigma}/{kind}/{asked.duration:g}/{seed}",
        lambda: run(promises, workload(sigma, asked.duration), seed, short_below=fitting(sigma)),
    )


def _row(asked: Command, arm: Arm, sigma: float) -> None:
    runs = {kind: [_run(asked, arm, sigma, kind, seed) for seed in asked.seeds] for kind in (MIXED, SPLIT, FITTED)}
    for part, told in (("all", "all"), ("short", f"below {fitting(sigma)}")):
        p99 = {kind: [getattr(found, part).ttft_p99 for found in runs[kind]] for kind in runs}
        print(f"{arm.name:21} sigma {sigma}, {told:12}: mixed {shown(p99[MIXED], ' s')}", end="")
        for kind in (SPLIT, FITTED):
            pairs = zip(p99[kind], p99[MIXED], strict=True)
            change = shown([None if a is None or b is None else 100.0 * (a / b - 1.0) for a, b in pairs], " %")
            print(f"; {kind} {shown(p99[kind], ' s')}: {change}", end="")
        print(f"; {min(getattr(found, part).num for found in runs[MIXED])}+")


def main() -> None:
    asked = command(__doc__, "longpool", duration=600.0)
    asked.head("P99 TTFT, one pool against a pool of its own for long prompts; load 70 %")
    for arm in (PLIMSOLL, ARMS[1]):
        for sigma in (0.3, 0.8, 1.2, 1.6):
            _row(asked, arm, sigma)
    asked.foot()


if __name__ == "__main__":
    main()

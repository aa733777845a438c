"""Goodput while every tier attains 95 %, and what fairness costs in tokens: `python -m benchmarks.studies.goodput`.

All eight tenants ask by their shares. For each rival at its best setting (`tuning`) and each seed the load is raised in
steps of 2.5 % to the last one at which every tier's attainment is 95 % or more; goodput is what was good there. Tokens
are compared at full load, 100 % of what the replicas serve. The bound is what somebody could reach who knows every
answer's length, serves as fast as replicas that never run empty, and leaves out the 5 % of each tier that cost most.
"""

from typing import Final

from benchmarks.studies.arms import ARMS, PLIMSOLL, WITHOUT_TIERS, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import shown
from benchmarks.studies.service import REPLICAS, Mix, sender
from benchmarks.studies.tuning import ATTAINMENT, FULL, TRAFFICS, Traffic, at_load, most, tuned
from plimsoll.governor.queueing import OUTPUT_WEIGHT
from plimsoll.sim.workload import Workload

SHOWN: Final = (*ARMS, WITHOUT_TIERS)


def goodput(asked: Command, arm: Arm, setting: float, traffic: Traffic, seed: int) -> float:
    """Good requests a second at the highest load that holds; 0 where none does."""
    load = most(asked, arm, setting, traffic, seed)
    if not load:
        return 0.0
    found = at_load(asked, arm, setting, traffic, load, seed)
    return sum(group.num_good for group in found.tiers.values()) / found.window


def bound(traffic: Traffic) -> float:
    """Good requests a second of whoever leaves out each tier's largest ones, as many as attainment allows."""
    whole = traffic.workload(1.0, 1.0)
    rates = {tenant.name: tenant.rate for tenant in whole.tenants}
    seconds = sum(rates[name] * ATTAINMENT * _seconds(traffic.mix_of(name)) for name in rates)
    return ATTAINMENT * sum(rates.values()) * REPLICAS / seconds


def _seconds(mix: Mix) -> float:
    """Of a replica that a request takes in the mean, the largest left out."""
    arrivals = Workload((sender("t", mix, 1.0),), 3600.0, "m").arrivals(0)
    services = sorted(one.prompt_tokens + OUTPUT_WEIGHT * one.output_tokens for one in arrivals)
    kept = services[: int(ATTAINMENT * len(services))]
    return sum(kept) / len(kept) / mix.capacity


def main() -> None:
    asked = command(__doc__, "goodput", duration=300.0)
    asked.head("goodput at 95 % attainment of every tier; tokens at full load")
    for traffic in TRAFFICS:
        rows: dict[str, list[float]] = {}
        tokens: dict[str, list[float]] = {}
        for arm in SHOWN:
            setting = tuned(asked, arm, traffic)
            rows[arm.name] = [goodput(asked, arm, setting, traffic, seed) for seed in asked.seeds]
            tokens[arm.name] = [at_load(asked, arm, setting, traffic, FULL, seed).tokens for seed in asked.seeds]
            loads = [most(asked, arm, setting, traffic, seed) for seed in asked.seeds]
            print(
                f"{traffic.name:9} {arm.name:21} {arm.tells} {setting:g}: holds {shown(loads)} of full load, goodput"
                f" {shown(rows[arm.name])} requests/s; {shown([t / 1000 for t in tokens[arm.name]], 'k')} tokens/s",
                flush=True,
            )
        best = max((arm.name for arm in ARMS if arm is not PLIMSOLL), key=lambda name: sum(rows[name]))
        print(f"{traffic.name:9} nobody can have more than {bound(traffic):.3g} requests/s")
        for rival in (best, WITHOUT_TIERS.name):
            ratios = [a / b if b else None for a, b in zip(rows[PLIMSOLL.name], rows[rival], strict=True)]
            print(f"{traffic.name:9} goodput of plimsoll ÷ {rival}: {shown(ratios)}")
        fcfs = tokens["fcfs, least requests"]
        kept = [a / b for a, b in zip(tokens[PLIMSOLL.name], fcfs, strict=True)]
        print(f"{traffic.name:9} tokens of plimsoll ÷ fcfs at full load: {shown(kept)}", flush=True)
    asked.foot()


if __name__ == "__main__":
    main()

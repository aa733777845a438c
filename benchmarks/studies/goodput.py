"""Goodput while every tier attains 95 %, and what fairness costs in tokens: `python -m benchmarks.studies.goodput`.

All eight tenants ask by their shares. For each rival at its best setting (`tuning`) and each seed the load is raised in
steps of 5 % to the last one at which every tier's attainment is 95 % or more; goodput is what was good there. Tokens
are compared at full load, 100 % of what the replicas serve. The bound is what somebody could reach who knows every
answer's length, serves as fast as replicas that never run empty, and leaves out the 5 % that cost most.
"""

from benchmarks.studies.arms import ARMS, PLIMSOLL, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import shown
from benchmarks.studies.service import MIXES, REPLICAS, Mix, sender
from benchmarks.studies.tuning import ATTAINMENT, FULL, at_load, most, tuned
from plimsoll.governor.queueing import OUTPUT_WEIGHT
from plimsoll.sim.workload import Workload


def goodput(asked: Command, arm: Arm, setting: float, mix: Mix, seed: int) -> float:
    """Good requests a second at the highest load that holds; 0 where none does."""
    load = most(asked, arm, setting, mix, seed)
    if not load:
        return 0.0
    found = at_load(asked, arm, setting, mix, load, seed)
    return sum(group.num_good for group in found.tiers.values()) / found.window


def bound(mix: Mix) -> float:
    """Good requests a second of whoever leaves out the largest ones, as many as attainment allows."""
    arrivals = Workload((sender("t", mix, 1.0),), 3600.0, "m").arrivals(0)
    services = sorted(one.prompt_tokens + OUTPUT_WEIGHT * one.output_tokens for one in arrivals)
    kept = services[: int(ATTAINMENT * len(services))]
    return len(kept) / sum(kept) * mix.capacity * REPLICAS


def main() -> None:
    asked = command(__doc__, "goodput", duration=300.0)
    asked.head("goodput at 95 % attainment of every tier; tokens at full load")
    for mix in MIXES.values():
        rows: dict[str, list[float]] = {}
        tokens: dict[str, list[float]] = {}
        for arm in ARMS:
            setting = tuned(asked, arm, mix)
            rows[arm.name] = [goodput(asked, arm, setting, mix, seed) for seed in asked.seeds]
            tokens[arm.name] = [at_load(asked, arm, setting, mix, FULL, seed).tokens for seed in asked.seeds]
            loads = [most(asked, arm, setting, mix, seed) for seed in asked.seeds]
            print(
                f"{mix.name:9} {arm.name:21} {arm.tells} {setting:g}: holds {shown(loads)} of full load, goodput"
                f" {shown(rows[arm.name])} requests/s; {shown([t / 1000 for t in tokens[arm.name]], 'k')} tokens/s full"
            )
        best = max((name for name in rows if name != PLIMSOLL.name), key=lambda name: sum(rows[name]))
        ours, fcfs = rows[PLIMSOLL.name], tokens["fcfs, least requests"]
        ratios = [a / b if b else None for a, b in zip(ours, rows[best], strict=True)]
        kept = [a / b for a, b in zip(tokens[PLIMSOLL.name], fcfs, strict=True)]
        print(f"{mix.name:9} nobody can have more than {bound(mix):.3g} requests/s")
        print(f"{mix.name:9} plimsoll ÷ {best}: goodput {shown(ratios)}; tokens ÷ fcfs at full load {shown(kept)}")
    asked.foot()


if __name__ == "__main__":
    main()

"""Does anybody starve at 150 % load? `python -m benchmarks.studies.starvation [--seeds N]`.

Every tenant asks for one and a half times its share, so that all keep waiting. Bronze must get its floor: its share
of what the replicas serve, or what trickle adds to it. Jain's index is over the equally weighted tenants of a tier
that were backlogged throughout, by tokens of service between the end of the warm-up and the end of arrivals.
"""

from collections.abc import Sequence

from benchmarks.studies.arms import ARMS, PLIMSOLL, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run, shown
from benchmarks.studies.service import BRONZE, MIXES, REPLICAS, SHARES, TIERS, Mix, everybody, policy

OVERLOAD = 1.5
MEMBERS = {**TIERS, "bronze": BRONZE}


def jain(values: Sequence[float]) -> float:
    """1 where all have the same, 1 ÷ n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def served(found: Figures, tier: str) -> list[float]:
    """Tokens of service a second, by tenant of a tier, of what ended in the window."""
    return [found.served.get(name, 0.0) for name in MEMBERS[tier]]


def share(found: Figures, tier: str, mix: Mix) -> float:
    """What a tier got of all that the replicas serve."""
    return sum(served(found, tier)) / (mix.capacity * REPLICAS)


def backlogged(found: Figures, tier: str) -> bool:
    """Whether every tenant of it always had somebody waiting: then many of its requests were never sent."""
    return all(found.tenants[name].refused > 0.1 * found.tenants[name].num for name in MEMBERS[tier])


def _run(asked: Command, arm: Arm, mix: Mix, seed: int) -> Figures:
    return asked.kept.get(
        f"starvation/{arm.name}/{mix.name}/{asked.duration:g}/{seed}",
        lambda: run(arm.put(policy(mix), arm.settings[0]), everybody(mix, OVERLOAD, asked.duration), seed),
    )


def main() -> None:
    asked = command(__doc__, "starvation", duration=600.0)
    asked.head("shares of service at 150 % load, and Jain's index within each tier")
    for mix in MIXES.values():
        for arm in ARMS if asked.all_arms else (PLIMSOLL, ARMS[1], ARMS[3]):
            runs = [_run(asked, arm, mix, seed) for seed in asked.seeds]
            print(f"{mix.name} {arm.name}, {runs[0].tenants['bronze-1'].num}+ of each bronze tenant")
            for tier, floor in SHARES.items():
                got = shown([share(found, tier, mix) for found in runs])
                even = shown([jain(served(found, tier)) for found in runs], digits=4)
                short = "backlogged" if all(backlogged(found, tier) for found in runs) else "not backlogged throughout"
                print(f"  {tier:7} floor {floor:.0%}: got {got} of all service; Jain {even}, {short}")
    asked.foot()


if __name__ == "__main__":
    main()

"""Each rival at its best: the load at which every tier still attains 95 %, for each of its settings.

`python -m benchmarks.studies.tuning [--seeds N]`; seeds of its own, so that nobody is judged by what it was tuned on.
"""

from typing import Final

from benchmarks.studies.arms import ARMS, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run
from benchmarks.studies.service import MIXES, SHARES, Mix, everybody, policy

ATTAINMENT: Final = 0.95
LOADS: Final = tuple(round(0.40 + 0.05 * step, 2) for step in range(17))  # of what the replicas serve
FULL: Final = 1.0
TUNING_SEED: Final = 1000


def at_load(asked: Command, arm: Arm, setting: float, mix: Mix, load: float, seed: int) -> Figures:  # noqa: PLR0917
    """The mixed workload at a load under one setting, or what is known of it."""
    return asked.kept.get(
        f"goodput/{arm.name}/{setting:g}/{mix.name}/{load:g}/{asked.duration:g}/{seed}",
        lambda: run(arm.put(policy(mix), setting), everybody(mix, load, asked.duration), seed),
    )


def holds(found: Figures) -> bool:
    """Whether every tier attains it."""
    return all(found.tiers[tier].attainment >= ATTAINMENT for tier in SHARES)


def most(asked: Command, arm: Arm, setting: float, mix: Mix, seed: int) -> float:
    """The highest of the loads that holds, by halving: 0 where not even the first does."""
    low, high = -1, len(LOADS)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(at_load(asked, arm, setting, mix, LOADS[middle], seed)):
            low = middle
        else:
            high = middle
    return LOADS[low] if low >= 0 else 0.0


def tuned(asked: Command, arm: Arm, mix: Mix) -> float:
    """The setting of an arm that holds the highest load for tuning's seed; of those the one that serves most tokens at
    full load, and the published one where they are equal."""

    def worth(setting: float) -> tuple[float, float]:
        full = at_load(asked, arm, setting, mix, FULL, TUNING_SEED)
        return most(asked, arm, setting, mix, TUNING_SEED), round(full.tokens)

    return max(arm.settings, key=worth)


def main() -> None:
    asked = command(__doc__, "goodput", duration=300.0, seeds=1)
    print(f"highest load at which every tier attains {ATTAINMENT:.0%}, by setting (the first one is published)")
    for mix in MIXES.values():
        for arm in ARMS:
            found = [f"{s:g}: {most(asked, arm, s, mix, TUNING_SEED):.0%}" for s in arm.settings]
            print(f"{mix.name:9} {arm.name:21} {arm.tells:18} {', '.join(found)}; best {tuned(asked, arm, mix):g}")
    asked.foot()


if __name__ == "__main__":
    main()

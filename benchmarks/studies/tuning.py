"""Each rival at its best: the load at which every tier still attains 95 %, for each of its settings.

`python -m benchmarks.studies.tuning [--seeds N]`; seeds of its own, so that nobody is judged by what it was tuned on.
"""

from typing import Final

from msgspec import Struct

from benchmarks.studies.arms import ARMS, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run
from benchmarks.studies.service import AZURE, BRONZE, MOONCAKE, SHARES, Mix, everybody, policy
from plimsoll.sim.workload import Workload

ATTAINMENT: Final = 0.95
LOADS: Final = tuple(round(0.40 + 0.025 * step, 3) for step in range(33))  # of what the replicas serve
FULL: Final = 1.0
TUNING_SEED: Final = 1000


class Traffic(Struct, frozen=True):
    """What the eight tenants send: all alike, or bronze documents beside the chats of the others."""

    name: str
    mix: Mix
    bronze: Mix

    def workload(self, load: float, duration: float) -> Workload:
        """All by their shares."""
        return everybody(self.mix, load, duration, self.bronze)

    def mix_of(self, tenant: str) -> Mix:
        """A tenant's lengths."""
        return self.bronze if tenant in BRONZE else self.mix


TRAFFICS: Final = (
    Traffic("azure", AZURE, AZURE),
    Traffic("mooncake", MOONCAKE, MOONCAKE),
    Traffic("mixed", AZURE, MOONCAKE),
)


def at_load(asked: Command, arm: Arm, setting: float, traffic: Traffic, load: float, seed: int) -> Figures:  # noqa: PLR0917
    """That traffic at a load under one setting, or what is known of it. The objectives are those of gold's lengths."""
    return asked.kept.get(
        f"goodput/{arm.name}/{setting:g}/{traffic.name}/{load:g}/{asked.duration:g}/{seed}",
        lambda: run(arm.put(policy(traffic.mix), setting), traffic.workload(load, asked.duration), seed),
    )


def holds(found: Figures) -> bool:
    """Whether every tier attains it."""
    return all(found.tiers[tier].attainment >= ATTAINMENT for tier in SHARES)


def most(asked: Command, arm: Arm, setting: float, traffic: Traffic, seed: int) -> float:
    """The highest of the loads that holds, by halving: 0 where not even the first does."""
    low, high = -1, len(LOADS)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(at_load(asked, arm, setting, traffic, LOADS[middle], seed)):
            low = middle
        else:
            high = middle
    return LOADS[low] if low >= 0 else 0.0


def tuned(asked: Command, arm: Arm, traffic: Traffic) -> float:
    """The setting of an arm that holds the highest load for tuning's seed; of those the one that serves most tokens at
    full load, and the published one where they are equal."""

    def worth(setting: float) -> tuple[float, float]:
        full = at_load(asked, arm, setting, traffic, FULL, TUNING_SEED)
        return most(asked, arm, setting, traffic, TUNING_SEED), round(full.tokens)

    return max(arm.settings, key=worth)


def main() -> None:
    asked = command(__doc__, "goodput", duration=300.0, seeds=1)
    print(f"highest load at which every tier attains {ATTAINMENT:.0%}, by setting (the first one is published)")
    for traffic in TRAFFICS:
        for arm in ARMS:
            found = [f"{s:g}: {most(asked, arm, s, traffic, TUNING_SEED):.1%}" for s in arm.settings]
            print(
                f"{traffic.name:9} {arm.name:21} {arm.tells:18} {', '.join(found)}; best {tuned(asked, arm, traffic):g}"
            )
    asked.foot()


if __name__ == "__main__":
    main()

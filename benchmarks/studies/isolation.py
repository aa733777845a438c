"""What a noisy neighbour does to gold: `python -m benchmarks.studies.isolation [--seeds N] [--out DIR]`.

Gold asks for 80 % of its share, and so does silver; the neighbour is of bronze and asks for four times bronze's share,
with prompts of 8k to 31k in gold's own pool, or of 32k to 120k in a long pool that was carved from the same replicas.
Two references, the same dice for gold: the same with a neighbour that keeps to its share, and gold alone on everything.
With `--all` every rival is judged at its published setting and at the one of its four that serves gold best beside the
noise, by a seed of its own.
"""

from collections.abc import Sequence
from math import inf

from benchmarks.studies.arms import ARMS, PLIMSOLL, Arm
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run, shown
from benchmarks.studies.service import (
    BRONZE,
    LONG,
    LONGEST,
    MIXES,
    SHARES,
    TIERS,
    Mix,
    long_sender,
    policy,
    sender,
    share_of,
)
from benchmarks.studies.tuning import TUNING_SEED
from plimsoll.sim.workload import Workload

KEEPS_TO = 0.8  # of their shares, gold and silver
NOISE = 4.0
FAIR, NOISY, ALONE = "fair", "noisy", "alone"


def workload(mix: Mix, kind: str, duration: float, *, longest: bool) -> Workload:
    """The traffic of one run."""
    names = TIERS["gold"] if kind == ALONE else (*TIERS["gold"], *TIERS["silver"])
    tenants = [sender(name, mix, KEEPS_TO * share_of(name)) for name in names]
    if kind != ALONE:
        tenants += [sender(name, mix, 0.01) for name in BRONZE[:2]]
        asks = SHARES["bronze"] * (NOISE if kind == NOISY else 1.0)
        tenants.append(long_sender("noisy", mix, LONGEST if longest else LONG, asks))
    return Workload(tuple(tenants), duration, "m")


def figures(
    asked: Command, arm: Arm, mix: Mix, kind: str, seed: int, *, longest: bool, setting: float | None = None
) -> Figures:
    """One run, or what is known of it; without a setting the published one. Gold alone has all replicas in one pool."""
    promises = policy(mix, long_replicas=1 if longest and kind != ALONE else 0)
    where = "long pool" if longest else "same pool"
    put = arm.settings[0] if setting is None else setting
    name = arm.name if put == arm.settings[0] else f"{arm.name} {put:g}"
    return asked.kept.get(
        f"isolation/{name}/{mix.name}/{where}/{kind}/{asked.duration:g}/{seed}",
        lambda: run(arm.put(promises, put), workload(mix, kind, asked.duration, longest=longest), seed),
    )


def best(asked: Command, arm: Arm, mix: Mix) -> float:
    """Of an arm's settings the one with the lowest P99 of gold beside the noise; the published one of equal ones."""

    def late(setting: float) -> float:
        found = figures(asked, arm, mix, NOISY, TUNING_SEED, longest=False, setting=setting)
        p99 = found.tiers["gold"].ttft_p99
        return inf if p99 is None else p99

    return min(arm.settings, key=late)


def row(asked: Command, arm: Arm, mix: Mix, *, longest: bool, setting: float | None = None) -> None:
    """P99 of gold's TTFT, and the two ratios, pair by pair."""
    p99: dict[str, Sequence[float | None]] = {}
    for kind in (ALONE, FAIR, NOISY):
        runs = [figures(asked, arm, mix, kind, seed, longest=longest, setting=setting) for seed in asked.seeds]
        p99[kind] = [found.tiers["gold"].ttft_p99 for found in runs]
    told = "" if setting is None else f"best {setting:g}"
    num = min(found.tiers["gold"].num for found in runs)
    tokens = shown([found.tokens / 1000.0 for found in runs], "k")
    to_fair, alone = (shown(_ratios(p99[NOISY], p99[other])) for other in (FAIR, ALONE))
    print(
        f"{mix.name:9}{'32k-120k' if longest else '8k-31k':9} {arm.name:21} {told:8} fair {shown(p99[FAIR], ' s')},"
        f" noisy {shown(p99[NOISY], ' s')}; noisy ÷ fair {to_fair}, ÷ alone {alone}; {num}+ of gold, {tokens} tokens/s"
    )


def _ratios(over: Sequence[float | None], under: Sequence[float | None]) -> list[float | None]:
    return [None if a is None or b is None else a / b for a, b in zip(over, under, strict=True)]


def main() -> None:
    asked = command(__doc__, "isolation", duration=900.0)
    asked.head("P99 TTFT of gold beside a neighbour at four times its share")
    for mix in MIXES.values():
        for longest in (False, True):
            for arm in ARMS if asked.all_arms and not longest else (PLIMSOLL, ARMS[1]):  # apart all are alike
                row(asked, arm, mix, longest=longest)
                if asked.all_arms and not longest and (tuned := best(asked, arm, mix)) != arm.settings[0]:
                    row(asked, arm, mix, longest=False, setting=tuned)
    asked.foot()


if __name__ == "__main__":
    main()

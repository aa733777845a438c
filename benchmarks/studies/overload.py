"""Half as much again as can be served, for two minutes: `python -m benchmarks.studies.overload [--seeds N]`.

Before and after, load is 70 %. Told are: who is refused or runs out of time, by tier; who met every objective during
the overload; how long after it waits are as before; how often a ladder of degradation changes its level; and what a
refusal costs in CPU time (the governor's whole decision, measured apart).

Waits are as before from the first 5 s on in which P90 of TTFT over all tiers (whoever got no token counts as infinitely
late) is not above the highest of any 5 s before the overload, and neither in the next two. That no later 5 s ever
exceed that is no measure: among as many, some do without any overload. The same is asked of a run without one.
"""

import time
from collections.abc import Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.studies.arms import PLIMSOLL
from benchmarks.studies.command import Command, command
from benchmarks.studies.run import is_good, quantile, shown
from benchmarks.studies.service import AZURE, KNOWN, SHARES, everybody, policy
from plimsoll.governor.decisions import Decision, Reject
from plimsoll.governor.events import ReplicaReport, ReplicasReported, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.policy.objective import Sli
from plimsoll.policy.policy import Degradation, Policy, Tier, Trigger
from plimsoll.requestlog.record import Record
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload

USUAL, OVER = 0.7, 1.5
BEGINS, ENDS, LASTS = 180.0, 300.0, 480.0
BIN = 5.0  # s, in which waits are compared


class Seen(Struct):
    """One run."""

    refused: dict[str, float]  # of those that came during the overload, by tier
    good: dict[str, float]  # … and those that met every objective
    recovered_after: float | None  # s after its end; None: not before the run's end
    relapse: float | None  # the highest P90 of any 5 s from then on ÷ the highest before the overload
    levels: int  # changes of the ladder's level


def workload(over: float = OVER) -> Workload:
    """All eight tenants by their shares, half as much again in the middle."""
    whole = everybody(AZURE, USUAL, LASTS)
    tenants = tuple(
        replace(tenant, changes=((BEGINS, tenant.rate * over / USUAL), (ENDS, tenant.rate))) for tenant in whole.tenants
    )
    return Workload(tenants, LASTS, "m")


def promises() -> Policy:
    """A ladder that watches first tokens, queues of 500, patience of three times the TTFT objective, 20 s at most."""
    ladder = Degradation(Trigger("ttft", 2.0, 15.0), ("drop_plugins",))
    put = PLIMSOLL.put(policy(AZURE), PLIMSOLL.settings[0])
    tiers = tuple(replace(tier, queue_limit=500, queue_timeout=_patience(tier)) for tier in put.tiers)
    return replace(put, tiers=tiers, degradation=ladder)


def _patience(tier: Tier) -> float:
    return min(20.0, *[3.0 * objective.below for objective in tier.objectives if objective.sli is Sli.TTFT])


def seen(seed: int, over: float = OVER) -> Seen:
    """Simulate once, looking at the ladder every second."""
    rows: list[Record] = []
    arrivals = workload(over).arrivals(seed)
    simulation = Simulation(promises(), KNOWN, arrivals, lambda settle: rows.append(settle.record))
    levels, before = 0, 0
    for second in range(int(LASTS) + 60):
        simulation.run(EPOCH + second)
        ladder = simulation.governor.snapshot(simulation.now).degradation_level
        levels += ladder != before
        before = ladder
    simulation.run()
    during = [row for row in rows if BEGINS <= row.arrived_at - EPOCH < ENDS]
    refused, good = {}, {}
    for tier in SHARES:
        of_tier = [row for row in during if row.tier == tier]
        refused[tier] = sum(row.dispatched_at is None for row in of_tier) / len(of_tier)
        good[tier] = sum(map(is_good, of_tier)) / len(of_tier)
    return Seen(refused, good, *_recovered(rows), levels)


def _recovered(rows: Sequence[Record]) -> tuple[float | None, float | None]:
    """From when on waits are as before, and how far any later one exceeds that."""
    bins: dict[int, list[float]] = {}
    for row in rows:
        late = inf if row.ttft is None else row.ttft
        bins.setdefault(int((row.arrived_at - EPOCH) // BIN), []).append(late)
    p90 = {number: quantile(sorted(times), 0.9) or inf for number, times in bins.items()}
    usual = max(p90[number] for number in p90 if 60.0 <= number * BIN < BEGINS)
    last = int(LASTS / BIN)
    for number in range(int(ENDS / BIN), last - 2):
        if max(p90[number], p90[number + 1], p90[number + 2]) <= usual:
            return number * BIN - ENDS, max(p90[later] for later in range(number, last)) / usual
    return None, None


def cost_of_a_refusal(num: int = 5000) -> float:
    """CPU s of a whole decision where the queue is full."""
    tight = promises()
    governor = Governor(replace(tight, tiers=tuple(replace(t, queue_limit=100) for t in tight.tiers)), KNOWN)
    names = tight.pools[0].replicas
    governor.handle(ReplicasReported(EPOCH, tuple(ReplicaReport(name, True, EPOCH) for name in names)))
    refusals = 0
    spent = 0.0
    for number in range(num + 2000):
        event = RequestArrived(EPOCH + number * 1e-4, number + 1, "bronze-1", "m", 1000, 1000)
        began = time.process_time()
        decisions: Sequence[Decision] = governor.handle(event)
        took = time.process_time() - began
        if any(isinstance(decision, Reject) for decision in decisions):
            refusals += 1
            spent += took
    return spent / refusals


def _kept(asked: Command, seed: int, over: float) -> Seen:
    return asked.kept.value(f"overload/{over:g}/{seed}", Seen, lambda: seen(seed, over))


def main() -> None:
    asked = command(__doc__, "overload", duration=LASTS)
    asked.head("load 150 % for two minutes")
    runs = [_kept(asked, seed, OVER) for seed in asked.seeds]
    for tier in SHARES:
        unsent = shown([100.0 * found.refused[tier] for found in runs], " %")
        print(f"  {tier:7} not sent: {unsent}; good: {shown([100.0 * found.good[tier] for found in runs], ' %')}")
    after = [found.recovered_after for found in runs]
    print(f"  waits are as before {shown(after, ' s')} after it {after}")
    print(f"  … and at most {shown([found.relapse for found in runs])} times as long as before from then on")
    print(f"  the ladder's level changed {[found.levels for found in runs]} times")
    calm = [_kept(asked, seed, USUAL) for seed in asked.seeds]
    print(f"  without an overload: {shown([found.recovered_after for found in calm], ' s')} after nothing,", end="")
    print(f" at most {shown([found.relapse for found in calm])} times")
    print(f"  a refusal costs {1e6 * cost_of_a_refusal():.0f} µs of CPU")
    asked.foot()


if __name__ == "__main__":
    main()

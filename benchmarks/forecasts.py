"""Forecasts of error budgets on drifting simulated months: `python -m benchmarks.forecasts [SEEDS]`.

Every setting of the forecast was chosen on even seeds; the figures are those of odd ones. Each seed gives one service
of each kind (`driftingmonths.py`), forecast every second day from the third week of 70 days on: no hour is forecast
twice, so what a service's forecasts miss by shares little but its level.
"""

import sys
import time
from collections.abc import Iterable

from benchmarks.driftingmonths import KINDS, Kind, drifting_months
from plimsoll.analytics.backtest import Backtest, Trial, summed, trials
from plimsoll.slo.intervals import clopper_pearson

DAYS = 70
EVERY = 49
"""Hours: two days and an hour, so that every hour of the day gets its turn."""


def tried(kind: Kind, seeds: Iterable[int], days: int = DAYS) -> list[Trial]:
    """All forecasts of one kind of service."""
    return [trial for seed in seeds for trial in trials(drifting_months(seed, kind, days), every=EVERY)]


def show(name: str, found: Backtest) -> None:
    covered = found.covered_ratio or 0.0
    low, high = clopper_pearson(round(covered * found.num), found.num)
    print(
        f"{name:12} {found.num:5} forecasts: {covered:6.1%} in the 80 % band ({low:.1%} to {high:.1%}), "
        f"{found.below_ratio:.1%} below, {found.above_ratio:.1%} above; "
        f"exhaustion {found.exhaustion_covered_ratio:6.1%} of {found.num_exhaustions}; pinball {found.pinball:.3f}"
    )


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    odd = sys.argv[2:] != ["even"]
    seeds = range(1 if odd else 0, 2 * num, 2)
    began, everything = time.process_time(), []
    for kind in KINDS:
        found = tried(kind, seeds)
        show(kind.name, summed("", kind.name, found))
        everything += found
    total = summed("", "all", everything)
    show("all", total)
    for name, loss in total.naive_pinball.items():
        print(f"  {name:34} pinball {loss:.3f}")
    print(f"{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()

"""Gold's P99 TTFT beside a noisy neighbour ÷ without it, simulated: `python -m benchmarks.isolation [SEEDS]`."""

import sys
import time

from plimsoll.sim.estimate import Estimate
from tests.golden.noisyservice import pairs


def show(estimate: Estimate, unit: str = "") -> str:
    if estimate.mean is None or estimate.low is None or estimate.high is None:
        return "not known"
    return f"{estimate.mean:.3g}{unit} (95 %: {estimate.low:.3g} to {estimate.high:.3g})"


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    for rules in ("default", "fcfs"):
        began = time.process_time()
        found = pairs(rules, seeds)
        print(f"{rules:8} P99 TTFT of gold: ratio {show(found.ratio)}; alone {show(found.alone, ' s')},", end=" ")
        cpu = time.process_time() - began
        print(
            f"beside {show(found.beside, ' s')}; {min(found.num)}+ requests a run, {len(seeds)} seeds, {cpu:.0f} CPU s"
        )


if __name__ == "__main__":
    main()

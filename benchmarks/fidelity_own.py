"""Calibrated on closed-loop runs of our own engines, how well are the open-loop ones predicted?

`python -m benchmarks.fidelity_own [TRIALS]`; needs PLIMSOLL_DATA. Runs whose engine stood without a core for more than
12 % of the time it wanted one (`steal`) are left out and named. Beside the prediction, what says where an error comes
from: time to first token on an engine that was idle, in open and closed loops, and how it goes with the pause before;
how long the engine's threads stood without a core, from its samples; a fit on the open-loop runs themselves; and of two
open-loop runs one fitted and the other predicted, which is what a calibration on traffic of the same kind gives.
"""

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np

from plimsoll.cli.calibrate import engine_runs
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import unloaded_ttft
from plimsoll.sim.enginefit import Errors, fit, pooled_errors
from plimsoll.sim.replaying import EngineRun
from plimsoll.storage.engineruns import served

ENGINES = {"vllm": "tiny-vllm-cpu", "llamacpp": "tiny-llamacpp"}
STEAL = 0.12
P50, P90 = 0.10, 0.15  # what must be reached


def main() -> None:
    folder = Path(os.environ["PLIMSOLL_DATA"]) / "real-engine-runs"
    evaluations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for engine, like in ENGINES.items():
        runs = engine_runs(served(folder / f"{engine}-calibration.requests.jsonl.gz"))
        facts = {
            run["run"]: run for run in json.loads((folder / f"{engine}-calibration.summary.json").read_text())["runs"]
        }
        noisy = [run.name for run in runs if (facts[run.name]["steal"] or 0.0) > STEAL]
        kept = [run for run in runs if run.name not in noisy]
        closed = [run for run in kept if facts[run.name]["mode"] == "closed"]
        opened = [run for run in kept if facts[run.name]["mode"] == "open"]
        print(f"{engine}: left out for steal above {STEAL:.0%}: {', '.join(noisy) or 'none'}")
        found = fit(closed, profiles.load(like), evaluations)
        print(f"  fitted on {len(closed)} closed-loop runs, off by {found.loss:.1%}")
        tell("predicted", pooled_errors("open loop", opened, found.profile))
        for run in opened:
            tell(f"  {run.name}", pooled_errors(run.name, [run], found.profile))
        waits(folder / f"{engine}-calibration.samples.jsonl.gz", closed, opened)
        cold = [ratio for run in opened for ratio in idle(run, found.profile)]
        warm = [ratio for run in closed if run.name.startswith("cal-prefill") for ratio in idle(run, found.profile)]
        print(
            f"  first token on an idle engine, measured ÷ fitted: median {np.median(warm):.2f} in closed loops, "
            f"{np.median(cold):.2f} in open ones (n {len(warm)}, {len(cold)})"
        )
        pauses = np.array([pause for run in opened for pause in after_pauses(run, found.profile)])
        linked = np.corrcoef(pauses[:, 0], pauses[:, 1])[0, 1]
        print(f"  its excess in ms goes with the length of the pause before it: correlation {linked:.2f}")
        tell(
            "fitted on the open-loop runs instead",
            pooled_errors("", opened, fit(opened, found.profile, evaluations).profile),
        )
        for run in opened if len(opened) > 1 else ():
            others = [other for other in opened if other is not run]
            tell(
                f"{run.name}, fitted on the other open-loop run",
                pooled_errors("", [run], fit(others, found.profile, evaluations).profile),
            )


def waits(samples: Path, closed: list[EngineRun], opened: list[EngineRun]) -> None:
    """Seconds that threads were runnable without a core, per second with requests in flight (schedstat)."""
    with gzip.open(samples, "rt") as lines:
        last = {sample["run"]: sample for sample in map(json.loads, lines)}
    alone = [run for run in closed if run.name.startswith("cal-prefill")]
    for name, runs in (("closed loops of one", alone), ("closed loops", closed), ("open loops", opened)):
        busy = sum(in_flight(run) for run in runs)
        parts = [sum(last[run.name][column] for run in runs) / busy for column in ("main_wait_s", "wait_s")]
        print(f"  without a core, {name}: {parts[0]:.1%} of the time in flight (thread of steps), {parts[1]:.1%} (all)")


def in_flight(run: EngineRun) -> float:
    """Seconds in which any request was under way."""
    total = busy_until = 0.0
    for seen in run.seen:
        total += max(0.0, seen.ended_at - max(busy_until, seen.arrived_at))
        busy_until = max(busy_until, seen.ended_at)
    return total


def after_pauses(run: EngineRun, profile: EngineProfile) -> list[tuple[float, float]]:
    """(s since the engine had work, ms beyond the unloaded engine's first token), of those that found it idle."""
    found, busy_until = [], 0.0
    for seen in run.seen:
        if seen.arrived_at >= busy_until:
            excess = 1e3 * (seen.ttft - unloaded_ttft(profile, seen.prompt_tokens))
            found.append((seen.arrived_at - busy_until, excess))
        busy_until = max(busy_until, seen.ended_at)
    return found


def idle(run: EngineRun, profile: EngineProfile) -> list[float]:
    """Measured time to first token ÷ the unloaded engine's, of those that came while nothing was under way."""
    found, busy_until = [], 0.0
    for seen in run.seen:
        if seen.arrived_at >= busy_until:
            found.append(seen.ttft / unloaded_ttft(profile, seen.prompt_tokens))
        busy_until = max(busy_until, seen.ended_at)
    return found


def tell(what: str, errors: Errors) -> None:
    parts = []
    for name, figures in (("ttft", errors.ttft), ("itl", errors.itl)):
        for (level, theirs, ours), allowed in zip(figures, (P50, P90), strict=True):
            off = ours / theirs - 1.0
            word = "" if abs(off) <= allowed else f" (must be within {allowed:.0%})"
            parts.append(f"{name} P{100 * level:.0f} {1000 * theirs:.1f} → {1000 * ours:.1f} ms, {off:+.1%}{word}")
    print(f"  {what}, n {errors.num}: " + "; ".join(parts))


if __name__ == "__main__":
    main()

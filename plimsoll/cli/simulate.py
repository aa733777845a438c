"""`plimsoll simulate`: try a policy on traffic that has not come yet."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from plimsoll import __version__
from plimsoll.cli.crew import Crew, Stopped, Tell
from plimsoll.cli.options import FirstSeed, Jobs, PolicyFile, Rules, RunTime
from plimsoll.cli.output import print_json
from plimsoll.cli.simprogress import sim_progress
from plimsoll.cli.simulating import Task, policy_of, run_task, workload_of
from plimsoll.cli.summarytable import show
from plimsoll.errors import UsageError
from plimsoll.sim.simulation import EPOCH
from plimsoll.sim.summary import Run, summarise


def simulate(
    *,
    config: PolicyFile,
    workload: Annotated[Path, Parameter(help="Who comes when, with what: see docs/simulator.md.")],
    out: Annotated[Path, Parameter(help="Directory for results; must be new or empty.")],
    rules: Rules = "",
    duration: RunTime = 0.0,
    days: Annotated[float, Parameter(help="The same in days.")] = 0.0,
    seeds: Annotated[int, Parameter(help="How many runs with other dice; figures get their interval from them.")] = 1,
    first_seed: FirstSeed = 1,
    jobs: Jobs = 1,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print the summary as JSON.")] = False,
    tell_progress: Annotated[
        bool, Parameter(name="--progress", negative="", help="Tell how far it is in lines of JSON on stderr.")
    ] = False,
) -> None:
    """Run the live policy on a virtual clock, against engines modelled step by step.

    Leaves in --out a data directory as a gateway would (one per seed where there are several), which `plimsoll report`
    reads; summary.json with every figure and its interval; run.json with what the run itself took. Ctrl-C ends a run
    early and keeps what there is.

    Example: plimsoll simulate -c policy.yaml --workload week.yaml --days 1 --seeds 5 --jobs 2 --out day/
    """
    if seeds < 1 or jobs < 1 or days < 0:
        raise UsageError("simulate: --seeds and --jobs must be at least 1, --days must not be negative")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"simulate: {out} exists and is not an empty directory")
    tasks = [
        Task(
            config,
            workload,
            rules,
            duration or days * 86_400,
            seed,
            out if seeds == 1 else out / f"seed-{seed}",
            alone=seeds == 1,
        )
        for seed in range(first_seed, first_seed + seeds)
    ]
    policy = policy_of(tasks[0])
    load, left_out = workload_of(tasks[0], policy)
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    zone, start_at = policy.service.timezone, load.start_at or EPOCH
    with Crew(jobs) as crew, sim_progress(len(tasks), load.duration, start_at, zone) as progress:
        progress.tell_lines = tell_progress
        runs: dict[int, tuple[Run, float]] = {}
        for place, run in crew.run(_timed, tasks, progress.told):
            runs[place] = run
            progress.done(place)
    found = [runs[place][0] for place in sorted(runs)]
    cpu = time.process_time() if jobs == 1 else sum(spent for _, spent in runs.values())
    summary = summarise(found, policy.version, complete=len(found) == len(tasks), left_out=left_out)
    _write(out / "summary.json", msgspec.json.encode(summary))
    _write(out / "run.json", msgspec.json.encode(_cost(found, cpu, time.monotonic() - began)))
    if json_output:
        print_json(summary)
    else:
        show(summary)


def _timed(task: Task, tell: Tell, stopped: Stopped) -> tuple[Run, float]:
    """A run, and the CPU seconds that it took."""
    began = time.process_time()
    run = run_task(task, tell, stopped)
    return run, time.process_time() - began


def _cost(runs: list[Run], cpu: float, wall: float) -> dict[str, float | int | str]:
    """What the run itself took: it varies, and so has a file of its own."""
    num = sum(run.num_requests for run in runs)
    return {
        "plimsoll": __version__,
        "python": sys.version.split()[0],
        "num_requests": num,
        "cpu_s": cpu,
        "wall_s": wall,
    }


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(msgspec.json.format(data) + b"\n")

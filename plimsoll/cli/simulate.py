"""`plimsoll simulate`: try a policy on traffic that has not come yet."""

import resource
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from plimsoll import __version__
from plimsoll.cli.options import Seconds
from plimsoll.cli.simulating import Task, policy_of, run_quietly, run_task, workload_of
from plimsoll.errors import UsageError
from plimsoll.sim.summary import Estimate, GroupSummary, Run, Summary, summarise
from plimsoll.units import format_duration

WIDTH = 150
"""Columns where there is no terminal to ask."""


def simulate(
    *,
    config: Annotated[Path, Parameter(name=["--config", "-c"], help="The policy: the file that `serve` takes.")],
    workload: Annotated[Path, Parameter(help="Who comes when, with what: see docs/simulator.md.")],
    out: Annotated[Path, Parameter(help="Directory for results; must be new or empty.")],
    rules: Annotated[str, Parameter(help="Scheduling preset instead of the policy's own: default or fcfs.")] = "",
    duration: Annotated[Seconds, Parameter(help="Simulated time, e.g. 30min; default: the workload's own.")] = 0.0,
    days: Annotated[float, Parameter(help="The same in days.")] = 0.0,
    seeds: Annotated[int, Parameter(help="How many runs with other dice; figures get their interval from them.")] = 1,
    first_seed: Annotated[int, Parameter(help="Seed of the first run.")] = 1,
    jobs: Annotated[int, Parameter(help="Processes; results do not depend on it.")] = 1,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print the summary as JSON.")] = False,
) -> None:
    """Run the live policy on a virtual clock, against engines modelled step by step.

    Leaves in --out a data directory as a gateway would (one per seed where there are several), which `plimsoll report`
    reads; summary.json with every figure and its interval; run.json with what the run itself took. Ctrl-C ends a run
    early and keeps what there is.

    Example: plimsoll simulate -c policy.yaml --workload week.yaml --days 1 --seeds 5 --jobs 2 --out day/
    """
    if seeds < 1 or jobs < 1 or days < 0:
        raise UsageError("simulate: --seeds and --jobs must be at least 1, --days must not be negative")
    if not workload.is_file():
        raise UsageError(f"simulate: no workload file {workload}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"simulate: {out} exists and is not an empty directory")
    tasks = [
        Task(config, workload, rules, duration or days * 86_400, seed, out if seeds == 1 else out / f"seed-{seed}")
        for seed in range(first_seed, first_seed + seeds)
    ]
    policy = policy_of(tasks[0])
    length = workload_of(tasks[0]).duration
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with _interruptible() as stopping:
        runs = _all(tasks, jobs, length, stopping)
    summary = summarise(runs, policy.version, complete=len(runs) == len(tasks) and not stopping)
    _write(out / "summary.json", msgspec.json.encode(summary))
    _write(out / "run.json", msgspec.json.encode(_cost(runs, time.monotonic() - began)))
    if json_output:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary)).decode() + "\n")
    else:
        _show(summary)


def _all(tasks: list[Task], jobs: int, length: float, stopping: list[int]) -> list[Run]:
    """All runs, in the order of their seeds."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("simulating", total=length * len(tasks))
        if jobs > 1 and len(tasks) > 1:
            with ProcessPoolExecutor(jobs) as pool:
                return [_counted(run, progress, bar, length) for run in pool.map(run_quietly, tasks)]
        runs: list[Run] = []
        for number, task in enumerate(tasks):
            if stopping:
                break

            def told(at: float, num: int, before: float = number * length, seed: int = task.seed) -> None:
                text = f"seed {seed}: {format_duration(at)} simulated, {num:,} requests"
                progress.update(bar, completed=before + min(at, length), description=text)

            runs.append(run_task(task, told, lambda: bool(stopping)))
        return runs


def _counted(run: Run, progress: Progress, bar: object, length: float) -> Run:
    progress.update(bar, advance=length, description=f"seed {run.seed} done")  # type: ignore[arg-type]
    return run


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Ctrl-C is noted, not raised: the run ends at the next look."""
    stopping: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: stopping.append(number))
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)


def _cost(runs: list[Run], wall: float) -> dict[str, float | int | str]:
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime
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


def _show(summary: Summary) -> None:
    """The figures that are looked at first."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    if not summary.complete:
        console.print("[yellow]stopped early: these figures cover what was simulated by then[/]")
    table = Table(title=f"{format_duration(summary.simulated)} simulated, {len(summary.seeds)} seed(s)")
    for heading in ("who", "requests", "completed", "ttft p50", "ttft p99", "itl p99", "e2e p99", "goodput"):
        table.add_column(heading, justify="left" if heading == "who" else "right", no_wrap=True)
    for group in summary.groups:
        table.add_row(*_row(group))
    console.print(table)


def _row(group: GroupSummary) -> tuple[str, ...]:
    who = {"all": "all", "tier": f"tier {group.name}"}.get(group.kind, f"{group.name} ({group.tier})")
    num = sum(group.num)
    completed = sum(outcomes.get("completed", 0) for outcomes in group.outcomes)
    times = [_time(group.figures.get(name)) for name in ("ttft_p50", "ttft_p99", "itl_p99", "e2e_p99")]
    good = group.figures.get("goodput_ratio")
    ratio = "–" if good is None or good.mean is None else f"{good.mean:.1%}"
    return who, f"{num:,}", f"{completed / num:.1%}" if num else "–", *times, ratio


def _time(estimate: Estimate | None) -> str:
    if estimate is None or estimate.mean is None:
        return "–"  # too few for that quantile
    if estimate.low is None or estimate.high is None:
        return format_duration(estimate.mean)
    low, high = format_duration(max(0.0, estimate.low), 2), format_duration(estimate.high, 2)
    return f"{format_duration(estimate.mean)} ({low} – {high})"

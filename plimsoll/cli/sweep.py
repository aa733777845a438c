"""`plimsoll sweep`: a grid of policies or workloads, simulated to one table."""

import csv
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from plimsoll import __version__
from plimsoll.cli import workloads
from plimsoll.cli.crew import Crew
from plimsoll.cli.grid import Cell, axis_of, cells
from plimsoll.cli.options import FirstSeed, Jobs, PolicyFile, Rules, RunTime
from plimsoll.cli.output import print_json, terminal
from plimsoll.cli.simprogress import sim_progress
from plimsoll.cli.simulating import Task, policy_of, run_task, workload_of
from plimsoll.cli.summarytable import WIDTH, time_text
from plimsoll.errors import PlimsollError, UsageError
from plimsoll.policy.document import read
from plimsoll.sim.simulation import EPOCH
from plimsoll.sim.summary import GroupSummary, Run, Summary, summarise

RUNS = "runs.jsonl"


class Done(Struct, frozen=True):
    """A line of runs.jsonl: one run that came to its end, under a name made of all that it depends on."""

    key: str
    values: tuple[tuple[str, str], ...]
    run: Run


class Row(Struct, frozen=True):
    """One cell of the grid with its figures."""

    values: tuple[tuple[str, str], ...]
    summary: Summary


def sweep(
    *,
    config: PolicyFile,
    workload: Annotated[Path, Parameter(help="Who comes when, as `simulate` takes it.")],
    set_: Annotated[list[str], Parameter(name="--set", help="What to vary: tiers.gold.share=30%,50%; repeatable.")],
    out: Annotated[Path, Parameter(help="Directory for results; what is there already is not run again.")],
    rules: Rules = "",
    duration: RunTime = 0.0,
    seeds: Annotated[int, Parameter(help="Runs with other dice a cell; figures get their interval from them.")] = 3,
    first_seed: FirstSeed = 1,
    jobs: Jobs = 1,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print all figures as JSON.")] = False,
) -> None:
    """Simulate a grid of policies or workloads to one table; a stopped sweep goes on where it was.

    A path leads through keys and names: tiers.gold.share, tiers.gold.objectives.ttft.below, pools.chat.replicas (a
    number of them), pools.chat.overrides.speculation (what a pool's engines do otherwise than their profile says),
    tenants.acme.limits.concurrency, rules; and workload.tenants.acme.rate in the workload file.
    Several --set make a grid. Leaves runs.jsonl (one line a run) and table.csv in --out; all cells have the same dice.

    Example: plimsoll sweep -c policy.yaml --workload w.yaml --set tiers.gold.share=30%,50%,70% --out shares/ --jobs 2
    """
    if seeds < 1:
        raise UsageError("sweep: --seeds must be at least 1")
    if out.exists() and not out.is_dir():
        raise UsageError(f"sweep: {out} is not a directory")
    grid = list(cells([axis_of(text) for text in set_], read(config), workloads.text_of(workload), rules))
    tasks = [
        (cell, Task(config, workload, cell.rules, duration, seed, None, cell.policy_text, cell.workload_text))
        for cell in grid
        for seed in range(first_seed, first_seed + seeds)
    ]
    for cell, task in tasks[::seeds]:  # every cell is looked at before the first is run
        _checked(cell, task)
    out.mkdir(parents=True, exist_ok=True)
    done = _run(tasks, out / RUNS, jobs)
    rows = _rows(grid, tasks, done)
    _write_table(out / "table.csv", rows)
    if json_output:
        print_json(rows)
    else:
        _show(rows, len(tasks) - len(done))


def _checked(cell: Cell, task: Task) -> None:
    try:
        policy = policy_of(task)
        workloads.profiles_of(policy, workload_of(task, policy)[0])
    except PlimsollError as error:
        told = ", ".join(f"{path}={value}" for path, value in cell.values)
        raise UsageError(f"sweep: with {told}: {error}") from error


def _key(cell: Cell, task: Task) -> str:
    parts = (cell.policy_text, cell.workload_text, cell.rules, str(task.duration), str(task.seed), __version__)
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def _run(tasks: Sequence[tuple[Cell, Task]], path: Path, jobs: int) -> dict[str, Run]:
    """All runs by key, those found in the file first; each is written there as it ends."""
    done = {each.key: each.run for each in _found(path)}
    left = [(cell, task) for cell, task in tasks if _key(cell, task) not in done]
    if not left:
        return done
    policy = policy_of(left[0][1])
    load, _ = workload_of(left[0][1], policy)
    zone, start_at = policy.service.timezone, load.start_at or EPOCH
    with (
        path.open("ab") as file,
        Crew(jobs) as crew,
        sim_progress(len(left), load.duration, start_at, zone, f"{len(left)} runs: ") as progress,
    ):
        for place, run in crew.run(run_task, [task for _, task in left], progress.told):
            progress.done(place)
            if run.complete:
                cell, task = left[place]
                file.write(msgspec.json.encode(Done(_key(cell, task), cell.values, run)) + b"\n")
                file.flush()
                done[_key(cell, task)] = run
    return done


def _found(path: Path) -> Iterable[Done]:
    """The runs of an earlier call; a last line that was cut off is left out, and cut away."""
    if not path.exists():
        return []
    found, good = [], 0
    with path.open("rb") as file:
        for line in file:
            try:
                found.append(msgspec.json.decode(line, type=Done))
            except msgspec.DecodeError:
                break
            good += len(line)
    if good < path.stat().st_size:
        with path.open("rb+") as file:
            file.truncate(good)
    return found


def _rows(grid: Sequence[Cell], tasks: Sequence[tuple[Cell, Task]], done: dict[str, Run]) -> list[Row]:
    """One row a cell of which any run has ended."""
    rows = []
    for cell, group in groupby(tasks, key=lambda pair: pair[0]):
        pairs = list(group)
        runs = [done[_key(cell, task)] for cell, task in pairs if _key(cell, task) in done]
        if runs:
            policy = policy_of(pairs[0][1])
            rows.append(Row(cell.values, summarise(runs, policy.version, complete=len(runs) == len(pairs))))
    return rows if grid else []


def _write_table(path: Path, rows: Sequence[Row]) -> None:
    """One line a cell, group and figure: long, as tables of figures are best read by other programs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        paths = [path for path, _ in rows[0].values] if rows else []
        writer.writerow([*paths, "seeds", "kind", "name", "tier", "figure", "mean", "low", "high", "n"])
        for row in rows:
            values = [value for _, value in row.values]
            for group in row.summary.groups:
                for name, each in group.figures.items():
                    bounds = ["" if value is None else repr(value) for value in (each.mean, each.low, each.high)]
                    head = [*values, len(row.summary.seeds), group.kind, group.name, group.tier, name]
                    writer.writerow([*head, *bounds, "" if each.num is None else each.num])


def _show(rows: Sequence[Row], num_left: int) -> None:
    console = terminal(WIDTH)
    if num_left:
        console.print(f"[yellow]stopped early: {num_left} runs are left; the same command goes on with them[/]")
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for path, _ in rows[0].values:
        table.add_column(path, no_wrap=True)
    tiers = [group for group in rows[0].summary.groups if group.kind == "tier"]
    table.add_column("goodput", justify="right", no_wrap=True)
    for tier in tiers:
        table.add_column(f"{tier.name}: good", justify="right", no_wrap=True)
        table.add_column("ttft p99", justify="right", no_wrap=True)
    table.add_column("objectives missed", no_wrap=True)
    for row in rows:
        groups = {(group.kind, group.name): group for group in row.summary.groups}
        cells_of = [_ratio(groups.get(("all", "all")))]
        for tier in tiers:
            group = groups.get(("tier", tier.name))
            cells_of += [_ratio(group), time_text(group.figures.get("ttft_p99") if group else None)]
        table.add_row(*[escape(value) for _, value in row.values], *cells_of, _missed(row.summary))
    console.print(table)
    console.print("[dim]good: requests that met every objective of their tier ÷ all; ( ) 95 % over seeds[/]")


def _ratio(group: GroupSummary | None) -> str:
    each = group.figures.get("goodput_ratio") if group else None
    if each is None or each.mean is None:
        return "–"
    if each.low is None or each.high is None:
        return f"{each.mean:.1%}"
    return f"{each.mean:.1%} (±{(each.high - each.low) / 2:.1%})"


def _missed(summary: Summary) -> str:
    """Promises to tenants that were not kept on the mean of the seeds: their budgets are overspent."""
    missed = [
        f"{group.name} {name.removeprefix('budget_spent_ratio:')}"
        for group in summary.groups
        if group.kind == "tenant"
        for name, each in group.figures.items()
        if name.startswith("budget_spent_ratio:") and each.mean is not None and each.mean > 1.0
    ]
    return f"[red]{escape(', '.join(missed))}[/]" if missed else "[green]none[/]"

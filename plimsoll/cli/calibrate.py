"""`plimsoll calibrate`: an engine profile from what was measured."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from plimsoll.cli.output import Terminal, print_json, terminal, write_text
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.errors import UsageError
from plimsoll.policy.yamltext import compact
from plimsoll.sim.enginefit import Errors, Fit, fit, pooled_errors
from plimsoll.sim.replaying import EngineRun, Seen
from plimsoll.sim.stepfit import StepFit, StepTiming, fit_steps
from plimsoll.storage.engineruns import Served, served
from plimsoll.storage.steptimings import holds_timings, timings
from plimsoll.units import format_duration

WIDTH = 120
_DEFAULT = EngineProfile("", "", StepCoefficients(a=1.0), StepCoefficients(a=1.0))
_SETTINGS = ("block_size", "num_blocks", "max_num_seqs", "max_batched_tokens", "max_context")


def calibrate(
    source: Path,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="Where the profile goes (YAML).")],
    like: Annotated[str, Parameter(help="Profile whose scheduler settings, KV size and model it takes.")] = "",
    set_: Annotated[list[str] | None, Parameter(name="--set", help="One setting: max_num_seqs=8. Repeatable.")] = None,
    runs: Annotated[str, Parameter(help="Only runs of such names: cal-*. The others are predicted.")] = "*",
    leave_out: Annotated[list[str] | None, Parameter(help="Runs to leave out altogether. Repeatable.")] = None,
    where: Annotated[list[str] | None, Parameter(help="Only timings so marked: model=llama2-70b. Repeatable.")] = None,
    evaluations: Annotated[int, Parameter(help="How often the runs are played while searching.")] = 300,
    json_output: Annotated[
        bool, Parameter(name="--json", negative="", help="Print fit and residuals as JSON.")
    ] = False,
) -> None:
    """Fit an engine profile to a request log or to step timings, and print how well it fits.

    SOURCE is a request log with arrival, lengths, time to first token and token instants (JSON lines), a bench's CSV, a
    data directory of a gateway, or a table of step timings. A log is fitted by playing its runs on the engine model;
    closed loops are played closed. Runs that --runs does not name are predicted, which shows what the fit is worth.
    What the measurements cannot tell is refused, and the profile says how far they reached.

    Example: plimsoll calibrate engine.jsonl --like tiny-vllm-cpu --runs "cal-[dmp][eri]*" -o mine.yaml
    """
    if evaluations < 20:
        raise UsageError("calibrate: --evaluations must be at least 20")
    if out.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"calibrate: {out} must end in .yaml")
    base = _base(like, out.stem, set_ or [])
    if holds_timings(source):
        found: Fit | StepFit = fit_steps([StepTiming(*each) for each in timings(source, _pairs(where or []))], base)
        predicted: list[Errors] = []
    else:
        chosen, others = _chosen(engine_runs(served(source)), runs, leave_out or [])
        found = _fitted(chosen, base, evaluations)
        predicted = [pooled_errors(run.name, [run], found.profile) for run in others]
        predicted += [pooled_errors("all predicted", others, found.profile)] if len(others) > 1 else []
    text = _yaml(found.profile, _provenance(source, found))
    profiles.parse(text, str(out))  # nothing is left that could not be used
    write_text(out, text)
    if json_output:
        data = {"fit": found, "predicted": predicted}
        print_json(data)
    else:
        _show(found, predicted, out)


def engine_runs(rows: Iterable[Served]) -> list[EngineRun]:
    """Rows by run, each in order of arrival."""
    by_run: dict[str, list[Served]] = {}
    for row in rows:
        by_run.setdefault(row.run, []).append(row)
    return [
        EngineRun(
            name or "all",
            tuple(
                Seen(
                    each.arrived_at,
                    each.prompt_tokens,
                    each.output_tokens,
                    each.ttft,
                    each.gaps,
                    each.arrived_at + each.e2e,
                    each.tpot,
                )
                for each in sorted(group, key=lambda row: row.arrived_at)
            ),
        )
        for name, group in by_run.items()
    ]


def _chosen(
    found: Sequence[EngineRun], names: str, leave_out: Sequence[str]
) -> tuple[list[EngineRun], list[EngineRun]]:
    left = [run for run in found if not any(fnmatch(run.name, name) for name in leave_out)]
    chosen = [run for run in left if any(fnmatch(run.name, name) for name in names.split(","))]
    if not chosen:
        raise UsageError(f"calibrate: no run is named {names}; there are {', '.join(run.name for run in found)}")
    return chosen, [run for run in left if run not in chosen]


def _fitted(chosen: Sequence[EngineRun], base: EngineProfile, evaluations: int) -> Fit:
    console = Terminal(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("fitting", total=evaluations)
        best = [float("inf")]

        def told(num: int, loss: float) -> None:
            best[0] = min(best[0], loss)
            off = f", off by {best[0]:.1%}" if best[0] < float("inf") else ""
            progress.update(bar, completed=num, description=f"played {num} times{off}")

        return fit(chosen, base, evaluations, told)


def _base(like: str, name: str, settings: Sequence[str]) -> EngineProfile:
    base = msgspec.structs.replace(profiles.load(like) if like else _DEFAULT, name=name)
    changed: dict[str, int] = {}
    for key, value in _pairs(settings).items():
        if key not in _SETTINGS or not value.isdecimal():
            raise UsageError(f"--set {key}={value}: write a whole number for one of {', '.join(_SETTINGS)}")
        changed[key] = int(value)
    return msgspec.structs.replace(base, **changed)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for text, (key, equals, value) in zip(texts, pairs, strict=True):
        if not (key and equals and value):
            raise UsageError(f"{text}: write it as name=value")
    return {key: value for key, _, value in pairs}


def _provenance(source: Path, found: Fit | StepFit) -> str:
    if isinstance(found, StepFit):
        parts = ", ".join(
            f"{part.num} {part.kind} steps (median error {part.median_error:.1%})" for part in found.parts
        )
        return f"plimsoll calibrate {source.name}: {parts}"
    num = sum(errors.num for errors in found.errors)
    return f"plimsoll calibrate {source.name}: {num} requests of {len(found.errors)} runs, off by {found.loss:.1%}"


def _yaml(profile: EngineProfile, provenance: str) -> str:
    """The profile as people read it: coefficients first, nothing that is as by default."""
    data: dict[str, Any] = {"name": profile.name, "source": provenance}
    for part in ("decode", "mixed"):
        values: StepCoefficients = getattr(profile, part)
        data[part] = {
            name: float(f"{getattr(values, name):.6g}")
            for name in StepCoefficients.__struct_fields__
            if getattr(values, name)
        }
    if profile.frontend:
        data["frontend"] = float(f"{profile.frontend:.6g}")
    plain = msgspec.to_builtins(profile)
    default = msgspec.to_builtins(_DEFAULT)
    data |= {key: value for key, value in plain.items() if key not in data and value != default[key]}
    data |= {key: plain[key] for key in _SETTINGS}
    return compact(data, "Seconds; the symbols are explained in plimsoll/engine/steptime.py.", 200)


def _show(found: Fit | StepFit, predicted: Sequence[Errors], out: Path) -> None:
    console = terminal(WIDTH)
    profile = found.profile
    for kind in ("decode", "mixed"):
        values: StepCoefficients = getattr(profile, kind)
        told = ", ".join(
            f"{name} {getattr(values, name):.3g}"
            for name in StepCoefficients.__struct_fields__
            if getattr(values, name)
        )
        console.print(f"[bold]{kind} step[/]: {told} [dim](s)[/]", soft_wrap=True)
    if profile.frontend:
        console.print(f"[bold]frontend[/]: {format_duration(profile.frontend)} a request")
    if isinstance(found, StepFit):
        for part in found.parts:
            untold = f"; not told apart, taken as 0: {', '.join(part.untold)}" if part.untold else ""
            console.print(
                f"{part.kind}: {part.num} timings, error median {part.median_error:.1%}, P90 {part.p90_error:.1%}, "
                f"worst {part.worst_error:.1%}{untold}", soft_wrap=True
            )  # fmt: skip
    else:
        console.print(f"off by {found.loss:.1%} on the mean, after {found.num_evaluations} trials")
        console.print(_table("fitted on", found.errors))
        if predicted:
            console.print(_table("predicted", predicted))
    reach = f"{profile.fitted_max_tokens:,} tokens in a step and {profile.fitted_max_context:,} of context"
    console.print(f"{out} holds up to {reach}: beyond is extrapolation", soft_wrap=True)


def _table(title: str, errors: Sequence[Errors]) -> Table:
    """Measured → modelled, and the error."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True)
    for heading in ("n", "ttft p50", "ttft p90", "itl p50", "itl p90"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in errors:
        figures = [_figure(*values) for values in (*each.ttft, *each.itl)]
        table.add_row(each.name, str(each.num), *figures, *["–"] * (4 - len(figures)))
    return table


def _figure(_level: float, theirs: float, ours: float) -> str:
    off = ours / theirs - 1.0 if theirs > 0 else float("inf")
    colour = "green" if abs(off) <= 0.1 else "yellow" if abs(off) <= 0.2 else "red"
    return f"{format_duration(theirs)} [{colour}]{off:+.0%}[/]"

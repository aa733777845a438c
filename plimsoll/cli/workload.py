"""`plimsoll workload`: learn how tenants behave, or look at what a workload file says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from cyclopts import Parameter
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.cli import workloads
from plimsoll.cli.output import print_json, terminal, write_text
from plimsoll.errors import TraceError, UsageError
from plimsoll.policy.yamltext import compact
from plimsoll.sim.learning import FEWEST, Behaviour, Learnt, behaviour, burstiness_of, learn
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage import traces
from plimsoll.storage.tracerow import TraceRow
from plimsoll.units import format_duration

WIDTH: Final = 120
_SEED: Final = 1
_LEVELS: Final = (0.5, 0.9, 0.99)
_LENGTHS: Final = ("prompt p50 / p90 / p99", "output p50 / p90 / p99")


class Likeness(Struct, frozen=True):
    """One tenant in the log and as drawn from what was learnt of it: (log, drawn) of each figure."""

    tenant: str
    num: tuple[int, int]
    rate_error: float  # the mean over spans of |drawn − log| ÷ log, where the log has 30 requests or more
    chance_error: float  # the same that luck alone makes in Poisson counts of those sizes
    burstiness: tuple[float, float]
    prompt: tuple[tuple[float, float], ...]  # at P50, P90, P99
    output: tuple[tuple[float, float], ...]
    correlation: tuple[float, float]


def workload(
    action: Literal["learn", "show"],
    source: Path,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="learn: where the workload file goes.")] = None,
    tenant: Annotated[str, Parameter(help="learn: whose the requests are that name nobody.")] = "all",
    model: Annotated[str, Parameter(help="learn: the model they ask for; default: the policy's first.")] = "",
    leave_out_faulty: Annotated[bool, Parameter(negative="", help="learn: leave out rows that break a rule.")] = False,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print as JSON.")] = False,
) -> None:
    """Learn a workload file from a request log or trace, or show what traffic a workload file makes.

    `learn` finds each tenant's rate over time, burstiness and lengths, writes them as a workload file, draws traffic
    from that and prints how like the log it is. `show` draws the traffic of a file and tells who sends how much.

    Example: plimsoll workload learn data/ -o learnt.yaml
    """
    if action == "show":
        _describe(workloads.load(source)[0], json_output=json_output)
        return
    if out is None:
        raise UsageError("workload learn: say where the workload file goes: -o w.yaml")
    left_out: list[TraceError] = []
    rows = list(traces.read(source, left_out.append if leave_out_faulty else None))
    named = [row if row.tenant else msgspec.structs.replace(row, tenant=tenant) for row in rows]
    found = learn(named)
    if not found.tenants:
        raise UsageError(f"workload learn: {len(rows)} requests; at least {FEWEST} of a tenant are needed")
    text = text_of(found, source.name, model)
    alike = likeness(found, named, parse(text, str(out)))
    write_text(out, text)
    if json_output:
        print_json(alike)
        return
    _show(found, alike, out)
    if left_out:
        Console(highlight=False).print(
            f"[yellow]left out[/] {len(left_out):,} rows, the first: {escape(str(left_out[0]))}"
        )


def text_of(found: Learnt, source: str, model: str) -> str:
    """A workload file, readable and complete."""
    data: dict[str, Any] = {"duration": _duration(found.duration)}
    if model:
        data["model"] = model
    data["tenants"] = [_tenant(each) for each in found.tenants]
    told = [f"Learnt from {source}: {sum(each.num for each in found.tenants)} requests."]
    told += [f"Not in here: {note}." for note in found.notes]
    told += [f"Left out: {name}, {num} requests are too few." for name, num in found.too_few]
    return compact(data, "\n".join(told))


def _tenant(each: Behaviour) -> dict[str, Any]:
    rates = [float(f"{rate:.5g}") for rate in each.rates]
    tenant: dict[str, Any] = {"name": each.tenant, "rate": rates[0], "burstiness": float(f"{each.burstiness:.4g}")}
    tenant["prompt"] = {"quantiles": _quantiles(each.prompt)}
    tenant["output"] = {"quantiles": _quantiles(each.output)}
    tenant["correlation"] = f"{100 * each.correlation:.1f}%"
    changes = [
        {"at": _duration(number * each.span), "rate": rate}
        for number, rate in enumerate(rates)
        if number and rate != rates[number - 1]
    ]
    if changes:
        tenant["changes"] = changes
    if each.cause:
        tenant["cause"] = each.cause
    if each.criticality:
        tenant["criticality"] = each.criticality
    return tenant


def _quantiles(table: Sequence[tuple[float, float]]) -> dict[str, int]:
    return {f"{100 * level:g}%": int(tokens) for level, tokens in table}


def _duration(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def likeness(found: Learnt, rows: Sequence[TraceRow], load: Workload) -> list[Likeness]:
    """Traffic drawn from the file beside the log."""
    drawn: dict[str, list[TraceRow]] = {}
    for arrival in load.arrivals(_SEED):
        row = TraceRow(arrival.at, arrival.prompt_tokens, arrival.output_tokens, tenant=arrival.tenant)
        drawn.setdefault(arrival.tenant, []).append(row)
    alike = []
    for each in found.tenants:
        log = [row for row in rows if row.tenant == each.tenant]
        alike.append(_alike(each, log, drawn.get(each.tenant, []), found.duration))
    return alike


def _alike(each: Behaviour, log: list[TraceRow], drawn: list[TraceRow], duration: float) -> Likeness:
    again = behaviour(each.tenant, drawn, duration) if drawn else each
    pairs = [
        (a * each.span, b * each.span) for a, b in zip(each.rates, again.rates, strict=True) if a * each.span >= 30
    ]
    errors = [abs(b - a) / a for a, b in pairs]
    luck = [(2 * each.burstiness / np.pi / a) ** 0.5 for a, _ in pairs]  # mean |error| of a normal count
    at = np.array([row.at for row in drawn])
    return Likeness(
        tenant=each.tenant,
        num=(len(log), len(drawn)),
        rate_error=float(np.mean(errors)) if errors else 0.0,
        chance_error=float(np.mean(luck)) if luck else 0.0,
        burstiness=(each.burstiness, burstiness_of(at, np.array(each.rates), each.span) if len(at) > 1 else 1.0),
        prompt=_pairs([row.prompt_tokens for row in log], [row.prompt_tokens for row in drawn]),
        output=_pairs([row.output_tokens for row in log], [row.output_tokens for row in drawn]),
        correlation=(each.correlation, again.correlation),
    )


def _pairs(log: Sequence[int], drawn: Sequence[int]) -> tuple[tuple[float, float], ...]:
    if not drawn:
        return ()
    return tuple((float(np.quantile(log, q)), float(np.quantile(drawn, q))) for q in _LEVELS)


def _show(found: Learnt, alike: Sequence[Likeness], out: Path) -> None:
    console = terminal(WIDTH)
    console.print(f"Learnt {len(found.tenants)} tenants over {format_duration(found.duration)}; drawn from {out}:")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    headings = (
        "tenant",
        "",
        "requests",
        "rate off by",
        "burstiness",
        "prompt p50 / p90 / p99",
        "output p50 / p90 / p99",
    )
    for heading in (*headings, "correlation"):
        table.add_column(heading, justify="left" if heading in {"tenant", ""} else "right", no_wrap=True)
    for each in alike:
        for side, word in enumerate(("log", "drawn")):
            off = "" if side == 0 else f"{each.rate_error:.1%} (luck {each.chance_error:.1%})"
            lengths = [" / ".join(f"{pair[side]:,.0f}" for pair in pairs) for pairs in (each.prompt, each.output)]
            name = escape(each.tenant) if side == 0 else ""
            figures = (
                f"{each.num[side]:,}",
                off,
                f"{each.burstiness[side]:.2f}",
                *lengths,
                f"{each.correlation[side]:.2f}",
            )
            table.add_row(name, word, *figures)
    console.print(table)
    for note in found.notes:
        console.print(f"[dim]not in the profile: {escape(note)}[/]", soft_wrap=True)
    for name, num in found.too_few:
        console.print(f"[yellow]left out[/] {escape(name)}: {num} requests are too few", soft_wrap=True)


class Sent(Struct, frozen=True):
    """What one tenant of a workload sends."""

    tenant: str
    num: int
    rate: float  # requests a second over the whole duration
    busiest: float  # in the busiest twentieth of it
    prompt: tuple[float, ...]  # tokens at P50, P90, P99
    output: tuple[float, ...]
    tokens_per_second: float


def _describe(load: Workload, *, json_output: bool) -> None:
    sent: dict[str, list[tuple[float, int, int]]] = {}
    for arrival in load.arrivals(_SEED):
        sent.setdefault(arrival.tenant, []).append((arrival.at, arrival.prompt_tokens, arrival.output_tokens))
    found = [_sent(name, sent.get(name, []), load.duration) for name in load.names]
    if json_output:
        print_json(found)
        return
    console = terminal(WIDTH)
    table = Table(
        title=f"{format_duration(load.duration)}, seed {_SEED}", title_justify="left", box=None, pad_edge=False
    )
    for heading in (
        "tenant",
        "requests",
        "a second",
        "busiest",
        "prompt p50 / p90 / p99",
        "output p50 / p90 / p99",
        "tokens/s",
    ):
        table.add_column(heading, justify="left" if heading == "tenant" else "right", no_wrap=True)
    for each in found:
        lengths = [" / ".join(f"{value:,.0f}" for value in values) or "–" for values in (each.prompt, each.output)]
        figures = (
            f"{each.num:,}",
            f"{each.rate:.3g}",
            f"{each.busiest:.3g}",
            *lengths,
            f"{each.tokens_per_second:,.0f}",
        )
        table.add_row(escape(each.tenant), *figures)
    console.print(table)


def _sent(name: str, rows: Sequence[tuple[float, int, int]], duration: float) -> Sent:
    if not rows:
        return Sent(name, 0, 0.0, 0.0, (), (), 0.0)
    at, prompts, outputs = (np.array(values) for values in zip(*rows, strict=True))
    counts = np.histogram(at, bins=20, range=(0.0, duration))[0]
    prompt, output = (tuple(np.quantile(values, _LEVELS).tolist()) for values in (prompts, outputs))
    tokens = float(prompts.sum() + outputs.sum()) / duration
    return Sent(name, len(rows), len(rows) / duration, float(counts.max()) * 20 / duration, prompt, output, tokens)

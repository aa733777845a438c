"""`plimsoll workload`: learn how tenants behave, or look at what a workload file says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from cyclopts import Parameter
from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from plimsoll.cli import workloads
from plimsoll.cli.output import Terminal, print_json, terminal, write_text
from plimsoll.cli.workloadtable import WIDTH, show
from plimsoll.errors import TraceError, UsageError
from plimsoll.policy.yamltext import compact
from plimsoll.sim.learning import FEWEST, Behaviour, Learnt, learn
from plimsoll.sim.likeness import LEVELS, likeness
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage import traces
from plimsoll.units import format_duration

SEED: Final = 1


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
    alike = likeness(found, named, parse(text, str(out)), SEED)
    write_text(out, text)
    if json_output:
        print_json(alike)
        return
    show(found, alike, out)
    if left_out:
        Terminal(highlight=False).print(
            f"[yellow]left out[/] {len(left_out):,} rows, the first: {escape(str(left_out[0]))}"
        )


def text_of(found: Learnt, source: str, model: str) -> str:
    """A workload file, readable and complete."""
    data: dict[str, Any] = {"duration": _duration(found.duration)}
    if model:
        data["model"] = model
    data["tenants"] = [_tenant(each) for each in found.tenants]
    told = [f"Learnt from {source}: {sum(each.num for each in found.tenants)} requests."]
    told += [f"{each.tenant}: {note}." for each in found.tenants for note in each.untold]
    told += [f"Left out: {name}, {num} requests are too few." for name, num in found.too_few]
    return compact(data, "\n".join(told))


def _tenant(each: Behaviour) -> dict[str, Any]:
    rates = [float(f"{rate:.5g}") for rate in each.rates]
    tenant: dict[str, Any] = {"name": each.tenant, "rate": rates[0], "burstiness": float(f"{each.burstiness:.4g}")}
    tenant["prompt"] = {"quantiles": _quantiles(each.prompt)}
    if each.turns:
        tenant["prompt"]["most"] = each.longest
        tenant["turns"] = {"quantiles": _quantiles(each.turns)}
        tenant["think"] = {"quantiles": _times(each.think)}
        tenant["followup"] = {"quantiles": _quantiles(each.followup)}
    if each.beginning.tokens:
        tenant |= {"shared_tokens": each.beginning.tokens, "variants": each.beginning.variants}
    tenant["output"] = {"quantiles": _quantiles(each.output)}
    tenant["correlation"] = f"{100 * each.correlation:.1f}%"
    changes = [
        {"at": _duration(number * each.span), "rate": rate}
        for number, rate in enumerate(rates)
        if number and rate != rates[number - 1]
    ]
    if changes:
        tenant["changes"] = changes
    if each.upstream:
        tenant["upstream"] = {"quantiles": _times(each.upstream)}
    return tenant | {key: word for key in ("cause", "criticality") if (word := getattr(each, key))}


def _quantiles(table: Sequence[tuple[float, float]]) -> dict[str, int]:
    return {f"{100 * level:.6g}%": int(tokens) for level, tokens in table}


def _times(table: Sequence[tuple[float, float]]) -> dict[str, str]:
    return {f"{100 * level:.6g}%": _duration(max(0.001, seconds)) for level, seconds in table}


def _duration(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


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
    for arrival in load.arrivals(SEED):
        sent.setdefault(arrival.tenant, []).append((arrival.at, arrival.prompt_tokens, arrival.output_tokens))
    found = [_sent(name, sent.get(name, []), load.duration) for name in load.names]
    if json_output:
        print_json(found)
        return
    console = terminal(WIDTH)
    table = Table(
        title=f"{format_duration(load.duration)}, seed {SEED}", title_justify="left", box=None, pad_edge=False
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
    prompt, output = (tuple(np.quantile(values, LEVELS).tolist()) for values in (prompts, outputs))
    tokens = float(prompts.sum() + outputs.sum()) / duration
    return Sent(name, len(rows), len(rows) / duration, float(counts.max()) * 20 / duration, prompt, output, tokens)

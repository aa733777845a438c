"""Diagnoses and explanations as text on a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.console.figuretext import instant_text
from plimsoll.diagnosis.case import Cause
from plimsoll.diagnosis.explain import Explanation
from plimsoll.diagnosis.findings import Findings, Matrix, TenantFindings
from plimsoll.units import format_count, format_duration

MAX_COLUMNS = 10
"""Culprits shown in the matrix, those that cost most."""


def show_findings(found: Findings, zone: str, console: Console) -> None:
    """The three steps: the matrix of all, then each tenant."""
    console.print(f"[bold]{escape(found.source)}[/]: {format_count(found.num)} requests")
    if not found.num:
        console.print("No request ended in this window.")
        return
    first, last = instant_text(found.first_arrival, zone), instant_text(found.last_arrival, zone)
    unknown = "" if found.unknown_ratio is None else f"; {found.unknown_ratio:.1%} of all time is explained by nothing"
    console.print(f"{first} to {last}{unknown}\n")
    console.print("[bold]Who waited for whose requests[/] (s; bold: more than half)")
    console.print(_matrix(found.crowding))
    if not found.tenants:
        console.print(
            "No tenant missed an objective: there is nothing to explain. Name one with --tenant to look at it."
        )
    for tenant in found.tenants:
        _show_tenant(tenant, zone, console)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for i, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _matrix(matrix: Matrix) -> Table:
    sums = [sum(row[j] for row in matrix.seconds) for j in range(len(matrix.culprits))]
    shown = sorted(sorted(range(len(sums)), key=lambda j: -sums[j])[:MAX_COLUMNS])
    table = _table("", *(matrix.culprits[j] for j in shown), "in all")
    for name, row in zip(matrix.victims, matrix.seconds, strict=True):
        total = sum(row)
        cells = [f"[bold]{row[j]:,.1f}[/]" if row[j] > total / 2 and total > 1.0 else f"{row[j]:,.1f}" for j in shown]
        table.add_row(escape(name), *cells, f"{total:,.1f}")
    return table


def _show_tenant(found: TenantFindings, zone: str, console: Console) -> None:
    missed = f"{format_count(found.num_bad)} of {format_count(found.num)} requests missed an objective"
    console.print(f"\n[bold]{escape(found.tenant)}[/]: {missed}")
    crowd = ", ".join(f"{escape(name)} {share:.0%}" for name, share in list(found.waited_for.items())[:4])
    console.print(f"  space  {'waited more for ' + crowd if crowd else 'nobody kept it waiting'}")
    console.print(f"  time   {_when(found, zone)}")
    if found.excess:
        than = {"before": "like ones before", "fine": "like ones that were fine"}.get(found.compared, "nothing")
        more = ", ".join(f"{each.part} {each.seconds:+.2f} s ({each.how})" for each in found.excess[:5])
        console.print(f"  parts  {found.num_slow} slow requests against {than}: {more}")
    if found.longer > 0.01:
        console.print(f"         and {found.longer:.2f} s for being longer than usual")
    console.print(f"  cause  {found.mechanism.value}")
    for cause in found.causes[:3]:
        _show_cause(cause, console)
    if not found.causes:
        console.print("         no root cause is likely enough to be named")
    for note in found.notes:
        console.print(f"         [dim]{escape(note)}[/]")


def _when(found: TenantFindings, zone: str) -> str:
    if found.since is None:
        return "no change of the share of missed objectives within this window"
    end = "to now" if found.until is None else f"to {instant_text(found.until, zone)}"
    change = next(each for each in found.changes if each.at == found.since)
    return (
        f"worse from {instant_text(found.since, zone)} {end}: {change.before.ratio:.1%} → {change.after.ratio:.1%} "
        f"({change.after.low:.1%} to {change.after.high:.1%})"
    )


def _show_cause(cause: Cause, console: Console) -> None:
    subject = f" by {escape(cause.subject)}" if cause.subject else ""
    console.print(f"         [bold]{cause.kind.value}[/]{subject}, likelihood {cause.likelihood:.0%}")
    for text in cause.evidence:
        console.print(f"           + {escape(text)}")
    for text in cause.against:
        console.print(f"           − {escape(text)}")
    console.print(f"           → {escape(cause.remedy)}")
    console.print(f"           try: {escape(cause.try_it)}")


def show_explanation(found: Explanation, zone: str, console: Console) -> None:
    """One screen."""
    where = f" on {escape(found.replica)} (pool {escape(found.pool)})" if found.replica else ""
    console.print(
        f"[bold]{found.request}[/] of {escape(found.tenant)} ({escape(found.tier)}), {escape(found.model)}{where}"
    )
    console.print(f"{instant_text(found.arrived_at, zone)}, {found.outcome} ({found.reason})")
    for broken in found.broke:
        console.print(f"[red]missed {escape(broken)}[/]")
    if not found.broke:
        console.print("[green]missed no objective[/]")
    timeline = _table("after", "what")
    timeline.columns[1].justify = "left"
    for moment in found.timeline:
        timeline.add_row(f"{moment.after:+.3f} s", escape(moment.what))
    console.print("[bold]What happened[/]")
    console.print(timeline)
    parts = _table("part", "time", "share", "how it is known")
    for each in found.parts:
        parts.add_row(each.part, format_duration(each.seconds), f"{each.share:.1%}", each.how)
    if found.parts:
        console.print(f"[bold]Where {format_duration(found.total)} went[/]")
        console.print(parts)
    if found.waited_for:
        waited = ", ".join(f"{escape(name)} {format_duration(s)}" for name, s in found.waited_for.items())
        console.print(f"Waited because of: {waited}.")
    if found.replica:
        console.print(f"Replica then: {found.replica_then}.")
    for text in found.told:
        console.print(f"{escape(text[0].upper() + text[1:])}.")
    if found.neighbours:
        beside = _table("request", "tenant", "prompt", "output", "together")
        for neighbour in found.neighbours:
            beside.add_row(
                neighbour.request,
                escape(neighbour.tenant),
                format_count(neighbour.prompt_tokens),
                format_count(neighbour.output_tokens),
                format_duration(neighbour.together),
            )
        console.print("[bold]Beside it, longest first[/]")
        console.print(beside)
    for note in found.notes:
        console.print(f"[dim]{escape(note)}[/]")

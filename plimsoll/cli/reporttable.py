"""A report as tables on a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.figures import GroupFigures, LatencyFigure, ObjectiveFigure, Report
from plimsoll.console.figuretext import (
    UNKNOWN,
    attained_text,
    budget_text,
    count_text,
    instant_text,
    interval_text,
    percent_text,
    promise_text,
    quantile_of,
    quantile_text,
    ratio_text,
    span_text,
)

_STATES = {"met": "[green]met[/]", "missed": "[red]missed[/]", "not judged": "[yellow]not judged[/]"}
_WORDS = {"alarm": "red", "wide": "yellow", "normal": "green"}


def show(report: Report, zone: str, console: Console) -> None:
    """Print everything that a person wants first; the rest is in --json and --html."""
    console.print(f"[bold]{escape(report.source)}[/]: {count_text(report.total.num)} requests in {span_text(report)}")
    first, last = instant_text(report.first_arrival, zone), instant_text(report.last_finish, zone)
    console.print(f"{first} to {last}, policy {', '.join(report.policy_versions) or UNKNOWN}")
    if report.total.num == 0:
        console.print("No request ended in this window.")
        return
    console.print(_endings(report))
    console.print(_latencies(report))
    console.print(_objectives(report))
    reasons = report.total.reasons
    if reasons:
        told = ", ".join(f"{each.reason} {count_text(each.num)} ({each.outcome})" for each in reasons[:8])
        console.print(f"Other endings: {told}.")
    fairness = next(each for each in report.fairness if each.tier == "")
    if fairness.goodput_ratio is not None and fairness.num_tenants > 1:
        served = UNKNOWN if fairness.service is None else f"{fairness.service:.3f}"
        console.print(
            f"Fairness over {fairness.num_tenants} tenants (Jain, 1 is even): "
            f"goodput ratio {fairness.goodput_ratio:.3f}, service {served}."
        )
    for note in report.notes:
        console.print(f"[dim]{escape(note)}[/]")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _groups(report: Report) -> list[tuple[str, GroupFigures] | None]:
    """Tenants, tiers, causes (where any are told) and all; None stands for a line between."""
    rows: list[tuple[str, GroupFigures] | None] = [(f"{each.name} ({each.tier})", each) for each in report.tenants]
    rows += [None, *[(f"tier {each.name}", each) for each in report.tiers]]
    if any(each.name for each in report.causes):
        rows += [None, *[(f"cause {each.name or '(none)'}", each) for each in report.causes[:10]]]
    return [*rows, None, ("all", report.total)]


def _endings(report: Report) -> Table:
    """Every request in one column: received is their sum."""
    used = [name for name, num in report.total.outcomes.items() if num]
    table = _table("What became of them", "", "received", *used, "goodput", "a second")
    for row in _groups(report):
        if row is None:
            table.add_section()
            continue
        label, group = row
        counts = [count_text(group.outcomes[name]) if group.outcomes[name] else "·" for name in used]
        rate = UNKNOWN if group.goodput.per_second is None else f"{group.goodput.per_second:.3g}"
        held = "" if group.conserved else " [red]≠[/]"
        table.add_row(escape(label), count_text(group.num) + held, *counts, percent_text(group.goodput.ratio), rate)
    return table


def _latencies(report: Report) -> Table:
    table = _table(
        "Latency (95 % interval)", "", "TTFT p50", "p90", "p99", "ITL p50", "p99", "E2E p50", "p90", "p99",
        "TTFT p99÷p50", "n",
    )  # fmt: skip
    for row in _groups(report):
        if row is None:
            table.add_section()
            continue
        label, group = row
        of = {latency.name: latency for latency in group.latencies}
        table.add_row(
            escape(label),
            quantile_text(quantile_of(of["ttft"], 0.5)),
            quantile_text(quantile_of(of["ttft"], 0.9)),
            _with_interval(of["ttft"], 0.99),
            quantile_text(quantile_of(group.itl, 0.5)),
            quantile_text(quantile_of(group.itl, 0.99)),
            quantile_text(quantile_of(of["e2e"], 0.5)),
            quantile_text(quantile_of(of["e2e"], 0.9)),
            _with_interval(of["e2e"], 0.99),
            _ratio(of["ttft"]),
            _num(of["ttft"]),
        )
    return table


def _with_interval(latency: LatencyFigure, level: float) -> str:
    figure = quantile_of(latency, level)
    interval = interval_text(figure) if figure.value is not None else ""
    return quantile_text(figure) + (f" [dim]({interval})[/]" if interval else "")


def _ratio(latency: LatencyFigure) -> str:
    figure = latency.p99_over_p50
    colour = _WORDS.get(figure.word)
    return f"[{colour}]{ratio_text(figure)}[/]" if colour else ratio_text(figure)


def _num(latency: LatencyFigure) -> str:
    return count_text(latency.num) + (f" +{count_text(latency.num_cut_off)} cut off" if latency.num_cut_off else "")


def _objectives(report: Report) -> Table:
    table = _table("What was promised", "", "objective", "promise", "kept", "judged", "", "error budget")
    for group in report.tenants:
        for i, objective in enumerate(group.objectives):
            label = escape(f"{group.name} ({group.tier})") if i == 0 else ""
            table.add_row(label, *_objective_cells(objective))
        table.add_section()
    return table


def _objective_cells(objective: ObjectiveFigure) -> list[str]:
    judged = objective.num_good + objective.num_bad
    unit = " tok" if objective.unit == "tokens" else ""
    state = _STATES.get(objective.attainment.state, f"[dim]{objective.attainment.state}[/]")
    if objective.attainment.contract_held is False:
        state += ", [red]contract broken[/]"
    budget = "; ".join(budget_text(each) for each in objective.budgets) or UNKNOWN
    return [objective.name, promise_text(objective), attained_text(objective), count_text(judged) + unit, state, budget]

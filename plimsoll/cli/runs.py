"""`plimsoll runs`: agents' runs, from the log of a data directory."""

from pathlib import Path

from msgspec import Struct
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.runs import Run, RunFigures, figures
from plimsoll.analytics.runs import runs as runs_of
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json, check_tenant
from plimsoll.cli.output import print_json, terminal
from plimsoll.policy import document
from plimsoll.storage.promised import policy_in_force
from plimsoll.units import format_duration


class Told(Struct, frozen=True):
    """All of `--json`."""

    tenants: list[RunFigures]
    runs: list[Run]


def runs(
    directory: DataDir,
    *,
    json_output: Json = False,
    tenant: str | None = None,
    policy: Path | None = None,
) -> None:
    """Show agents' runs: the requests of a session as one, its total time judged, and where the time went.

    A run's objective is its tier's `run` in the policy; tiers without one have no runs. Requests belong to a session by
    `X-Plimsoll-Session`.

    Parameters
    ----------
    json_output
        Print everything as one JSON object, every run with its times (s).
    tenant
        Only this tenant's runs.
    policy
        Judge by this policy; default: the one in the data directory.
    """
    from plimsoll.storage.query import records  # noqa: PLC0415 - DuckDB, only where it is needed

    source = data_directory(directory)
    promised = policy_in_force(source) if policy is None else document.load(policy)
    check_tenant(promised, tenant)
    last = float("-inf")
    chosen = []
    for record in records(source):
        last = max(last, record.finished_at)
        if record.session and tenant in {None, record.tenant}:
            chosen.append(record)
    found = runs_of(chosen, promised, last)
    told = Told(figures(found, promised), found)
    if json_output:
        print_json(told)
    else:
        _show(told.tenants, terminal())


def _show(found: list[RunFigures], console: Console) -> None:
    if not found:
        console.print("No runs: no request of a tenant whose tier has a `run` objective came with a session.")
        return
    table = Table(title="Runs", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in (
        "tenant",
        "runs",
        "still open",
        "good",
        "bad",
        "excluded",
        "kept",
        "target",
        "llm",
        "upstream",
        "own",
    ):
        table.add_column(column, justify="left" if column in {"tenant", "upstream"} else "right")
    for each in found:
        kept = "–" if each.ratio is None else f"{each.ratio:.1%} ({each.low or 0.0:.1%} to {each.high or 0.0:.1%})"
        upstream = ", ".join(f"{cause} {format_duration(seconds)}" for cause, seconds in each.upstream.items())
        table.add_row(
            escape(each.tenant), str(each.num), str(each.num_open), str(each.num_good), str(each.num_bad),
            str(each.num_excluded), kept, f"{each.target:.4g}", format_duration(each.llm), escape(upstream) or "–",
            format_duration(each.own),
        )  # fmt: skip
    console.print(table)

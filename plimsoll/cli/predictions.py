"""`plimsoll predictions`: what was foreseen of replicas, held against what came."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.cli.logwindow import data_directory, window_of
from plimsoll.cli.options import DataDir, Json, Since, Until
from plimsoll.cli.output import print_json, terminal
from plimsoll.storage.predictions import Error, Predictions


def predictions(directory: DataDir, *, since: Since = None, until: Until = None, json_output: Json = False) -> None:
    """Show by replica how far predicted times to first token and between tokens were off from what came.

    Where the policy says `routing: predicted`, each row of the log has what was foreseen when its request was
    dispatched (`predicted_ttft`, `predicted_tpot`). Reads the log while a gateway writes it, and changes nothing.

    Parameters
    ----------
    json_output
        Print everything as one JSON object (errors as ratios).
    """
    from plimsoll.storage.predictions import predictions_of  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    root = data_directory(directory)
    with connect(root) as connection:
        (last,) = connection.execute("SELECT max(arrived_at) FROM requests").fetchall()[0]
        window = window_of(since, until, None, policy_in_force(root), last)
        found = predictions_of(connection, window, str(directory))
    if json_output:
        print_json(found)
    else:
        show(found, terminal())


def show(found: Predictions, console: Console) -> None:
    """Replicas by pool, each pool as a whole below them."""
    console.print(f"[bold]{escape(found.source)}[/]: predictions at dispatch against what came")
    if not found.replicas:
        console.print("No request was predicted: the policy needs `routing: predicted` and pools a `profile`.")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("pool", "replica"):
        table.add_column(name, no_wrap=True)
    for name in ("first tokens", "off by P50", "P90", "bias", "answers", "TPOT off by P50", "P90", "bias"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found.replicas:
        cells = [escape(one.pool), escape(one.replica) or "all", *_cells(one.ttft), *_cells(one.tpot)]
        table.add_row(*cells, style="" if one.replica else "bold")
    console.print(table)
    console.print(
        "[dim]off by: |predicted − actual| ÷ actual; bias: mean of predicted ÷ actual − 1, + too pessimistic[/]"
    )


def _cells(error: Error) -> list[str]:
    shares = ["–" if value is None else f"{value:.1%}" for value in (error.median, error.p90)]
    return [f"{error.num:,}", *shares, "–" if error.bias is None else f"{error.bias:+.1%}"]

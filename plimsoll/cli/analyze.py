"""`plimsoll analyze`: the same reports for people who do not run our gateway."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from plimsoll.analytics.figures import Report
from plimsoll.analytics.tails import Tails
from plimsoll.cli.options import Json
from plimsoll.cli.output import Terminal, print_json, terminal, write_text
from plimsoll.foreign.account import Account
from plimsoll.policy import document

MOST_DIAGNOSED = 1_000_000
"""Requests; a diagnosis holds them all, so a longer log is cut first: plimsoll diagnose DIR --since …"""
MOST_CHANGED = 4

if TYPE_CHECKING:
    from plimsoll.diagnosis.findings import Findings
    from plimsoll.foreign import analysis
    from plimsoll.foreign.logfile import LogFile


class Analysed(Struct, frozen=True):
    """All that `--json` prints: what was made of the files, tails, report, diagnosis (None: not asked for)."""

    account: Account
    tails: Tails
    report: Report
    diagnosis: "Findings | None"


def analyze(
    files: Annotated[list[Path], Parameter(negative="")],
    *,
    out: Path | None = None,
    map_: Annotated[list[str] | None, Parameter(name="--map", negative="", consume_multiple=False)] = None,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    by: str = "tenant,pool",
    html: Path | None = None,
    diagnosis: Annotated[bool, Parameter(negative="--no-diagnosis")] = True,
    json_output: Json = False,
) -> None:
    """Report tails and causes from logs of others: OTLP spans, Envoy, vLLM, LiteLLM, llama-server, CSV …

    The format of each file is found from what is inside (gzip or not), and the reason is shown; so is what a file
    cannot tell, and how many rows were left out by which rule. `plimsoll tails`, `diagnose` and `report` work on --out.

    Parameters
    ----------
    files
        Log files, several at once: OTLP JSON, Envoy's JSON access log, vLLM's request log, LiteLLM_SpendLogs (CSV or
        JSON), llama-server's log; CSV, JSON lines or Parquet with a row a request.
    out
        Keep the rows there, as a data directory; default: a temporary one that is removed.
    map_
        FIELD=COLUMN, or FIELD=COLUMN:UNIT (s, ms, us, ns), once a field; or a JSON file of such pairs. Fields:
        arrived_at, finished_at, ttft, e2e, prompt_tokens, output_tokens, tenant, model, pool, status and more.
    config
        Judge by this policy's objectives (its tenants by name); default: only failures are judged.
    by
        Labels of the table, as of `plimsoll tails --by`.
    html
        Write a page to this file: it needs nothing else, and may be sent by mail.
    diagnosis
        Say why requests were slow, where the data suffices.
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    """
    with _directory(out) as directory:
        found, zone = _make(files, directory, map_ or [], config, by, diagnosis=diagnosis)
        if html is not None:
            from plimsoll.console.reportpage import page  # noqa: PLC0415 - templates, only where they are needed

            write_text(html, page(found.report, zone, found.account))
        if json_output:
            print_json(found)
            return
        from plimsoll.cli.analyzetable import show  # noqa: PLC0415 - tables, only where they are needed

        show(found.account, found.tails, found.diagnosis, zone, terminal(), kept=out is not None)


@contextmanager
def _directory(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as name:
        yield Path(name) / "log"


def _make(
    files: list[Path], directory: Path, entries: list[str], config: Path | None, by: str, *, diagnosis: bool
) -> tuple[Analysed, str]:
    from plimsoll.cli import report, tails  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.foreign import analysis  # noqa: PLC0415 - as above
    from plimsoll.foreign.mapping import read_map  # noqa: PLC0415 - as above

    labels = tails.labels_of(by)
    with _progress() as told:
        text = None if config is None else document.read(config)
        account = analysis.analyse(files, directory, mapping=read_map(entries), policy_text=text, progress=told)
    source = ", ".join(file.file for file in account.files)
    found, zone = tails.make(directory, labels, None, since=None, until=None, tenant=None)
    whole, _ = report.make(directory, since=None, until=None, tenant=None, policy=None)
    why = _why(directory, source) if diagnosis and account.num <= MOST_DIAGNOSED else None
    return Analysed(account, replace(found, source=source), replace(whole, source=source), why), zone


def _why(directory: Path, source: str) -> "Findings":
    """About those that missed objectives; where nobody did, about the largest whose tail changed by itself."""
    from plimsoll.cli.diagnosing import engines_of, visits_between  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.diagnosis.diagnose import Mechanism  # noqa: PLC0415 - as above
    from plimsoll.diagnosis.findings import findings  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    with connect(directory) as connection:
        visits = visits_between(connection, float("-inf"), float("inf"))
        largest = connection.execute(
            "SELECT tenant FROM requests GROUP BY tenant ORDER BY count(*) DESC, tenant LIMIT ?", [MOST_CHANGED]
        ).fetchall()
    engines = engines_of(policy_in_force(directory))
    found = findings(visits, engines, source=source)
    if found.tenants:
        return found
    each = [findings(visits, engines, tenant).tenants[0] for (tenant,) in largest]
    return replace(found, tenants=tuple([one for one in each if one.mechanism is not Mechanism.NONE]))


@contextmanager
def _progress() -> Iterator["analysis.Progress"]:
    """Bytes of each file, on a terminal's stderr."""
    console = Terminal(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        bars: dict[str, int] = {}

        def told(file: "LogFile", num: int) -> None:
            key = str(file.path)
            if key not in bars:
                bars[key] = progress.add_task(file.name, total=max(1, file.size))
            text = f"{file.name} · {num:,} requests"
            progress.update(bars[key], completed=file.place or file.size, description=text)  # type: ignore[arg-type]

        yield told

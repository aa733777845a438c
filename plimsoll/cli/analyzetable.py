"""An analysis of others' logs as text on a terminal."""

from rich.console import Console
from rich.markup import escape

from plimsoll.analytics.tails import Tails
from plimsoll.cli.diagnosistable import show_findings
from plimsoll.cli.tailtable import show as show_tails
from plimsoll.console.figuretext import count_text
from plimsoll.diagnosis.findings import Findings
from plimsoll.foreign.account import Account, FileAccount


def show(
    account: Account, tails: Tails, diagnosis: Findings | None, zone: str, console: Console, *, kept: bool
) -> None:
    """What was made of the files, then the tails, then why."""
    for file in account.files:
        _show_file(file, console)
    for note in account.notes:
        console.print(escape(note))
    console.print()
    show_tails(tails, zone, console)
    if diagnosis is None:
        console.print("No diagnosis was made: it was not asked for, or the log is too long for one at once.")
    elif diagnosis.tenants:
        console.print()
        show_findings(diagnosis, zone, console)
    else:
        console.print(
            "Diagnosis: nobody missed an objective, and no tenant's tail changed by itself. Objectives come from "
            "--config; without one only failures are missed."
        )
    if kept:
        where = escape(account.directory)
        console.print(f"\nKept in {where}: plimsoll tails {where}, diagnose, report and explain read it.")


def _show_file(file: FileAccount, console: Console) -> None:
    console.print(
        f"[bold]{escape(file.file)}[/]: {file.format} ({escape(file.reason)}); "
        f"{count_text(file.num_kept)} of {count_text(file.num_rows)} rows counted"
    )
    used = ", ".join(dict.fromkeys(f"{each.field} ← {each.column}" for each in file.columns))
    if file.format == "table":
        console.print(f"  read as        {escape(used)}")
    if file.cannot_tell:
        console.print(f"  cannot tell    {'; '.join(file.cannot_tell)}")
    for each in file.left_out:
        console.print(f"  left out       {count_text(each.num)}: {escape(each.rule)} (first: row {each.first_row})")
    for note in file.notes:
        console.print(f"  note           {escape(note)}")

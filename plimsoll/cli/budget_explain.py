"""`plimsoll budget explain`: each figure of a tenant's budgets with its formula and inputs."""

from msgspec import Struct
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.cli.budgetbooks import opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl, check_tenant
from plimsoll.cli.output import print_json, terminal
from plimsoll.errors import UsageError
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.actions import Action
from plimsoll.ledger.explain import Explained
from plimsoll.ledger.explain import explain as explain_row
from plimsoll.ledger.figures import Figures
from plimsoll.ledger.promise import Promises
from plimsoll.storage.promised import policy_in_force


class Explanation(Struct, frozen=True):
    """One objective."""

    tenant: str
    objective: str
    period: str
    at: float
    figures: list[Explained]
    actions: dict[str, Action]  # changes of state this month by key, oldest first


def explain(directory: DataDir, tenant: str, *, ledger_url: LedgerUrl = None, json_output: Json = False) -> None:
    """Explain a tenant's error budgets: each figure with its formula and inputs, and what was done.

    Parameters
    ----------
    tenant
        Whose.
    json_output
        Print one JSON array.
    """
    from plimsoll.storage.budgeting import BudgetKeeper  # noqa: PLC0415 - sqlalchemy and numpy, where they are needed
    from plimsoll.storage.knowing import Knowledge, last_told  # noqa: PLC0415 - as above

    paths = paths_of(directory)
    policy = policy_in_force(paths.root)
    check_tenant(policy, tenant)
    promises = Promises(policy)
    with opened(paths, ledger_url) as books:
        knowledge = Knowledge(books)
        with books.reading() as connection:
            at = last_told(connection)
        if at is None:
            raise UsageError(f"nothing was judged yet in {paths.root}")
        months = knowledge.known(promises, at).months
        found = []
        for row in BudgetKeeper(paths, books).assess(policy, at).rows:
            if row.tenant == tenant:
                owner = Owner(row.tenant, row.objective)
                month = months.get(row.period)
                figures = Figures(owner) if month is None else month.figures.get(owner, Figures(owner))
                begin, _ = promises.bounds(tenant, row.period)
                acted = knowledge.actions(tenant, begin)
                done = {key: each for key, each in acted.items() if each.objective == row.objective}
                told = explain_row(row, figures, promises.by_owner[owner], policy)
                found.append(Explanation(tenant, row.objective, row.period, at, told, done))
    if json_output:
        print_json(found)
    else:
        _show(found, terminal())


def _show(found: list[Explanation], console: Console) -> None:
    for each in found:
        title = f"{escape(each.tenant)} {escape(each.objective)}, {each.period}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("figure")
        table.add_column("", justify="right")
        table.add_column("because")
        for figure in each.figures:
            table.add_row(figure.figure, escape(figure.value), escape(figure.formula))
        console.print(table)
        for key, action in each.actions.items():
            planned = "–" if action.planned is None else f"{action.planned:,}"
            console.print(
                f"  {action.before.words} → {action.after.words}: {action.spent:,} of {planned} spent  ({escape(key)})"
            )

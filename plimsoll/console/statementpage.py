"""A statement as a page and as CSV; both say the same lines."""

import csv
import io
from typing import Final

from jinja2 import Environment, PackageLoader, select_autoescape

from plimsoll import __version__
from plimsoll.ledger.statement import Statement

COLUMNS: Final = ("day", "kind", "from", "to", "amount")


def page(statement: Statement) -> str:
    """The whole page; it needs nothing else."""
    environment = Environment(loader=PackageLoader("plimsoll.console"), autoescape=select_autoescape())
    return environment.get_template("statement.html").render(statement=statement, version=__version__)


def table(statement: Statement) -> str:
    """One line a movement; for each account, amounts in `to` less amounts in `from` are its balance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in statement.lines:
        writer.writerow((line.day, line.kind, line.source, line.target, line.amount))
    return text.getvalue()

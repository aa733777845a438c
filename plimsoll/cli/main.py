"""`plimsoll …`: one sub-command a file, imported only when it is called, so that each starts fast."""

import os
import sys

from cyclopts import App

from plimsoll import __version__
from plimsoll.errors import PlimsollError

app = App(
    name="plimsoll",
    version=__version__,
    help="Govern the tail latency, fairness and error budgets of LLM inference for several tenants.",
)
COMMANDS: tuple[str, ...] = (
    "check",
    "demo",
    "emulate",
    "export",
    "import_",
    "key",
    "ledger",
    "project",
    "replay",
    "rules",
    "report",
    "serve",
    "simulate",
    "top",
)
"""Each is a module of this room with a function of the same name; its docstring is the help.

`import` is a word of Python, so its module has a dash below.
"""

for _name in COMMANDS:
    app.command(f"plimsoll.cli.{_name}:{_name}", name=_name.rstrip("_"))


def main() -> None:
    """Run the command line; a fault that we know is told in one line and exits with 2."""
    try:
        app(sys.argv[1:])
    except PlimsollError as error:
        print(f"plimsoll: {error}", file=sys.stderr)  # noqa: T201 - the command line's own voice
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)

"""docs/console.md against the code: options and pages."""

import inspect
import re
from pathlib import Path

from plimsoll.cli.console import console
from plimsoll.console.pages import PAGES

TEXT = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")


def test_options() -> None:
    between_processes = {"parent", "sockets"}  # what a gateway tells its console; `--help` is silent about them, too
    parameters = inspect.signature(console).parameters.values()
    options = {f"--{each.name.removesuffix('_output')}" for each in parameters if each.kind is each.KEYWORD_ONLY}
    options -= {f"--{name}" for name in between_processes}
    assert set(re.findall(r"^\| `(--[a-z]+)`", TEXT, re.MULTILINE)) == options


def test_pages() -> None:
    told = re.findall(r"^\| (\d) \| ([^|]+?) \|", TEXT, re.MULTILINE)
    assert told == [(str(number + 1), title) for number, (_, _, title) in enumerate(PAGES)]

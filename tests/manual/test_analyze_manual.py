"""docs/analyze.md against the code: options, formats and fields are all there, and no others."""

import inspect
import re
from pathlib import Path

from plimsoll.cli.analyze import analyze
from plimsoll.foreign.formats import FORMATS
from plimsoll.foreign.mapping import FIELDS

TEXT = (Path(__file__).parents[2] / "docs" / "analyze.md").read_text(encoding="utf-8")


def test_options() -> None:
    named = {"map_": "map", "diagnosis": "no-diagnosis", "json_output": "json"}
    options = {f"--{named.get(name, name)}" for name in inspect.signature(analyze).parameters if name != "files"}
    table = TEXT[TEXT.index("| option |") : TEXT.index("## Formats")]
    assert options == set(re.findall(r"^\| `(--[a-z-]+)` \|", table, re.MULTILINE))


def test_formats() -> None:
    table = TEXT[TEXT.index("| format |") : TEXT.index("What a file never says")]
    assert [form.name for form in FORMATS] == re.findall(r"^\| ([A-Za-z- ]+?) \|", table, re.MULTILINE)[1:]


def test_fields() -> None:
    told = TEXT[TEXT.index("## Fields") : TEXT.index("Where no column names")]
    assert set(FIELDS) <= set(re.findall(r"`(\w+)`", told))

"""How each figure of the console is computed; charts and figures link there by name."""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct


class Formula(Struct, frozen=True):
    """One of `formulas.json`: its anchor, title, formula (may be empty) and what there is to say."""

    name: str
    title: str
    formula: str
    words: str


@cache
def formulas() -> tuple[Formula, ...]:
    """All of them, in the order of the page."""
    return msgspec.json.decode((Path(__file__).parent / "formulas.json").read_bytes(), type=tuple[Formula, ...])

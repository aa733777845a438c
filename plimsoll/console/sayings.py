"""Sentences that other rooms make, in Chinese: evidence, timelines, journal entries, each known by its pattern."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Final

from plimsoll.console.words import known
from plimsoll.ledger.decided import DecisionKind

_DECISIONS: Final = frozenset(each.value for each in DecisionKind)


@cache
def patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """(English with named parts, Chinese with the same): `{name}` stands for any text."""
    rows: list[list[str]] = json.loads((Path(__file__).parent / "sayings.json").read_text(encoding="utf-8"))
    return tuple((re.compile(_expression(english)), chinese) for english, chinese in rows)


def _expression(text: str) -> str:
    return re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(text))


def said(text: str, language: str) -> str:
    """The sentence in that language; one that is not known stays English."""
    if language != "zh":
        return text
    if text.partition(": ")[0] in _DECISIONS:
        return _decided(text)
    for pattern, chinese in patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            return chinese.format(**{name: _word(value) for name, value in found.groupdict().items()})
    return text


def _word(text: str) -> str:
    """A state, a reason or a sentence within a sentence; names stay as they are."""
    return known("zh").get(text) or said(text, "zh")


def _name(field: str) -> str:
    return known("zh").get(field, field)


def _decided(text: str) -> str:
    """A decision as the journal tells it: `kind: name value, name value`."""
    kind, _, rest = text.partition(": ")
    words = [part.partition(" ") for part in rest.split(", ")]
    return f"{_name(kind)}：" + "，".join(
        f"{_name(name)} {known('zh').get(value, value)}".strip() for name, _, value in words
    )

"""Sentences that other rooms make, in Chinese: evidence, timelines, journal entries, each known by its pattern."""

import json
import re
from functools import cache
from pathlib import Path


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
    for pattern, chinese in patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            return chinese.format(**found.groupdict())
    return text

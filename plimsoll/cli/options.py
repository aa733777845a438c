"""Kinds of options that several commands share."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from plimsoll.errors import UsageError
from plimsoll.units import parse_duration


def _seconds(_: Any, tokens: Sequence[Token]) -> float:
    text = tokens[0].value
    try:
        number = float(text)
    except ValueError:
        return parse_duration(text)
    if not 0 <= number < float("inf"):
        raise UsageError(f"{tokens[0].keyword or 'time'} {text}: must be 0 or more")
    return number


Seconds = Annotated[float, Parameter(converter=_seconds)]
"""A time as people write it: 90, 90s, 500ms, 2min. Raises UnitError or UsageError where it is none."""


def _port(_: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    if not text.isdecimal() or not text.isascii() or int(text[:6]) > 65_535:
        raise UsageError(f"{tokens[0].keyword or 'port'} {text}: must be from 0 to 65535 (0: any free one)")
    return int(text)


Port = Annotated[int, Parameter(converter=_port)]
"""A TCP port; 0: any free one. Raises UsageError where it is none: the system would take 99999 for 34463."""

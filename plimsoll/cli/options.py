"""Kinds of options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy
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


Json = Annotated[bool, Parameter(name="--json", negative="")]
"""One JSON object instead of tables; each command says what is in it."""

DataDir = Annotated[
    Path,
    Parameter(help="A data directory, as `plimsoll serve --data DIR` leaves it, or a folder that holds one as `data`."),
]
"""Where a log is read from (`logwindow.data_directory` finds the inner one)."""

Since = Annotated[
    str | None,
    Parameter(
        help="Only requests that arrived from then on: 2026-11-30, 2026-11-30T12:00, or 2h: before the last arrival."
    ),
]
Until = Annotated[str | None, Parameter(help="Only requests that arrived before; as --since.")]
"""A window by arrival, half-open (`logwindow.window_of` reads it)."""

LedgerUrl = Annotated[
    str | None,
    Parameter(name="--ledger", help="Where the books are, if not in the directory: postgresql://user@host/name."),
]

PolicyFile = Annotated[Path, Parameter(name=["--config", "-c"], help="The policy: the file that `serve` takes.")]
Rules = Annotated[str, Parameter(help="Scheduling preset instead of the policy's own: default, fcfs, …")]
RunTime = Annotated[Seconds, Parameter(help="Simulated time of each run, e.g. 30min; default: the workload's own.")]
FirstSeed = Annotated[int, Parameter(help="Seed of the first run.")]
Jobs = Annotated[int, Parameter(help="Processes; results do not depend on it.")]
"""What every command that simulates asks for."""


def check_tenant(policy: Policy, tenant: str | None) -> None:
    """UsageError where the policy names no such tenant; the first twenty known ones are told."""
    if tenant is not None and all(each.name != tenant for each in policy.tenants):
        known = ", ".join([each.name for each in policy.tenants][:20])
        raise UsageError(f"no tenant is named {tenant!r}; known: {known or 'none'}")

"""What each known trace format calls its columns, and how a row of it is read: one table.

Lengths are tokens everywhere; what differs is names and the unit of time.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from math import isfinite
from typing import Final, NamedTuple

from plimsoll.storage.tracerow import TraceRow

Cells = Mapping[str, object]
MOONCAKE_BLOCK: Final = 512  # tokens a hash id stands for (Mooncake, FAST '25, trace description)
SERVINGSIM_BLOCK: Final = 16
NO_INSTANT: Final = float("-inf")
"""Stands for the instant of a row that has none."""


class TraceFormat(NamedTuple):
    """A format is known by the columns that it must have; others are ignored. `read` raises ValueError or TypeError."""

    name: str
    required: frozenset[str]
    read: Callable[[Cells], TraceRow]


def _count(cells: Cells, column: str) -> int:
    """A whole number ≥ 0; text and JSON numbers alike."""
    value = cells[column]
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{column} is {value!r}: not a count of tokens")
    return number


def _number(cells: Cells, column: str) -> float:
    value = cells[column]
    try:
        number = float(value) if isinstance(value, str | int | float) else float("nan")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ValueError(f"{column} is {value!r}: not a number")
    return number


def _ids(cells: Cells, column: str) -> tuple[int, ...]:
    """Prefix ids: a JSON array, or numbers parted by blanks in CSV."""
    value = cells.get(column) or ()
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise TypeError(f"{column} is not a list of prefix ids")
    try:
        return tuple(int(part) for part in parts)
    except (ValueError, TypeError):
        raise ValueError(f"{column} holds something that is not a whole number") from None


def _text(cells: Cells, column: str) -> str:
    return str(cells.get(column) or "")


def _said(cells: Cells, column: str) -> bool:
    return cells.get(column) not in (None, "")


def _time(cells: Cells, column: str) -> float:
    """Seconds ≥ 0."""
    seconds = _number(cells, column)
    if seconds < 0.0:
        raise ValueError(f"{column} is {seconds:g}: must be at least 0 s")
    return seconds


def _instant(text: object) -> float:
    """`2023-11-16 18:15:46.6805900` (100 ns) as UTC epoch seconds (a float keeps 0.24 µs of it)."""
    whole, _, fraction = str(text).partition(".")
    try:
        base = int(datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp())
        part = Fraction(int(fraction or 0), 10 ** len(fraction))
    except ValueError:
        raise ValueError(f"TIMESTAMP is {text!r}: not a date and time like 2023-11-16 18:15:46.6805900") from None
    return float(base + part)


def _azure(cells: Cells) -> TraceRow:
    return TraceRow(_instant(cells["TIMESTAMP"]), _count(cells, "ContextTokens"), _count(cells, "GeneratedTokens"))


def _mooncake(cells: Cells) -> TraceRow:
    at = _number(cells, "timestamp") / 1e3
    lengths = _count(cells, "input_length"), _count(cells, "output_length")
    return TraceRow(at, *lengths, _ids(cells, "hash_ids"), MOONCAKE_BLOCK)


def _servingsim(cells: Cells) -> TraceRow:
    at = _number(cells, "arrival_ns") / 1e9
    return TraceRow(
        at, _count(cells, "input_toks"), _count(cells, "output_toks"), _ids(cells, "block16_ids"), SERVINGSIM_BLOCK
    )


def _bench(cells: Cells) -> TraceRow:
    return TraceRow(_number(cells, "arrival_s"), _count(cells, "input_tokens"), _count(cells, "output_tokens"))


def _apex(cells: Cells) -> TraceRow:
    at = _number(cells, "arrival_offset_ns") / 1e9
    return TraceRow(at, _count(cells, "context_tokens"), _count(cells, "generated_tokens"))


def _own(cells: Cells) -> TraceRow:
    ids = _ids(cells, "prefix_ids")
    return TraceRow(
        at=_number(cells, "at"),
        prompt_tokens=_count(cells, "prompt_tokens"),
        output_tokens=_count(cells, "output_tokens"),
        prefix_ids=ids,
        block_tokens=_count(cells, "block_tokens") if ids else 0,
        tenant=_text(cells, "tenant"),
        session=_text(cells, "session"),
        cause=_text(cells, "cause"),
        criticality=_text(cells, "criticality"),
        cached_tokens=_count(cells, "cached_tokens") if _said(cells, "cached_tokens") else None,
        upstream_time=_time(cells, "upstream_time") if _said(cells, "upstream_time") else None,
    )


def _burstgpt(cells: Cells) -> TraceRow:
    lengths = _count(cells, "Request tokens"), _count(cells, "Response tokens")
    return TraceRow(_number(cells, "Timestamp"), *lengths, session=_text(cells, "Session ID"))


def _vidur(cells: Cells) -> TraceRow:
    lengths = _count(cells, "num_prefill_tokens"), _count(cells, "num_decode_tokens")
    return TraceRow(_number(cells, "arrived_at"), *lengths)


def _lengths(prompt: str, output: str) -> Callable[[Cells], TraceRow]:
    """Of data sets that hold lengths and no instants: `traces.read` lets them come one a second."""

    def read(cells: Cells) -> TraceRow:
        return TraceRow(NO_INSTANT, _count(cells, prompt), _count(cells, output))

    return read


_LENGTHS: Final = tuple(
    [
        TraceFormat(f"lengths ({prompt}, {output})", frozenset({prompt, output}), _lengths(prompt, output))
        for prompt, output in (
            ("prompt_tokens", "output_tokens"),
            ("num_prefill_tokens", "num_decode_tokens"),
            ("input_tokens", "output_tokens"),
            ("prompt_len", "output_len"),
            ("input_len", "output_len"),
        )
    ]
)
"""As people cut them from ShareGPT and the like."""
CSV_FORMATS: Final = (
    TraceFormat("Azure", frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}), _azure),
    TraceFormat("LLMServingSim requests", frozenset({"arrival_s", "input_tokens", "output_tokens"}), _bench),
    TraceFormat("APEX", frozenset({"arrival_offset_ns", "context_tokens", "generated_tokens"}), _apex),
    TraceFormat("Plimsoll", frozenset({"at", "prompt_tokens", "output_tokens"}), _own),
    TraceFormat("BurstGPT", frozenset({"Timestamp", "Request tokens", "Response tokens"}), _burstgpt),
    TraceFormat("Vidur", frozenset({"arrived_at", "num_prefill_tokens", "num_decode_tokens"}), _vidur),
    *_LENGTHS,
)
JSONL_FORMATS: Final = (
    TraceFormat("Mooncake", frozenset({"timestamp", "input_length", "output_length"}), _mooncake),
    TraceFormat("LLMServingSim workload", frozenset({"arrival_ns", "input_toks", "output_toks"}), _servingsim),
    TraceFormat("Plimsoll", frozenset({"at", "prompt_tokens", "output_tokens"}), _own),
    *_LENGTHS,
)
"""Looked through in order: the first whose columns are all there is it."""

"""Timings of single engine steps from CSV: our own columns, or those of splitwise-sim's measured runs.

Own: `prefill_tokens,num_seqs,context_tokens,seconds`, and `work` where prompts had a history (else half the square of
`prefill_tokens`). Splitwise's `prompt_size,batch_size,token_size,prompt_time,token_time` (ms) give a prefill and a
decode step a row; its rows are of several machines, so say which: `model=llama2-70b`.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple

from plimsoll.errors import TraceError

OWN: Final = frozenset({"prefill_tokens", "num_seqs", "context_tokens", "seconds"})
SPLITWISE: Final = frozenset({"prompt_size", "batch_size", "token_size", "prompt_time", "token_time"})


class Timing(NamedTuple):
    """prompt tokens computed, sequences that decoded, KV tokens of these, prefill attention work, s."""

    prefill_tokens: int
    num_seqs: int
    context_tokens: int
    work: float
    seconds: float


def holds_timings(path: Path) -> bool:
    """Whether the first line names the columns of a table of timings. TraceError where it is no text."""
    if not path.is_file():
        return False
    columns = set(next(csv.reader(_lines(path)), []))
    return columns >= OWN or columns >= SPLITWISE


def timings(path: Path, where: Mapping[str, str]) -> list[Timing]:
    """Those rows whose columns are as `where` says. Raises TraceError where a row breaks a rule, or none is left."""
    found: list[Timing] = []
    for number, cells in enumerate(csv.DictReader(_lines(path)), 1):
        unknown = [column for column in where if column not in cells]
        if unknown:
            raise TraceError(path.name, 0, f"has no column {unknown[0]}; it has {', '.join(filter(None, cells))}")
        if any(cells[column] != value for column, value in where.items()):
            continue
        try:
            found += _splitwise(cells) if cells.keys() >= SPLITWISE else _own(cells)
        except (TypeError, ValueError) as error:
            raise TraceError(path.name, number, str(error)) from error
    if not found:
        raise TraceError(path.name, 0, f"no row is as wanted: {', '.join(f'{k}={v}' for k, v in where.items())}")
    return found


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            yield from lines
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path.name, 0, f"not readable as text or gzip: {error}") from error


def _own(cells: Mapping[str, str]) -> list[Timing]:
    prefill, seqs, context = (_number(cells, name) for name in ("prefill_tokens", "num_seqs", "context_tokens"))
    work = _number(cells, "work") if cells.get("work") else prefill**2 / 2
    return [Timing(int(prefill), int(seqs), int(context), work, _seconds(cells, "seconds", 1.0))]


def _splitwise(cells: Mapping[str, str]) -> list[Timing]:
    prompt, batch, tokens = (_number(cells, name) for name in ("prompt_size", "batch_size", "token_size"))
    context = batch * (prompt + tokens / 2)  # in the middle of the answers
    return [
        Timing(int(batch * prompt), 0, 0, batch * prompt**2 / 2, _seconds(cells, "prompt_time", 1e-3)),
        Timing(0, int(batch), int(context), 0.0, _seconds(cells, "token_time", 1e-3)),
    ]


def _number(cells: Mapping[str, str], name: str) -> float:
    value = float(cells[name])
    if not isfinite(value) or value < 0:
        raise ValueError(f"{name} is {cells[name]}: must be 0 or more")
    return value


def _seconds(cells: Mapping[str, str], name: str, scale: float) -> float:
    value = _number(cells, name) * scale
    if value == 0:
        raise ValueError(f"{name} is 0: a step takes time")
    return value

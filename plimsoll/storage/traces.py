"""Other people's traffic in: Azure, Mooncake, LLMServingSim, APEX, Plimsoll's own trace files and request logs.

`read(path)` finds out which by what is inside, never by the file's name alone. Every row is checked; the first that
breaks a rule raises TraceError with file, row and rule, so that a load is never built on half a trace.

Read next: `tracecolumns.py` (what the columns of each format are called).
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, cast

import msgspec

from plimsoll.errors import TraceError, UsageError
from plimsoll.storage.ownlog import read_own
from plimsoll.storage.tracecolumns import CSV_FORMATS, JSONL_FORMATS, NO_INSTANT, TraceFormat
from plimsoll.storage.tracerow import TraceRow

LeftOut = Callable[[TraceError], None]
"""Told of each row that is left out, and of the rule that it breaks."""


def read(path: Path, left_out: LeftOut | None = None) -> Iterator[TraceRow]:
    """The rows of a trace in order of time, the first at 0.0 s.

    `path` is a CSV or JSON-lines file, gzipped or not, or a data directory of Plimsoll. Raises UsageError where there
    is none, TraceError where its format is not known or a row breaks a rule; given `left_out`, such a row is left out
    and told instead.
    """
    if path.is_dir():
        yield from read_own(path)
        return
    if not path.is_file():
        raise UsageError(f"no trace at {path}: give a CSV or JSON-lines file, or a data directory of Plimsoll")
    with _text(path) as lines:
        yield from _checked(path, _parsed(path, lines, left_out), left_out)


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """The file as text, unpacked where its first bytes are gzip's."""
    with path.open("rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    opener: Callable[..., Any] = gzip.open if packed else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        yield cast(TextIO, lines)


def _parsed(path: Path, lines: TextIO, left_out: LeftOut | None) -> Iterator[tuple[int, TraceRow]]:
    """(row number, row); row 1 is the first line after a CSV header, or the first line of JSON."""
    try:
        first = lines.readline()
        if not first.strip():
            raise TraceError(path.name, 0, "the file is empty")
        parse = _jsonl if first.lstrip().startswith("{") else _csv
        yield from parse(path.name, first, lines, left_out)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path.name, 0, f"not readable as text or gzip: {error}") from error


def _csv(file: str, header: str, lines: TextIO, left_out: LeftOut | None) -> Iterator[tuple[int, TraceRow]]:
    columns = next(csv.reader([header]))
    form = _format_of(file, 0, columns, CSV_FORMATS)
    for number, cells in enumerate(csv.reader(lines), 1):
        if len(cells) != len(columns):
            _tell(left_out, TraceError(file, number, f"{len(cells)} columns, the header has {len(columns)}"))
            continue
        row = _row(file, number, form, dict(zip(columns, cells, strict=True)), left_out)
        if row is not None:
            yield number, row


def _jsonl(file: str, first: str, lines: TextIO, left_out: LeftOut | None) -> Iterator[tuple[int, TraceRow]]:
    form: TraceFormat | None = None
    for number, line in enumerate(chain([first], lines), 1):
        if not line.strip():
            continue
        cells = _object(file, number, line, left_out)
        if cells is None:
            continue
        form = form or _format_of(file, number, list(cells), JSONL_FORMATS)
        row = _row(file, number, form, cells, left_out)
        if row is not None:
            yield number, row


def _object(file: str, number: int, line: str, left_out: LeftOut | None) -> dict[str, Any] | None:
    try:
        cells = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        _tell(left_out, TraceError(file, number, f"not JSON: {error}"))
        return None
    if not isinstance(cells, dict):
        _tell(left_out, TraceError(file, number, "not a JSON object"))
        return None
    return cells


def _tell(left_out: LeftOut | None, error: TraceError) -> None:
    """Raise, or note a row that is left out."""
    if left_out is None:
        raise error
    left_out(error)


def _format_of(file: str, row: int, columns: list[str], formats: tuple[TraceFormat, ...]) -> TraceFormat:
    """The first format whose columns are all there."""
    for form in formats:
        if form.required <= set(columns):
            return form
    known = "; ".join(f"{form.name}: {', '.join(sorted(form.required))}" for form in formats)
    raise TraceError(file, row, f"columns {', '.join(columns)} are of no known format ({known})")


def _row(
    file: str, number: int, form: TraceFormat, cells: Mapping[str, object], left_out: LeftOut | None
) -> TraceRow | None:
    missing = form.required - cells.keys()
    if missing:
        _tell(left_out, TraceError(file, number, f"column {sorted(missing)[0]} is missing"))
        return None
    try:
        return form.read(cells)
    except (ValueError, TypeError, OverflowError) as error:
        _tell(left_out, TraceError(file, number, str(error)))
        return None


def _checked(path: Path, rows: Iterator[tuple[int, TraceRow]], left_out: LeftOut | None) -> Iterator[TraceRow]:
    """The rules that hold for every format; times become seconds after the first row."""
    start: float | None = None
    last = 0.0
    for number, plain in rows:
        row = plain if plain.at != NO_INSTANT else msgspec.structs.replace(plain, at=float(number))
        at = 0.0 if start is None else row.at - start
        broken = _broken(row, at - last)
        if broken:
            _tell(left_out, TraceError(path.name, number, broken))
            continue
        start = row.at if start is None else start
        last = at
        yield msgspec.structs.replace(row, at=at)


def _broken(row: TraceRow, gap: float) -> str:
    """The rule that a row breaks; "" where it breaks none."""
    if gap < 0.0:
        return f"time goes back by {-gap:.6f} s"
    if row.prompt_tokens < 1 or row.output_tokens < 1:
        return f"prompt {row.prompt_tokens}, output {row.output_tokens}: zero length"
    if row.prefix_ids and (len(row.prefix_ids) - 1) * row.block_tokens > row.prompt_tokens:
        covered = len(row.prefix_ids) * row.block_tokens
        return f"prefix ids cover {covered} tokens, the prompt has {row.prompt_tokens}"
    return ""

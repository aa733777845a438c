"""What clients saw of an engine, from files: request logs with token instants, benches, data directories of ours.

| format | columns |
|---|---|
| JSON lines | `arrival_s`, `prompt_tokens`, `output_tokens`, `ttft_ms`, `token_ms` (instants from the arrival), `run` |
| CSV (LLMServingSim's bench) | `arrival_s`, `input_tokens`, `output_tokens`, `ttft_s`, `e2e_s` |
| a data directory | each replica's requests, from their dispatch on |
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.errors import TraceError, UsageError
from plimsoll.slo.outcome import Outcome

JSON_COLUMNS: Final = ("arrival_s", "prompt_tokens", "output_tokens", "ttft_ms")
CSV_COLUMNS: Final = ("arrival_s", "input_tokens", "output_tokens", "ttft_s", "e2e_s")


class Served(Struct, frozen=True):
    """One answered request. Times in s; `arrived_at` from the start of its run; `gaps` () where not known."""

    run: str
    arrived_at: float
    prompt_tokens: int
    output_tokens: int
    ttft: float
    e2e: float
    gaps: tuple[float, ...] = ()  # between tokens, where their instants are known …
    tpot: float = 0.0  # … else their mean; 0: one token


def served(path: Path) -> list[Served]:
    """The requests in the file's order. Raises UsageError where there is none, TraceError where a row breaks a rule."""
    if path.is_dir():
        return _own(path)
    if not path.is_file():
        raise UsageError(f"no log at {path}: give JSON lines, a CSV, or a data directory of Plimsoll")
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path.name, 0, f"not readable as text or gzip: {error}") from error
    rows = list(_json(path.name, text) if text.lstrip().startswith("{") else _csv(path.name, text))
    if not rows:
        raise TraceError(path.name, 0, "holds no answered request")
    return rows


def _json(file: str, text: str) -> Iterator[Served]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            cells = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise TraceError(file, number, f"not JSON: {error}") from error
        if not isinstance(cells, dict):
            raise TraceError(file, number, "not a JSON object")
        if cells.get("error") or ("ttft_ms" in cells and cells["ttft_ms"] is None):
            continue  # was not answered
        yield _row(file, number, cells, JSON_COLUMNS, scale=1e-3)


def _csv(file: str, text: str) -> Iterator[Served]:
    for number, cells in enumerate(csv.DictReader(text.splitlines()), 1):
        yield _row(file, number, cells, CSV_COLUMNS, scale=1.0)


def _row(file: str, number: int, cells: Mapping[str, object], columns: tuple[str, ...], scale: float) -> Served:
    missing = [column for column in columns if cells.get(column) in (None, "")]
    if missing:
        raise TraceError(file, number, f"column {missing[0]} is missing")
    try:
        arrived_at, prompt, output, ttft = (float(str(cells[column])) for column in columns[:4])
        tokens = cells.get("token_ms") or []
        instants = [float(instant) * scale for instant in tokens] if isinstance(tokens, list) else []
        e2e = instants[-1] if instants else float(str(cells.get("e2e_s", "nan")))
    except (TypeError, ValueError) as error:
        raise TraceError(file, number, str(error)) from error
    if not all(isfinite(value) for value in (arrived_at, prompt, output, ttft)):
        raise TraceError(file, number, "a time or a length is no finite number")
    if prompt < 1 or output < 1 or ttft <= 0:
        raise TraceError(file, number, f"prompt {prompt:g}, output {output:g}, ttft {ttft:g}: must be above 0")
    gaps = tuple(later - earlier for earlier, later in pairwise(instants))
    if any(gap < 0 for gap in gaps):
        raise TraceError(file, number, "a token came before the one before it")
    if not isfinite(e2e) or e2e < ttft * scale - 1e-9:
        raise TraceError(file, number, "the end is missing, or before the first token")
    tpot = (e2e - ttft * scale) / (output - 1) if not instants and output > 1 else 0.0
    return Served(str(cells.get("run") or ""), arrived_at, int(prompt), int(output), ttft * scale, e2e, gaps, tpot)


def _own(path: Path) -> list[Served]:
    """Of each replica what it completed, once it was dispatched there; prompts that hit its cache are left out."""
    from plimsoll.storage.query import records  # noqa: PLC0415 - pyarrow and duckdb, for this kind of log only

    found: list[Served] = []
    starts: dict[str, float] = {}
    for record in records(path):
        if record.outcome is not Outcome.COMPLETED or record.dispatched_at is None or record.first_token_at is None:
            continue
        if record.cached_tokens or record.attempts > 1:
            continue
        start = starts.setdefault(record.replica, record.dispatched_at)
        found.append(
            Served(
                run=record.replica,
                arrived_at=record.dispatched_at - start,
                prompt_tokens=record.prompt_tokens,
                output_tokens=record.output_tokens,
                ttft=max(1e-6, record.first_token_at - record.dispatched_at),
                e2e=record.finished_at - record.dispatched_at,
                tpot=record.tpot or 0.0,
            )
        )
    if not found:
        raise TraceError(path.name, 0, "the log holds no streamed request that an engine completed without its cache")
    return found

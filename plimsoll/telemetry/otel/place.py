"""How far a collector has been told of a log: `otel.json` in the data directory. Light: `serve` imports it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.storage.datadir import DataDirectory, write_whole
from plimsoll.storage.reader import first_offset, read_rows
from plimsoll.storage.segment import all_segments, base_of


def check_installed() -> None:
    """UsageError where the extra that the exporter needs is missing: to be told before anything starts."""
    try:
        found = find_spec("opentelemetry.proto")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise UsageError("opentelemetry.proto is not installed: pip install 'plimsoll[otel]'")


def exporter(directory: Path, endpoint: str) -> list[str]:
    """The command line of an exporter that ends when the process that asks for it does; more by OTEL_… variables."""
    line = [sys.executable, "-m", "plimsoll", "otel", str(directory), "--endpoint", endpoint]
    return [*line, "--parent", str(os.getpid())]


class _Place(Struct, frozen=True):
    log: str
    offset: int


class Place:
    """Of one data directory."""

    def __init__(self, directory: Path) -> None:
        """UsageError where that is no data directory."""
        paths = DataDirectory(directory)
        self._log = paths.identity().log
        self._journal = paths.journal
        self._file = paths.root / "otel.json"

    def recall(self) -> int | None:
        """The offset up to which this log was sent; None where nothing was."""
        try:
            place = msgspec.json.decode(self._file.read_bytes(), type=_Place)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return place.offset if place.log == self._log else None

    def begin(self, *, from_start: bool) -> int:
        """As `recall`; where nothing was sent, the first row that is kept or the end of the log, and that is kept."""
        recalled = self.recall()
        if recalled is not None:
            return recalled
        offset = first_offset(self._journal) if from_start else self._end()
        self.remember(offset)
        return offset

    def remember(self, offset: int) -> None:
        """Everything before it was sent."""
        write_whole(self._file, msgspec.json.encode(_Place(self._log, offset)))

    def _end(self) -> int:
        found = all_segments(self._journal)
        end = base_of(found[-1]) if found else 0
        for row in read_rows(self._journal, end):
            end = row.end
        return end

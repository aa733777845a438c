"""A file of somebody else's: opened packed or not, read a line or a record at a time, with how far we are."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

import msgspec

from plimsoll.errors import TraceError, UsageError
from plimsoll.foreign.visit import Cells

PROBE: Final = 256 * 1024
"""Bytes by which a format is recognised."""
LONGEST_LINE: Final = 64 * 1024 * 1024
WHOLE: Final = 512 * 1024 * 1024
"""Bytes; a JSON document that is not one record a line is held in memory, and larger ones are refused."""

Numbered = Iterator[tuple[int, Cells | str]]
"""(row number from 1, the row); a text where the row is broken: the rule that it breaks."""


class LogFile:
    """One file. `head` is its beginning, unpacked; `place` how many of its `size` bytes on disk were read.

    A packed file that is cut off or damaged ends there, and `damage` then says so; where nothing comes before,
    TraceError is raised.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"no log at {path}")
        self.path = path
        self.size = path.stat().st_size
        with path.open("rb") as probe:
            beginning = probe.read(4)
        self.packed = beginning[:2] == b"\x1f\x8b"
        self.is_parquet = beginning == b"PAR1"
        self.damage = ""  # where the last reading of it had to end, and why; "" where it was whole
        self._raw: BinaryIO | None = None
        with self as opened:
            self.head = opened.read(PROBE)

    @property
    def name(self) -> str:
        """As the user knows it."""
        return self.path.name

    @property
    def place(self) -> int:
        """Bytes of the file on disk that were read."""
        return self._raw.tell() if self._raw is not None and not self._raw.closed else 0

    def __enter__(self) -> "_Checked":
        self.damage = ""
        self._raw = self.path.open("rb")
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if self.packed else self._raw
        return _Checked(self, unpacked)

    def __exit__(self, *_: object) -> None:
        if self._raw is not None:
            self._raw.close()

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, line without its end). What is no UTF-8 is replaced: logs hold whatever was sent."""
        with self as file:
            number = 0
            while raw := file.readline(LONGEST_LINE):
                number += 1
                yield number, raw.decode("utf-8", "replace").rstrip("\r\n")

    def head_lines(self) -> list[str]:
        """The lines of its beginning; the last may be cut."""
        return self.head.decode("utf-8", "replace").lstrip("\ufeff").splitlines()

    def table(self) -> Numbered:
        """Rows of a CSV by its header."""
        with self as file:
            text = (line.decode("utf-8", "replace") for line in iter(lambda: file.readline(LONGEST_LINE), b""))
            csv.field_size_limit(LONGEST_LINE)
            delimiter = "\t" if "\t" in self.head_lines()[0] else ";" if _semicolons(self.head_lines()[0]) else ","
            rows = csv.reader((line.replace("\0", "") for line in text), delimiter=delimiter)
            names = [name.lstrip("\ufeff").strip() for name in next(rows, [])]
            for number, cells in enumerate(rows, 1):
                if len(cells) == len(names):
                    yield number, dict(zip(names, cells, strict=True))
                elif cells:
                    yield number, "has other than as many cells as the header"

    def objects(self) -> Numbered:
        """Records of a JSON file: one a line, or one array (at the top or under a key such as "data")."""
        if self.is_lines():
            decode = msgspec.json.Decoder().decode
            for number, line in self.lines():
                if not line.strip():
                    continue
                try:
                    record = decode(line)
                except msgspec.DecodeError:
                    yield number, "is not JSON"
                    continue
                yield number, record if isinstance(record, dict) else "is no JSON object"
            return
        for number, record in enumerate(self._array(), 1):
            yield number, record if isinstance(record, dict) else "is no JSON object"

    def is_lines(self) -> bool:
        """Whether its first line is a JSON object by itself."""
        line = next((line for line in self.head_lines() if line.strip()), "").strip()
        if not line.startswith("{") or line == "{":
            return False
        try:
            msgspec.json.decode(line)
        except msgspec.DecodeError:
            return "\n" in self.head.decode("utf-8", "replace").strip() and line.endswith("}")
        return True

    def _array(self) -> list[object]:
        with self as file:
            data = file.read(WHOLE + 1)
        if len(data) > WHOLE:
            raise TraceError(self.name, 0, f"is one JSON document above {WHOLE >> 20} MiB: give one record a line")
        if self.damage:
            raise TraceError(self.name, 0, f"is one JSON document, and not whole: {self.damage}")
        try:
            found = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise TraceError(self.name, 0, f"is not JSON: {error}") from error
        if isinstance(found, list):
            return found
        lists = [each for each in found.values() if isinstance(each, list)] if isinstance(found, dict) else []
        return lists[0] if lists and "resourceSpans" not in found else [found]

    def batches(self) -> Numbered:
        """Rows of a Parquet file."""
        import pyarrow as pa  # noqa: PLC0415 - where there is one
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

        number = 0
        try:
            with self.path.open("rb") as raw, pq.ParquetFile(raw) as source:
                self._raw = raw
                for batch in source.iter_batches(8192):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, row
        except (pa.ArrowInvalid, OSError) as error:
            raise TraceError(self.name, number, f"is no good Parquet file: {error}") from error

    def parquet_columns(self) -> list[str]:
        """The names of its columns."""
        import pyarrow as pa  # noqa: PLC0415 - as above
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

        try:
            return list(pq.read_schema(self.path).names)
        except (pa.ArrowInvalid, OSError) as error:
            raise TraceError(self.name, 0, f"is no good Parquet file: {error}") from error


class _Checked:
    """The unpacked bytes, as far as they can be unpacked."""

    def __init__(self, owner: LogFile, file: BinaryIO) -> None:
        self._owner = owner
        self._file = file
        self._num_bytes = self._num_lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, num: int) -> bytes:
        """Up to that many bytes."""
        parts = []
        try:
            while num > 0 and (part := self._file.read1(num)):  # type: ignore[attr-defined]
                parts.append(part)
                num -= len(part)
                self._num_bytes += len(part)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._end(error)
        return b"".join(parts)

    def readline(self, most: int) -> bytes:
        """A line, at most that long; never a part of one that was cut off."""
        if self._owner.damage:
            return b""
        try:
            line = self._file.readline(most)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._end(error)
            return b""
        self._num_bytes += len(line)
        self._num_lines += 1
        return line

    def _end(self, error: Exception) -> None:
        if not self._num_bytes:
            raise TraceError(self._owner.name, 0, f"is damaged: {error}") from error
        whole = (
            f"{self._num_lines:,} lines, {self._num_bytes:,} bytes" if self._num_lines else f"{self._num_bytes:,} bytes"
        )
        self._owner.damage = (
            f"{error}, after {whole} unpacked (byte {self._owner.place:,} of {self._owner.size:,} packed)"
        )


def _semicolons(header: str) -> bool:
    return header.count(";") > header.count(",")

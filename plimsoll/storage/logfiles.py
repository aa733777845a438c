"""The Parquet files of the request log, by name.

    requests/00000000000000000000-00000000000012345678.parquet

Each holds the settlements of one range of the log, and the next begins where it ends. Small neighbours are merged
into one file named for their whole range; a file whose range lies within another's is left out by every reader, and
is removed when nobody can still be reading it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from plimsoll.storage.reader import first_offset


class LogFile(NamedTuple):
    """One Parquet file and the range of the log that it holds."""

    start: int
    end: int
    path: Path


def log_files(requests: Path) -> list[LogFile]:
    """The files that together hold the log from the first of them on, in order, nothing twice and no gap.

    What lies behind a gap (somebody removed a file) counts as not there: it is taken from the journal and made anew.
    """
    chosen: list[LogFile] = []
    for file in sorted(all_files(requests), key=lambda file: (file.start, -file.end)):
        if not chosen or file.start == chosen[-1].end:
            chosen.append(file)
        elif file.start > chosen[-1].end:
            break
    return chosen


def all_files(requests: Path) -> Iterator[LogFile]:
    """Every Parquet file, in no order, those that were merged away included."""
    for path in requests.glob("*.parquet"):
        start, _, end = path.stem.partition("-")
        if start.isdigit() and end.isdigit():
            yield LogFile(int(start), int(end), path)


def file_name(start: int, end: int) -> str:
    """The name of the file that holds that range."""
    return f"{start:020d}-{end:020d}.parquet"


def end_of(requests: Path, journal: Path) -> int:
    """The offset up to which the log is in Parquet."""
    files = log_files(requests)
    return files[-1].end if files else first_offset(journal)

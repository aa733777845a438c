"""Old segments of the journal are packed to a fraction of their size, and are read all the same.

A segment is archived when both projections have passed it and the next one is older than the policy's
`storage.archive_after`; the last two stay as they are, since recovery reads them. The archive is written beside its
place, synced, compared with its source byte by byte, renamed into place, and only then the source is removed: at every
moment one of them is there whole.
"""

import gzip
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Final

from plimsoll.storage.datadir import sync_directory
from plimsoll.storage.reader import CHUNK
from plimsoll.storage.segment import ARCHIVED, HEADER_BYTES, base_of, read_header, segments

KEPT: Final = 2  # segments at the end that are never archived
LEVEL: Final = 6


def archive(journal: Path, reached: int, before: float) -> int:
    """Archive what lies before offset `reached` and was complete before that instant; how many segments. OSError."""
    num = 0
    for part in journal.glob("*.part"):
        part.unlink()
    paths = segments(journal)
    for path, following in pairwise(paths[: 1 - KEPT]):
        if base_of(following) > reached or _begun_at(following) >= before:
            break
        _pack(path)
        num += 1
    return num


def _begun_at(path: Path) -> float:
    with path.open("rb") as file:
        header = read_header(memoryview(file.read(HEADER_BYTES)), path.name)
    return float("inf") if header is None else header.created_at


def _pack(path: Path) -> None:
    target = path.with_suffix(ARCHIVED)
    part = path.with_suffix(".part")
    with path.open("rb") as source, part.open("wb") as file:
        with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
            shutil.copyfileobj(source, packed, CHUNK)
        file.flush()
        os.fsync(file.fileno())
    if not _same(path, part):
        part.unlink()
        raise OSError(f"{target.name} does not hold what {path.name} does: nothing was archived")
    part.replace(target)
    sync_directory(path.parent)
    path.unlink()
    sync_directory(path.parent)


def _same(path: Path, packed: Path) -> bool:
    with path.open("rb") as source, gzip.open(packed) as other:
        while chunk := source.read(CHUNK):
            if other.read(len(chunk)) != chunk:
                return False
        return not other.read(1)

"""Follows a log while it is written: how many requests ended, the last entries of its journal."""

from collections import Counter, deque
from math import inf
from pathlib import Path
from typing import Final

import duckdb

from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.chronicle import Chronicler, JournalEntry, Wanted
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.logfiles import log_files
from plimsoll.storage.logspans import ended_since
from plimsoll.storage.query import connect
from plimsoll.storage.reader import first_offset, read_rows
from plimsoll.storage.rows import decode_settle

MOST: Final = 2000
"""Entries that are kept: the latest."""
AT_ONCE: Final = 50_000
"""Rows read in one go."""


class Tail:
    """One log. `look` reads what is new since the last look; it is called by one thread."""

    def __init__(self, root: Path, since: float) -> None:
        self.entries: deque[JournalEntry] = deque(maxlen=MOST)
        self.last_at: float | None = None  # the latest end of a request
        self.num = 0  # requests that ended since the tail began
        self.reasons: Counter[tuple[str, str, str]] = Counter()  # (tenant, outcome, reason) of those not completed
        self._journal = DataDirectory(root).journal
        self._chronicler = Chronicler(Wanted(since))
        self._offset = offset_at(root, since)

    def look(self) -> bool:
        """Whether anything was new."""
        news = False
        for number, row in enumerate(read_rows(self._journal, self._offset)):
            news = True
            self._offset = row.end
            if row.kind == RowKind.SETTLE:
                record = decode_settle(row.payload).record
                self.num += 1
                self.last_at = max(self.last_at or -inf, record.finished_at)
                for entry in self._chronicler.settled(record):
                    self.reasons[record.tenant, record.outcome.value, record.reason.value] += 1
                    self.entries.append(entry)
            else:
                self.entries.extend(self._chronicler.take(row))
            if number >= AT_ONCE:
                break
        return news


def offset_at(root: Path, since: float) -> int:
    """Where the log must be read from for all that ended since then; by the Parquet files, else its beginning."""
    paths = DataDirectory(root)
    start = first_offset(paths.journal)
    if since == -inf:
        return start
    files = log_files(paths.requests)
    wanted = ended_since(files, since)
    start = max([start, *[each.start for each in wanted[:1]], *[each.end for each in files[-1:] if not wanted]])
    with connect(root, since) as connection:
        try:
            rows = connection.execute(
                f"SELECT max(log_offset) FROM requests WHERE finished_at < {since!r}::DOUBLE"
                f" AND log_offset < (SELECT min(log_offset) FROM requests WHERE finished_at >= {since!r}::DOUBLE)"
            ).fetchall()
        except duckdb.Error:
            return start
    return max(start, int(rows[0][0])) if rows and rows[0][0] is not None else start

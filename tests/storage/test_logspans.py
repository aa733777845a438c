"""Which files of a log are read for the last hour: those that can hold a request of it, whatever their names say."""

import shutil
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.console.logreading import span_of
from plimsoll.console.tailing import offset_at
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.journal import Journal
from plimsoll.storage.logfiles import log_files
from plimsoll.storage.logspans import ended_since, span_of_file
from plimsoll.storage.projections import Projections
from plimsoll.storage.query import connect
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import decode_settle
from tests.storage.rows import record

ENDS = (100.0, 200.0, 150.0, 300.0)
"""Of the requests, in the log's order: the time of day was set back between the second and the third."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One file each for the first three; the fourth is in the journal alone."""
    root = tmp_path / "data"
    for number, end in enumerate(ENDS):
        with closing(Journal.open(root)) as journal:
            journal.settle(Settle(replace(record(number), arrived_at=end - 5.0, finished_at=end), ()))
            journal.flush()
        if number < 3:
            with Projections(root, None) as projections:
                projections.catch_up()
    return root


def ids(root: Path, since: float) -> set[float]:
    with connect(root, since) as connection:
        return {row[0] for row in connection.execute("SELECT finished_at FROM requests").fetchall()}


def test_files_say_when_their_requests_came_and_ended(log: Path) -> None:
    files = log_files(log / "requests")
    assert [tuple(span_of_file(each)) for each in files] == [(end - 5.0, end) for end in ENDS[:3]]


def test_whatever_ended_since_is_read_and_older_files_are_not(log: Path) -> None:
    files = log_files(log / "requests")
    for since in (-inf, 0.0, 100.0, 100.1, 150.0, 151.0, 200.1, 301.0, inf):
        wanted = {end for end in ENDS if end >= since}
        assert wanted <= ids(log, since)
        assert ended_since(files, since) == [each for each, end in zip(files, ENDS[:3], strict=True) if end >= since]


def test_a_file_that_cannot_be_read_may_hold_anything(log: Path) -> None:
    (first, *_) = log_files(log / "requests")
    first.path.write_bytes(b"no Parquet")
    assert tuple(span_of_file(first)) == (-inf, inf)
    assert first in ended_since([first], 1000.0)


def test_a_file_that_is_made_anew_is_looked_at_anew(log: Path) -> None:
    first, second, _ = log_files(log / "requests")
    assert span_of_file(first).last_end == 100.0
    shutil.copy(second.path, first.path)
    assert span_of_file(first).last_end == 200.0


def test_the_span_of_a_log_is_that_of_files_and_journal(log: Path, tmp_path: Path) -> None:
    span = span_of(log)
    assert (span.first, span.last) == (95.0, 300.0)
    with closing(Journal.open(tmp_path / "empty")):
        pass
    assert span_of(tmp_path / "empty").first is None


@pytest.mark.parametrize("since", [-inf, 90.0, 150.0, 160.0, 250.0, 301.0])
def test_from_the_offset_on_is_all_that_ended_since(log: Path, since: float) -> None:
    rows = [row for row in read_rows(log / "journal", offset_at(log, since)) if row.kind == RowKind.SETTLE]
    ended = {decode_settle(row.payload).record.finished_at for row in rows}
    assert {end for end in ENDS if end >= since} <= ended
    if since > 250.0:
        assert 100.0 not in ended

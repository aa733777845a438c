"""The request log: every settlement once, in Parquet or in the journal's tail, whatever dies when."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from plimsoll.errors import SchemaTooNew, StorageError, UsageError
from plimsoll.requestlog.codec import NUM_FIRST_COLUMNS
from plimsoll.requestlog.record import Record
from plimsoll.storage import requestlog
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.logfiles import all_files, log_files
from plimsoll.storage.query import connect, records
from plimsoll.storage.requestlog import RequestLog
from tests.storage.rows import NOVEMBER, record, settle


def write(journal: Journal, numbers: range) -> None:
    for number in numbers:
        journal.opened(number, "acme", "gold", NOVEMBER)
        journal.settle(settle(number, bad=number % 5 == 0))
    journal.flush()


def project(home: Path) -> None:
    log = RequestLog(DataDirectory(home))
    while log.advance(1 << 62, force=True):
        pass


def in_view(home: Path) -> list[int]:
    with connect(home) as connection:
        found = connection.execute("SELECT request_id FROM requests ORDER BY log_offset").fetchall()
    return [row[0] for row in found]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6))
def test_each_once_wherever_it_lies(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]]) -> None:
    """Any interleaving of writing and projecting, in small files, small segments and merges."""
    home = tmp_path_factory.mktemp("log") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requestlog, "MAX_ROWS", 7)
        patch.setattr(requestlog, "MERGE_AT", 3)
        journal = Journal.open(home, segment_bytes=16 * 1024)
        total = 0
        for num, projected in steps:
            write(journal, range(total, total + num))
            total += num
            if projected:
                project(home)
        assert [found.request_id for found in records(home)] == list(range(total))
        assert in_view(home) == list(range(total))
        journal.close()


def test_columns_go_and_come_back(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    write(journal, range(1, 11))
    journal.close()
    before = list(records(tmp_path))
    project(tmp_path)
    assert list(records(tmp_path)) == before == [record(number, bad=number % 5 == 0) for number in range(1, 11)]


def test_queries_see_lists_and_numbers(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    write(journal, range(1, 11))
    project(tmp_path)
    write(journal, range(11, 21))
    journal.close()
    with connect(tmp_path) as connection:
        spent = "SELECT sum(e.amount) FROM (SELECT unnest(entries) e FROM requests) WHERE e.source = 'acme/ttft/bucket'"
        assert connection.execute(spent).fetchone() == (4,)
        bad = (
            "SELECT count(*) FROM (SELECT unnest(verdicts) v FROM requests) WHERE v.objective = 'itl' AND v.num_bad = 2"
        )
        assert connection.execute(bad).fetchone() == (20,)
        assert connection.execute("SELECT count(cached_tokens), avg(ttft) FROM requests").fetchone() == (0, 0.7)


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    write(journal, range(1, 4))
    journal.close()
    part = tmp_path / "requests" / f"{0:020d}-{99:020d}.part"
    part.write_bytes(b"PAR1")
    project(tmp_path)
    assert not part.exists()
    assert [found.request_id for found in records(tmp_path)] == [1, 2, 3]


def test_merged_files_are_left_out_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requestlog, "MERGE_AT", 4)
    journal = Journal.open(tmp_path)
    for step in range(4):
        write(journal, range(step * 3, step * 3 + 3))
        project(tmp_path)
    files = list(all_files(tmp_path / "requests"))
    assert (len(files), len(log_files(tmp_path / "requests"))) == (5, 1)
    assert in_view(tmp_path) == list(range(12))
    monkeypatch.setattr(requestlog, "GRACE", -1.0)
    write(journal, range(12, 15))
    project(tmp_path)
    journal.close()
    assert len(list(all_files(tmp_path / "requests"))) == 2
    assert in_view(tmp_path) == list(range(15))


def test_small_amounts_wait_and_large_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(tmp_path)
    write(journal, range(1, 10))
    log = RequestLog(DataDirectory(tmp_path))
    log.advance(5000)
    assert not log_files(tmp_path / "requests"), "it waits for more"
    monkeypatch.setattr(requestlog, "MAX_AGE", 0.0)
    log.advance(5000)
    assert len(log_files(tmp_path / "requests")) == 1
    journal.close()


def test_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no data directory"):
        list(records(tmp_path))
    (tmp_path / "plimsoll.json").write_text('{"schema": 7, "log": "x"}')
    with pytest.raises(SchemaTooNew):
        connect(tmp_path)


def in_small_files(home: Path) -> list[Path]:
    journal = Journal.open(home)
    for step in range(4):
        write(journal, range(step * 3, step * 3 + 3))
        project(home)
    journal.close()
    return sorted((home / "requests").glob("*.parquet"))


def test_a_file_that_was_removed_is_not_missed_in_silence(tmp_path: Path) -> None:
    in_small_files(tmp_path)[1].unlink()
    assert in_view(tmp_path) == [found.request_id for found in records(tmp_path)] == list(range(12))
    project(tmp_path)
    assert log_files(tmp_path / "requests")[-1].end == max(file.end for file in all_files(tmp_path / "requests"))
    assert in_view(tmp_path) == list(range(12))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    damaged = in_small_files(tmp_path)[1]
    damaged.write_bytes(bytes(1000))
    with pytest.raises(StorageError, match=damaged.name):
        in_view(tmp_path)
    with pytest.raises(StorageError, match=damaged.name):
        list(records(tmp_path))


@pytest.mark.parametrize("first", [NUM_FIRST_COLUMNS, NUM_FIRST_COLUMNS + 1])
def test_files_from_before_a_column_are_read_beside_newer_ones(tmp_path: Path, first: int) -> None:
    later = [field.name for field in msgspec.structs.fields(Record)][first:]
    with_journal = Journal.open(tmp_path, 1, clock=lambda: NOVEMBER)
    write(with_journal, range(1, 4))
    project(tmp_path)
    (old,) = log_files(DataDirectory(tmp_path).requests)
    table = parquet.read_table(old.path)
    parquet.write_table(table.drop_columns(later), old.path)
    write(with_journal, range(4, 6))
    project(tmp_path)
    with_journal.close()
    found = list(records(tmp_path))
    assert [each.request_id for each in found] == [1, 2, 3, 4, 5]
    assert {each.parent_span_id for each in found} == {""}

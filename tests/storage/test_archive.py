"""Old segments are packed and read as before, whatever dies in between."""

import gzip
from pathlib import Path

import pytest

from plimsoll.errors import JournalDamaged
from plimsoll.policy import document
from plimsoll.policy.policy import StorageRules
from plimsoll.storage.archive import archive
from plimsoll.storage.audit import audit
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from plimsoll.storage.reader import Row, read_rows
from plimsoll.storage.segment import all_segments, segments
from tests.storage.rows import NOVEMBER, POLICY, settle

SEGMENT = 256 * 1024
NUM = 2_000
FAR = 1e12
FAR_OFFSET = 1 << 62
Told = tuple[int, int, bytes]


def told(rows: list[Row]) -> list[Told]:
    return [(row.start, row.end, bytes(row.payload)) for row in rows]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A journal of several segments, projected."""
    journal = Journal.open(tmp_path, segment_bytes=SEGMENT)
    journal.policy(NOVEMBER, POLICY)
    for number in range(1, NUM + 1):
        journal.settle(settle(number, bad=number % 10 == 0))
        journal.flush()
    journal.close()
    with Projections(tmp_path) as projections:
        projections.catch_up()
    assert len(segments(tmp_path / "journal")) >= 4
    return tmp_path


def test_every_reader_finds_the_same(home: Path) -> None:
    journal = home / "journal"
    before, plain = told(list(read_rows(journal, 0))), segments(journal)
    size = sum(path.stat().st_size for path in plain[:-2])
    assert archive(journal, FAR_OFFSET, FAR) == len(plain) - 2
    assert segments(journal) == plain[-2:]
    assert len(all_segments(journal)) == len(plain)
    assert sum(path.stat().st_size for path in journal.glob("*.gz")) < size / 3
    assert told(list(read_rows(journal, 0))) == before
    middle = before[len(before) // 3][1]
    assert told(list(read_rows(journal, middle))) == before[len(before) // 3 + 1 :]
    assert archive(journal, FAR_OFFSET, FAR) == 0


def test_only_what_is_projected_and_old_is_packed(home: Path) -> None:
    journal = home / "journal"
    plain = segments(journal)
    assert archive(journal, FAR_OFFSET, 0.0) == 0
    assert archive(journal, int(plain[1].stem) - 1, FAR) == 0
    assert archive(journal, int(plain[1].stem), FAR) == 1


def test_the_books_are_proven_and_made_anew_from_archives(home: Path) -> None:
    archive(home / "journal", FAR_OFFSET, FAR)
    paths = DataDirectory(home)
    with Projections(home) as projections:
        assert audit(paths, projections.books).findings == ()
        balances = projections.books.balances()
        projections.books.forget(paths.identity().log, 0)
    with Projections(home) as projections:
        assert projections.catch_up().num_settled == NUM
        assert projections.books.balances() == balances
        assert audit(paths, projections.books).findings == ()


def test_the_log_goes_on_behind_its_archives(home: Path) -> None:
    archive(home / "journal", FAR_OFFSET, FAR)
    journal = Journal.open(home, segment_bytes=SEGMENT)
    first = journal.next_request_id
    for number in range(NUM + 1, NUM + 51):
        journal.settle(settle(number))
    journal.close()
    assert first > NUM
    with Projections(home) as projections:
        assert projections.catch_up().num_settled == 50
        assert audit(DataDirectory(home), projections.books).findings == ()


def test_a_crash_at_any_moment_leaves_one_of_both(home: Path) -> None:
    """Killed while packing (half an archive beside), or between the archive's name and the end of its source."""
    journal = home / "journal"
    before, plain = told(list(read_rows(journal, 0))), segments(journal)
    whole = plain[0].read_bytes()
    plain[0].with_suffix(".part").write_bytes(gzip.compress(whole)[:1000])
    assert told(list(read_rows(journal, 0))) == before
    plain[0].with_suffix(".log.gz").write_bytes(gzip.compress(whole))
    assert told(list(read_rows(journal, 0))) == before
    assert archive(journal, FAR_OFFSET, FAR) == len(plain) - 2
    assert not list(journal.glob("*.part"))
    assert told(list(read_rows(journal, 0))) == before


def test_a_segment_that_is_archived_while_it_is_read(home: Path) -> None:
    journal = home / "journal"
    before = told(list(read_rows(journal, 0)))
    rows = read_rows(journal, 0)
    seen = [next(rows)]
    archive(journal, FAR_OFFSET, FAR)
    assert told([*seen, *rows]) == before


def test_a_damaged_archive_is_named(home: Path) -> None:
    journal = home / "journal"
    archive(journal, FAR_OFFSET, FAR)
    packed = all_segments(journal)[0]
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(JournalDamaged, match=packed.name):
        list(read_rows(journal, 0))


def test_the_policy_in_force_says_when(home: Path) -> None:
    text = "plimsoll: 1\ntiers: [{name: g, rank: 0}]\nstorage: {archive_after: 7d}\n"
    policy = document.parse(text)
    assert policy.storage == StorageRules(7 * 86_400.0)
    with Projections(home) as projections:
        assert projections.archive(FAR, None) == 0, "no policy is in force yet"
        assert projections.archive(FAR, POLICY) == 0
        assert projections.archive(0.0, policy) == 0
        assert projections.archive(FAR, policy) > 0

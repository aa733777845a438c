"""The journal: what was flushed is there after a kill, whatever the byte at which the file ends."""

import errno
import os
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.errors import DataDirectoryBusy, DiskFull, JournalDamaged, SchemaTooNew, StorageError
from plimsoll.requestlog.codec import RowKind
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.sli import Judgement
from plimsoll.storage import keeper, reader
from plimsoll.storage.journal import Journal
from plimsoll.storage.keeper import Keeper
from plimsoll.storage.policies import decode_policy, encode_policy
from plimsoll.storage.reader import read_rows, sync_range
from plimsoll.storage.rows import decode_settle
from plimsoll.storage.segment import base_of, segments
from tests.storage.rows import NOVEMBER, POLICY, settle

SMALL = 16 * 1024


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


def settled(home: Path) -> list[tuple[int, Outcome]]:
    rows = (decode_settle(row.payload) for row in read_rows(home / "journal", 0) if row.kind == RowKind.SETTLE)
    return [(row.record.request_id, row.record.outcome) for row in rows]


def abandon(journal: Journal) -> None:
    """End as a killed process does: no flush, no close of the log; only what this test process must give back."""
    journal._appender.abandon()
    journal._lock.release()


def write(journal: Journal, numbers: range) -> None:
    for number in numbers:
        journal.opened(number, "acme", "gold", NOVEMBER)
        journal.settle(settle(number))


def test_what_was_flushed_is_read(home: Path) -> None:
    journal = Journal.open(home)
    write(journal, range(1, 4))
    assert settled(home) == [], "nothing is written before the flush"
    journal.flush()
    assert settled(home) == [(1, Outcome.COMPLETED), (2, Outcome.COMPLETED), (3, Outcome.COMPLETED)]
    assert decode_settle(next(r for r in read_rows(home / "journal", 0) if r.kind == RowKind.SETTLE).payload) == settle(
        1
    )
    journal.close()


def test_open_requests_are_interrupted_once(home: Path) -> None:
    journal = Journal.open(home)
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 3))
    journal.opened(7, "acme", "gold", NOVEMBER, model="llama")
    journal.flush()
    journal.settle(settle(7))  # never flushed: its client never saw the end
    abandon(journal)
    for _ in range(2):
        journal = Journal.open(home, clock=lambda: NOVEMBER + 30.0)
        journal.close()
    assert settled(home) == [(1, Outcome.COMPLETED), (2, Outcome.COMPLETED), (7, Outcome.INTERRUPTED)]
    row = list(read_rows(home / "journal", 0))[-1]
    last = decode_settle(row.payload)
    assert last.record.model == "llama"
    assert last.record.finished_at == NOVEMBER + 30.0
    judged = {verdict.objective: verdict.judgement for verdict in last.record.verdicts}
    assert judged == {"ttft": Judgement.BAD, "itl": Judgement.EXCLUDED, "availability": Judgement.BAD}
    assert [(entry.source, entry.amount, entry.period) for entry in last.entries] == [
        ("acme/ttft/bucket", 1, "2026-11"),
        ("acme/availability/bucket", 1, "2026-11"),
    ]


def test_ids_are_never_given_twice(home: Path) -> None:
    journal = Journal.open(home, writer=3)
    first = journal.next_request_id
    assert first >> 40 == 3
    write(journal, range(first, first + 5))
    journal.close()
    journal = Journal.open(home, writer=3)
    assert journal.next_request_id > first + 4
    journal.close()


def test_segments_follow_each_other(home: Path) -> None:
    journal = Journal.open(home, segment_bytes=SMALL)
    journal.opened(10_000, "acme", "gold", NOVEMBER)
    for number in range(1, 200):
        write(journal, range(number, number + 1))
        journal.flush()
    assert len(segments(home / "journal")) > 5
    abandon(journal)
    journal = Journal.open(home, segment_bytes=SMALL)
    assert [opened.request_id for opened in journal.recovered.interrupted] == [10_000], "found by its checkpoint"
    journal.close()
    assert [number for number, _ in settled(home)] == [*range(1, 200), 10_000]
    middle = list(read_rows(home / "journal", 0))[150]
    assert next(read_rows(home / "journal", middle.end)).start >= middle.end


def test_recovery_does_not_read_old_segments(home: Path) -> None:
    journal = Journal.open(home, segment_bytes=SMALL)
    for number in range(1, 200):
        write(journal, range(number, number + 1))
        journal.flush()
    journal.close()
    journal = Journal.open(home, segment_bytes=SMALL)
    write(journal, range(300, 301))
    journal.flush()  # says in the log how far it is on the device
    journal.close()
    oldest = segments(home / "journal")[0]
    oldest.write_bytes(b"x" * oldest.stat().st_size)
    journal = Journal.open(home, segment_bytes=SMALL)
    assert not journal.recovered.interrupted
    journal.close()


class Written(NamedTuple):
    """A journal of one segment, its bytes, and where each settlement ends in it."""

    home: Path
    content: bytes
    ends: list[int]

    def __repr__(self) -> str:
        return f"Written({len(self.content)} bytes)"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    home = tmp_path_factory.mktemp("written") / "data"
    journal = Journal.open(home, segment_bytes=SMALL)
    for number in range(1, 11):
        write(journal, range(number, number + 1))
        journal.flush()
    abandon(journal)
    ends = [row.end for row in read_rows(home / "journal", 0) if row.kind == RowKind.SETTLE]
    return Written(home, segments(home / "journal")[0].read_bytes(), ends)


def rebuilt(written: Written, tmp: Path, data: bytes) -> Path:
    home = tmp / os.urandom(8).hex()
    (home / "journal").mkdir(parents=True)
    (home / "plimsoll.json").write_bytes((written[0] / "plimsoll.json").read_bytes())
    (home / "journal" / segments(written[0] / "journal")[0].name).write_bytes(data)
    return home


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(0, SMALL), zeros=st.booleans())
def test_torn_at_any_byte(written: Written, tmp_path_factory: pytest.TempPathFactory, cut: int, zeros: bool) -> None:
    """Cut anywhere, or zeros from anywhere on: each settlement before is there, each open request is settled."""
    _, content, ends = written
    torn = content[:cut] + (bytes(len(content) - cut) if zeros else b"")
    home = rebuilt(written, tmp_path_factory.getbasetemp(), torn)
    journal = Journal.open(home, segment_bytes=SMALL)
    write(journal, range(100, 101))
    journal.close()
    found = settled(home)
    whole = [number for number, outcome in found if outcome is Outcome.COMPLETED]
    assert whole == [*range(1, sum(end <= cut for end in ends) + 1), 100]
    assert len({number for number, _ in found}) == len(found), "each once"


@settings(max_examples=50, deadline=None)
@given(place=st.integers(0, SMALL), bit=st.integers(0, 7))
def test_damage_before_the_end_is_told(
    written: Written, tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    """A flipped bit in any record but the last: nothing is touched, and the place is named."""
    _, content, ends = written
    place %= ends[-2]
    flipped = bytearray(content)
    flipped[place] ^= 1 << bit
    home = rebuilt(written, tmp_path_factory.getbasetemp(), bytes(flipped))
    with pytest.raises((JournalDamaged, SchemaTooNew)) as told:
        Journal.open(home, segment_bytes=SMALL)
    if isinstance(told.value, JournalDamaged):
        assert told.value.offset <= place
        assert told.value.segment in str(told.value)
    assert segments(home / "journal")[0].read_bytes() == bytes(flipped)


def test_pages_lost_to_a_power_failure_are_cut(written: Written, tmp_path: Path) -> None:
    """A page that was never written, behind it one that was: not damage as long as nothing proves an fsync."""
    _, content, ends = written
    lost = content[:4096] + bytes(1024) + content[5120:]
    home = rebuilt(written, tmp_path, lost)
    Journal.open(home, segment_bytes=SMALL).close()
    assert [number for number, outcome in settled(home) if outcome is Outcome.COMPLETED] == [
        number for number, end in enumerate(ends, 1) if end <= 4096
    ]


def test_a_power_failure_between_segments(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of one segment is lost and the next one is there: the log ends at the lost page, or it is damage."""
    monkeypatch.setattr(keeper, "SYNC_EVERY", 60.0)
    journal = Journal.open(home, segment_bytes=SMALL)
    for number in range(1, 36):
        write(journal, range(number, number + 1))
        journal.flush()
    abandon(journal)
    first, *later = segments(home / "journal")
    assert later
    content = first.read_bytes()
    first.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    monkeypatch.setattr(keeper, "SYNC_EVERY", 0.01)
    journal = Journal.open(home, segment_bytes=SMALL)
    journal.opened(90, "acme", "gold", NOVEMBER)
    journal.settle(settle(90))
    journal.flush()
    while journal.state.unsynced_bytes:
        journal._keeper._stop.wait(0.01)
    for number in range(91, 116):
        write(journal, range(number, number + 1))
    journal.flush()  # says how far the log is on the device
    journal.close()
    whole = [number for number, outcome in settled(home) if outcome is Outcome.COMPLETED]
    kept = len(whole) - 26
    assert 0 < kept < 25
    assert whole == [*range(1, kept + 1), *range(90, 116)]
    assert len(segments(home / "journal")) > 1
    content = first.read_bytes()
    first.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    with pytest.raises(JournalDamaged, match=first.name):
        list(read_rows(home / "journal", 0))


def test_a_restart_stays_small(home: Path) -> None:
    """Recovery maps a segment and copies none of it."""
    journal = Journal.open(home)
    write(journal, range(1, 200))
    abandon(journal)
    tracemalloc.start()
    Journal.open(home).close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


def test_one_writer(home: Path) -> None:
    journal = Journal.open(home)
    with pytest.raises(DataDirectoryBusy, match=str(os.getpid())):
        Journal.open(home)
    journal.close()
    Journal.open(home).close()


def test_newer_schema(home: Path) -> None:
    Journal.open(home).close()
    (home / "plimsoll.json").write_text('{"schema": 99, "log": "0"}')
    with pytest.raises(SchemaTooNew, match="99"):
        Journal.open(home)


def test_a_directory_whose_log_has_gone_is_told_as_that(home: Path) -> None:
    Journal.open(home).close()
    (home / "journal").rename(home.parent / "elsewhere")
    for _ in range(2):  # the lock was given back
        with pytest.raises(StorageError, match="without its log"):
            Journal.open(home)
    assert not (home / "journal").exists()


def test_fsync_follows(home: Path) -> None:
    journal = Journal.open(home)
    write(journal, range(1, 3))
    journal.flush()
    deadline = 50
    while journal.state.unsynced_bytes and deadline:
        deadline -= 1
        journal._keeper._stop.wait(0.02)
    assert journal.state.unsynced_bytes == 0
    journal.close()


def test_policies_are_kept_as_values(home: Path) -> None:
    kept = decode_policy(encode_policy(POLICY))
    assert kept.tiers == POLICY.tiers
    assert kept.tenants[0].keys == (), "digests of keys have no business in the log"
    journal = Journal.open(home)
    for _ in range(3):
        journal.policy(NOVEMBER, POLICY)
    journal.close()
    assert [row.kind for row in read_rows(home / "journal", 0)] == [RowKind.NOTE]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A switch: while its value is true, no new segment can be allocated."""
    full = [False]
    allocate = os.posix_fallocate

    def refuse(fd: int, offset: int, length: int) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(fd, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    return full


def ready(keeper: Keeper) -> None:
    while not keeper.ensure_reserve():
        keeper._stop.wait(0.01)


def test_a_full_disk_is_survived_within_the_stated_bound(home: Path, full_disk: list[bool]) -> None:
    journal = Journal.open(home, segment_bytes=8 * SMALL)
    ready(journal._keeper)
    full_disk[0] = True
    number = 0
    promised = None
    while journal.accepting:
        number += 1
        journal.opened(number, "acme", "gold", NOVEMBER)
        if number > 5:  # five are always open
            journal.settle(settle(number - 5))
        journal.flush()
        if promised is None and journal.state.mode == "reserve":
            promised = number + journal.state.room_rows
    number += 1
    with pytest.raises(DiskFull):
        journal.opened(number, "acme", "gold", NOVEMBER)
    assert promised is not None, "it said so before"
    assert number > promised, "and kept to its bound"
    assert (journal.state.mode, journal.accepting) == ("full", False)
    for open_one in range(number - 5, number):
        journal.settle(settle(open_one))
    journal.flush()
    for refused in range(900, 1200):
        journal.settle(settle(refused))  # refusals: told while there is room, counted where there is none
    journal.flush()
    assert journal.state.num_unlogged > 0
    lost = journal.state.num_unlogged
    full_disk[0] = False
    ready(journal._keeper)
    journal.flush()
    assert (journal.state.num_unlogged, journal.accepting) == (0, True)
    journal.close()
    numbers = [found for found, _ in settled(home)]
    assert numbers[: number - 1] == list(range(1, number)), "nothing was lost"
    assert len(numbers) == number - 1 + 300 - lost
    notes = [row for row in read_rows(home / "journal", 0) if row.kind == RowKind.NOTE]
    assert len(notes) == 1


def test_restart_on_a_full_disk(home: Path, full_disk: list[bool]) -> None:
    journal = Journal.open(home, segment_bytes=SMALL)
    ready(journal._keeper)
    write(journal, range(1, 3))
    journal.flush()
    abandon(journal)
    full_disk[0] = True
    journal = Journal.open(home, segment_bytes=SMALL)
    write(journal, range(5, 6))
    journal.close()
    assert [number for number, _ in settled(home)] == [1, 2, 5]


def test_no_room_at_all(home: Path, full_disk: list[bool]) -> None:
    full_disk[0] = True
    with pytest.raises(DiskFull, match="no room"):
        Journal.open(home)


def test_reading_beyond_the_log_is_told(home: Path) -> None:
    Journal.open(home, segment_bytes=SMALL).close()
    with pytest.raises(StorageError, match="had been read up to"):
        list(read_rows(home / "journal", 10 * SMALL))


def test_a_reader_behind_the_seal_finds_the_next_segment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer seals a segment, then makes the next one appear: a reader may look in between."""
    journal = Journal.open(home, segment_bytes=SMALL)
    for number in range(1, 40):
        write(journal, range(number, number + 1))
        journal.flush()
    found = segments(home / "journal")
    assert len(found) == 2
    looks = iter([found[:1], found[:1]])  # for the first segment, and for the place behind its seal
    monkeypatch.setattr(reader, "all_segments", lambda journal: next(looks, found))
    assert [number for number, _ in settled(home)] == list(range(1, 40))
    journal.close()


def test_sync_range_touches_the_segments_of_its_range_and_no_others(home: Path) -> None:
    journal = Journal.open(home, segment_bytes=SMALL)
    for number in range(1, 60):
        write(journal, range(number, number + 1))
        journal.flush()
    end = list(read_rows(home / "journal", 0))[-1].end
    journal.close()
    sync_range(home / "journal", 0, end)
    _, second, *_ = segments(home / "journal")
    second.unlink()
    second.symlink_to(home / "nowhere")  # whoever opens it now, fails
    sync_range(home / "journal", 0, base_of(second))
    with pytest.raises(FileNotFoundError):
        sync_range(home / "journal", 0, end)

"""Disks that are really full: a small tmpfs where we may mount one, a limit on file sizes everywhere."""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.errors import DiskFull
from plimsoll.slo.outcome import Outcome
from plimsoll.storage.audit import audit
from plimsoll.storage.journal import Journal, JournalState
from plimsoll.storage.projections import Follower, Projections
from plimsoll.storage.query import records
from tests.storage.rows import NOVEMBER, POLICY, settle

SEGMENT = 256 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("a file system cannot be mounted here; the limit on file sizes stands for it")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def no_larger_files() -> Iterator[None]:
    """While it holds, no further segment can be allocated, and those that are there can be written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return filler


def ready(journal: Journal) -> None:
    while not journal._keeper.ensure_reserve():
        time.sleep(0.01)


def serve_until_refused(journal: Journal) -> tuple[int, JournalState]:
    """Requests, three always open, until no more are taken; how many, and the state when the trouble was first told."""
    number = 0
    told: JournalState | None = None
    at = 0
    while journal.accepting:
        number += 1
        journal.opened(number, "acme", "gold", NOVEMBER)
        if number > 3:
            journal.settle(settle(number - 3, bad=number % 10 == 0))
        journal.flush()
        if told is None and journal.state.mode == "reserve":
            told, at = journal.state, number
    with pytest.raises(DiskFull):
        journal.opened(number + 1, "acme", "gold", NOVEMBER)
    assert told is not None, "it says so while it still serves"
    assert number - at >= told.room_rows > 0, "and keeps to the bound that it states"
    for waiting in range(number - 2, number + 1):
        journal.settle(settle(waiting))
    journal.flush()
    return number, told


def completed(home: Path) -> list[int]:
    return [record.request_id for record in records(home) if record.outcome is Outcome.COMPLETED]


def test_on_a_small_disk(small_disk: Path) -> None:
    """Serves on, says so, refuses in the end, loses nothing, and goes on when there is room; the projector too."""
    home = small_disk / "data"
    journal = Journal.open(home, segment_bytes=SEGMENT)
    journal.policy(NOVEMBER, POLICY)
    journal.flush()
    ready(journal)
    filler = fill(small_disk)
    number, _ = serve_until_refused(journal)
    assert completed(home) == list(range(1, number + 1))
    said: list[str] = []
    stopping = threading.Event()

    def work() -> None:
        Follower(stopping.is_set, said.append, pause=0.05).run(home)

    filler.unlink()  # for a moment, so that the projector can come up
    projector = threading.Thread(target=work)
    projector.start()
    while not (home / "ledger.sqlite").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    filler = fill(small_disk)
    ready_again = number + 10
    for waiting in range(number + 1, ready_again):
        journal.settle(settle(waiting))
    journal.flush()
    time.sleep(0.5)
    filler.unlink()
    ready(journal)
    stopping.set()
    projector.join(60)
    assert not projector.is_alive()
    journal.close()
    with Projections(home) as projections:
        projections.catch_up()
        proof = audit(journal.paths, projections.books)
    assert proof.findings == ()
    assert len(completed(home)) == len(set(completed(home))) >= number


def test_with_a_limit_on_files(tmp_path: Path, no_larger_files: None) -> None:
    home = tmp_path / "data"
    journal = Journal.open(home, segment_bytes=SEGMENT)
    ready(journal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT - 1, resource.RLIM_INFINITY))
    number, told = serve_until_refused(journal)
    assert told.room_bytes <= SEGMENT
    assert journal.state.mode in {"reserve", "full"}
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ready(journal)
    assert (journal.state.mode, journal.accepting) == ("ok", True)
    journal.close()
    assert completed(home) == list(range(1, number + 1))

"""kill -9 while decisions are journaled: each is booked once, and the books prove it."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.storage.audit import audit
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Projections

ROOT = Path(__file__).parents[2]
LOAN = Entry(EntryKind.LOAN, "beta/ttft/part", "acme/ttft/borrowed:beta:ttft", 1, "2026-11")


def kill_often(home: Path, kills: int) -> None:
    dice, inbox, made = random.Random(kills), Inbox(home), 0
    home.mkdir()
    for _ in range(kills):
        for _ in range(20):
            made += 1
            inbox.put(Decided(f"pool/2026-11/ttft/{made}", DecisionKind.POOL, (LOAN,)))
        command = [sys.executable, "-m", "tests.storage.decider", str(home)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "READY\n"
            time.sleep(0.03 * dice.random())
            writer.kill()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as writer:
        deadline = time.monotonic() + 60
        while inbox.decisions():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        writer.kill()
    with Projections(home) as projections:
        projections.catch_up()
    with LedgerDatabase(home / "ledger.sqlite") as books:
        assert books.balances()["acme/ttft/borrowed:beta:ttft", "2026-11"] == made
        assert len(books.decisions()) == made
        assert audit(DataDirectory(home), books).findings == ()


def test_killed_six_times(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", 6)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", 200)

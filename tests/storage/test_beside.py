"""The minute's assessment runs beside the log's follower: neither holds the other up, and trouble is told once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from plimsoll.policy.document import load
from plimsoll.storage.beside import Beside
from plimsoll.storage.budgeting import BudgetKeeper, MinuteHand
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.knowing import _all_since, _renew
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Follower
from plimsoll.storage.tables import hours, positions
from tests.storage.rows import settle

TEXT = """
plimsoll: 1
tiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 800ms, target: 99%}]}]
tenants: [{name: acme, tier: gold}]
pools: [{name: chat, model: m, engine: vllm, replicas: ["http://127.0.0.1:8000"]}]
"""
NOBODY = "l" * 32


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    paths = DataDirectory(tmp_path / "data")
    made = Journal.open(paths.root)
    paths.policy.write_text(TEXT)
    made.policy(time.time(), load(paths.policy))
    made.flush()
    yield made
    made.close()


def test_the_log_is_followed_while_a_minute_is_assessed(journal: Journal) -> None:
    entered, release, stopping = threading.Event(), threading.Event(), threading.Event()

    def listener(*_: object) -> None:
        entered.set()
        assert release.wait(60.0)

    follower = Follower(stopping.is_set, print, pause=0.02, listener=listener)
    following = threading.Thread(target=follower.run, args=(journal.paths.root,))
    following.start()
    try:
        assert entered.wait(60.0), "the first minute is assessed at once"
        journal.settle(settle(1, bad=True))
        journal.flush()
        deadline = time.monotonic() + 60.0
        with LedgerDatabase(journal.paths.ledger) as books:
            while not books.balances():
                assert time.monotonic() < deadline, "the log stands still meanwhile"
                time.sleep(0.02)
    finally:
        stopping.set()
        release.set()
        following.join(60.0)
    assert not following.is_alive()


def test_who_reads_the_books_sees_one_instant_and_keeps_no_writer_waiting(tmp_path: Path) -> None:
    path, query = tmp_path / "books.sqlite", select(positions.c.reached)
    with LedgerDatabase(path) as reader, LedgerDatabase(path) as writer:
        writer.position(NOBODY, 7)
        with reader.reading() as connection:
            assert connection.execute(query).scalars().all() == [7]
            began = time.monotonic()
            writer.position("m" * 32, 9)
            assert time.monotonic() - began < 10.0, "less than the time that it would wait for a lock"
            assert connection.execute(query).scalars().all() == [7]


def test_what_one_call_raises_is_raised_once() -> None:
    beside = Beside()

    def fails() -> None:
        raise OSError("no room")

    beside.start(fails)
    beside.close()
    with pytest.raises(OSError, match="no room"):
        assert not beside.idle
    assert beside.idle


def test_trouble_that_stays_is_told_once(journal: Journal) -> None:
    """The first time may be a database that is away: whoever follows the log tells that."""
    said: list[str] = []
    with LedgerDatabase(journal.paths.ledger) as books:
        hand = MinuteHand(BudgetKeeper(journal.paths, books), time.time, said.append)
        with books.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE states RENAME TO elsewhere")
        hand.after()
        assert said == []
        hand.after()
        hand.after()
        assert said == ["budgets stand still: the ledger: no such table: states"]
        with books.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO states")
        assert hand.due
        hand.after()
        assert len(said) == 1


def test_two_logs_are_added_up_alike_at_first_and_later(tmp_path: Path) -> None:
    with LedgerDatabase(tmp_path / "books.sqlite") as books:
        rows = [
            (log, tenant, objective, hour, 10 + hour, hour % 3 + len(tenant))
            for log in ("a", "b")
            for tenant in ("acme", "be")
            for objective in ("itl", "ttft")
            for hour in range(100 if log == "a" else 105, 110)
        ]
        with books.writing() as connection:
            connection.exec_driver_sql("INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?)", rows)
        with books.reading() as connection:
            first = _all_since(connection, hours, hours.c.hour, 103)
            later = first.copy()
            for counts in later.values():
                counts.clear()
            _renew(connection, hours, hours.c.hour, 103, later)
            assert _all_since(connection, hours, hours.c.hour, 103) == later
        assert {len(counts) for counts in later.values()} == {7}

"""The books in a real PostgreSQL: the same as in SQLite, with several gateways posting at once and a crash between."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from plimsoll.errors import LedgerAway, SchemaTooNew, StorageError
from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.requestlog.codec import encode
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Follower, Projections
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import DECISION_NOTE
from tests.real.postgres import Server, server
from tests.storage.budgetworld import END, World
from tests.storage.rows import NOVEMBER, POLICY, settle

pytestmark = pytest.mark.real
NUM_LOGS, NUM_REQUESTS = 3, 400


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[DataDirectory]:
    """Data directories of several gateways with the same tenants."""
    home = tmp_path_factory.mktemp("logs")
    made = []
    for writer in range(1, NUM_LOGS + 1):
        journal = Journal.open(home / str(writer), writer, segment_bytes=64 * 1024)
        journal.policy(NOVEMBER, POLICY)
        for index in range(NUM_REQUESTS):
            tenant = ("acme", "beta")[index % 2]
            journal.settle(settle(journal.next_request_id + index, bad=index % 9 == 0, tenant=tenant))
        journal.close()
        made.append(journal.paths)
    return made


@pytest.fixture(scope="module")
def truth(logs: list[DataDirectory], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """What SQLite says of all of them."""
    with LedgerDatabase(tmp_path_factory.mktemp("truth") / "ledger.sqlite") as books:
        for paths in logs:
            post_all(books, paths, 1000)
        return books.balances()


def post_all(books: LedgerDatabase, paths: DataDirectory, max_rows: int) -> None:
    log = paths.identity().log
    while True:
        reached = books.position(log)
        batch = Batch(reached, books.policies).take(read_rows(paths.journal, reached), max_rows)
        if batch.end == batch.start:
            return
        books.post(log, batch)


def test_all_at_once_is_one_after_the_other(
    postgres: Server, logs: list[DataDirectory], truth: dict[tuple[str, str], int]
) -> None:
    """Each log by two posters at once, in small batches, from an empty database that all of them migrate."""
    url = postgres.database("together")
    failed: list[BaseException] = []

    def work(paths: DataDirectory, max_rows: int) -> None:
        try:
            with LedgerDatabase(url) as books:
                post_all(books, paths, max_rows)
        except (DBAPIError, StorageError) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(paths, size)) for paths in logs for size in (7, 23)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with LedgerDatabase(url) as books:
        assert books.balances() == truth
        for paths in logs:
            assert audit(paths, books).findings == ()


def test_a_crash_of_the_database_is_survived(
    postgres: Server, logs: list[DataDirectory], truth: dict[tuple[str, str], int]
) -> None:
    url = postgres.database("crashing")
    with LedgerDatabase(url) as books:
        for round_number, paths in enumerate(logs):
            log = paths.identity().log
            reached = books.position(log)
            books.post(
                log, Batch(reached, books.policies).take(read_rows(paths.journal, reached), 50 * round_number + 9)
            )
            postgres.stop("immediate")
            with pytest.raises(DBAPIError):
                post_all(books, paths, 10)
            postgres.start()
            post_all(books, paths, 31)
        assert books.balances() == truth


def test_projections_and_rebuilding(
    postgres: Server, logs: list[DataDirectory], truth: dict[tuple[str, str], int]
) -> None:
    url = postgres.database("projected")
    for paths in logs:
        with Projections(paths.root, url) as projections:
            assert projections.catch_up().num_settled == NUM_REQUESTS
    with LedgerDatabase(url) as books:
        books.forget(logs[1].identity().log, 0)
        post_all(books, logs[1], 100)
        assert books.balances() == truth
        assert not (logs[0].ledger).exists(), "nothing is kept beside it"


def test_entries_of_decisions_are_booked_once(postgres: Server, tmp_path: Path) -> None:
    """Loans that two gateways journal, one of them twice."""
    url = postgres.database("decided")
    loan = Entry(EntryKind.LOAN, "beta/ttft/part", "acme/ttft/borrowed:beta:ttft", 3, "2026-11")
    decided = encode(Decided("pool/2026-11/ttft/1", DecisionKind.POOL, (loan,)))
    with LedgerDatabase(url) as books:
        for writer in (1, 2):
            journal = Journal.open(tmp_path / str(writer), writer)
            journal.policy(NOVEMBER, POLICY)
            for _ in range(writer):
                journal.note(NOVEMBER, DECISION_NOTE, decided)
            journal.close()
            post_all(books, journal.paths, 2)
        assert books.balances()["acme/ttft/borrowed:beta:ttft", "2026-11"] == 3
        for writer in (1, 2):
            assert audit(DataDirectory(tmp_path / str(writer)), books).findings == ()


def test_a_months_budgets_are_the_same_as_in_sqlite(postgres: Server, tmp_path: Path) -> None:
    """Loans, actions, the exchange at midnight and the close, decided from these books and booked in them."""
    told = []
    for name, url in (("sqlite", None), ("postgres", postgres.database("month"))):
        world = World(tmp_path / name, ledger=url)
        world.requests("acme", 5000, 10)
        world.requests("beta", 5000, 120)
        for at in (world.now, END - 120, END, END + 86_400):
            world.now = max(world.now, at)
            world.minute()
            world.minute()
        books = world.projections.books
        assert audit(world.journal.paths, books).findings == ()
        told.append((books.balances(), sorted(books.decisions()), world.told[-1].standings))
        assert world.balance("acme/@concurrency/headroom", "2026-12") > 0
        world.projections.close()
        world.journal.close()
    assert told[0] == told[1]


def test_following_waits_for_the_database(postgres: Server, tmp_path: Path) -> None:
    """Away when the projector starts, away in the midst: it says so, waits, and goes on."""
    url = postgres.database("following")
    postgres.stop("immediate")
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    said: list[str] = []
    stopping = threading.Event()
    follower = threading.Thread(target=Follower(stopping.is_set, said.append, pause=0.05).run, args=(tmp_path, url))
    follower.start()
    try:
        for outage in range(2):
            for number in range(100):
                journal.settle(settle(outage * 100 + number, bad=True))
            journal.flush()
            wait_until(lambda: said[-1:] != [] and said[-1].startswith("projections wait: the ledger"))
            postgres.start()
            wait_until(lambda: said[-1] == "projections go on")
            if not outage:
                postgres.stop("immediate")
    finally:
        stopping.set()
        follower.join(60)
        journal.close()
    with LedgerDatabase(url) as books:
        assert books.balances()["acme/ttft/spent:ours", "2026-11"] == 200


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_cannot_be_used_is_told(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database("newer")
    with LedgerDatabase(url) as books, books._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0042'")
    with pytest.raises(SchemaTooNew, match="42"):
        LedgerDatabase(url)
    with pytest.raises(LedgerAway, match="cannot be used"):
        LedgerDatabase(f"postgresql://plimsoll:secret@/none?host={tmp_path}")
    with pytest.raises(LedgerAway) as told:
        LedgerDatabase("postgresql://plimsoll:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)

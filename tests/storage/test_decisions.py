"""Beside settlements the books hold decisions, windows of exception, what came late, and recent traffic."""

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from msgspec.structs import replace

from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.budget import BudgetRules, ExceptionKind, ExceptionWindow
from plimsoll.requestlog.codec import RowKind, encode
from plimsoll.slo.budget import period_bounds
from plimsoll.slo.verdict import Judgement, Verdict
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch, Minute
from plimsoll.storage.database import engine_of
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.grants import Account
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import Row, read_rows
from plimsoll.storage.rows import DECISION_NOTE, brief_of
from tests.storage.rows import NOVEMBER, POLICY, record, settle

LOAN = Entry(EntryKind.LOAN, "beta/ttft/part", "acme/ttft/borrowed:beta:ttft", 3, "2026-11")


def post_all(paths: DataDirectory, books: LedgerDatabase, max_rows: int = 1000) -> None:
    log = paths.identity().log
    while True:
        start = books.position(log)
        batch = Batch(start, books.policies).take(read_rows(paths.journal, start), max_rows)
        if batch.end == batch.start:
            return
        assert books.post(log, batch)


def test_a_decision_counts_once_whoever_brings_it(tmp_path: Path) -> None:
    with LedgerDatabase(tmp_path / "ledger.sqlite") as books:
        made = []
        for writer in (1, 2):
            journal = Journal.open(tmp_path / str(writer), writer)
            journal.policy(NOVEMBER, POLICY)
            for _ in range(2):  # as after a crash between noting and forgetting it
                journal.note(NOVEMBER, DECISION_NOTE, encode(Decided("pool/1", DecisionKind.POOL, (LOAN,))))
            journal.settle(settle(writer))
            journal.close()
            post_all(journal.paths, books)
            made.append(journal.paths)
        assert books.balances()["acme/ttft/borrowed:beta:ttft", "2026-11"] == 3
        assert list(books.decisions(DecisionKind.POOL)) == ["pool/1"]
        assert [audit(paths, books).findings for paths in made] == [(), ()]
        books.forget(made[0].identity().log, 0)
        assert sum(books.balances().values()) == 0
        assert books.decisions() == {}
        post_all(made[0], books, 1)
        assert books.balances()["acme/ttft/borrowed:beta:ttft", "2026-11"] == 3
        assert audit(made[0], books).findings == ()
        with books._engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM decisions")
        assert [finding.what for finding in audit(made[1], books).findings] == ["decision pool/1"]


def test_a_window_of_exception_eats_no_budget(tmp_path: Path) -> None:
    window = ExceptionWindow(ExceptionKind.MODEL_UPGRADE, NOVEMBER + 100, NOVEMBER + 200, ("acme",))
    policy = replace(POLICY, budget=BudgetRules(exceptions=(window,)))
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, policy)
    for number in range(1000):
        tenant = ("acme", "beta")[number % 2]
        at = NOVEMBER + (50, 150)[number // 2 % 2]
        journal.settle(settle(number + 1, bad=number % 10 < 2, tenant=tenant, arrived_at=at))
    journal.close()
    with LedgerDatabase(journal.paths.ledger) as books:
        post_all(journal.paths, books)
        balances = books.balances()
        assert balances["acme/ttft/spent:ours", "2026-11"] + balances["acme/ttft/excepted:ours", "2026-11"] == 100
        assert balances["acme/ttft/exception:model_upgrade", "2026-11"] == -50
        assert balances["beta/ttft/spent:ours", "2026-11"] == 100
        assert books.granted()[Account("acme", "ttft", "2026-11")] == (1, 0)  # ⌊250 ÷ 200⌋
        assert books.granted()[Account("beta", "ttft", "2026-11")] == (2, 0)
        assert audit(journal.paths, books).findings == ()


def test_what_ends_after_the_close_is_a_correction(tmp_path: Path) -> None:
    end = period_bounds("2026-11", "UTC")[1]
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    for number, ended_at in enumerate((end + 86_000, end + 86_500)):
        done = settle(number + 1, bad=True, arrived_at=end - 10)
        journal.settle(replace(done, record=replace(done.record, finished_at=ended_at)))
    journal.close()
    with LedgerDatabase(journal.paths.ledger) as books:
        post_all(journal.paths, books)
        balances = books.balances()
        assert balances["acme/ttft/spent:ours", "2026-11"] == 1
        assert balances["acme/ttft/late:ours", "2026-12"] == 1
        assert balances["acme/ttft/late", "2026-12"] == -1
        assert sum(counts.num_good + counts.num_bad for counts in books.judged().values()) == 1 + 299 + 1
        assert audit(journal.paths, books).findings == ()


def test_recent_traffic_by_minute_and_censored_requests() -> None:
    batch = Batch(0, {POLICY.version: POLICY})
    censored = (Verdict("ttft", Judgement.CENSORED, 0, 0), Verdict("availability", Judgement.EXCLUDED, 0, 0))
    for number in range(10):
        row = record(number + 1, bad=number < 3, arrived_at=NOVEMBER + 20 * number)
        batch.settled(brief_of(replace(row, verdicts=censored) if number == 9 else row), ())
    batch.sum_up()
    by_minute = {key.minute: counts for key, counts in batch.minutes.items() if key.objective == "ttft"}
    first = int((NOVEMBER + 9) // 60)
    assert by_minute == {first: (0, 1), first + 1: (1, 2), first + 2: (3, 0), first + 3: (2, 0)}  # ends at :49, :69 …
    assert batch.minutes[Minute("acme", "itl", first)] == (297, 2)
    (key,) = [key for key in batch.good if key.objective == "ttft"]
    assert (batch.good[key], batch.bad[key], batch.censored[key], batch.requests[key]) == (6, 3, 1, 9)


def test_rows_of_the_first_version_are_read(tmp_path: Path) -> None:
    """They had no brief; what they come to is the same."""
    done = settle(5, bad=True)
    journal = Journal.open(tmp_path)
    journal.settle(done)
    journal.close()
    (row,) = [row for row in read_rows(journal.paths.journal, 0) if row.kind == RowKind.SETTLE]
    old = Row(row.start, row.end, row.kind, memoryview(encode((done.record, done.entries))))
    sums = [Batch(0, {POLICY.version: POLICY}).take([each], 1) for each in (row, old)]
    assert sums[0].good.total() > 0 < sums[0].moves.total()
    for name in ("good", "bad", "requests", "minutes", "moves", "num_settled"):
        assert getattr(sums[0], name) == getattr(sums[1], name)


def test_books_of_the_first_version_are_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    engine = engine_of(path)
    config = Config()
    config.set_main_option("script_location", "plimsoll.storage:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        for (table,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.exec_driver_sql(f"DROP TABLE {table}")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql("INSERT INTO judged VALUES ('l', 'acme', 'ttft', 'gold', 'v1', '2026-11', 90, 10)")
    engine.dispose()
    with LedgerDatabase(path) as books:
        ((key, counts),) = books.judged().items()
        assert (key.tenant, key.exception, counts) == ("acme", "", (90, 10, 0, 100))


@pytest.mark.parametrize("until", [0, 1])
def test_a_log_is_summed_up_to_where_it_was_posted(tmp_path: Path, until: int) -> None:
    journal = Journal.open(tmp_path)
    ends = []
    for number in range(2):
        journal.settle(settle(number + 1))
        ends.append(journal._appender.offset)
    journal.close()
    assert Batch(0, {}).take(read_rows(journal.paths.journal, 0), 9, until=ends[until]).num_settled == until + 1

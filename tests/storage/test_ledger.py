"""The books in SQLite: posted once, granted exactly, proven against the log."""

import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from plimsoll.errors import SchemaTooNew, UsageError
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.requestlog.codec import encode
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch
from plimsoll.storage.database import engine_of
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import ENTRIES_NOTE
from plimsoll.storage.tables import METADATA
from tests.storage.rows import NOVEMBER, POLICY, settle


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "data", segment_bytes=64 * 1024)
    yield journal
    journal.close()


@pytest.fixture
def books(tmp_path: Path) -> Iterator[LedgerDatabase]:
    with LedgerDatabase(tmp_path / "ledger.sqlite") as books:
        yield books


def write(journal: Journal, numbers: range, tenant: str = "acme") -> None:
    for number in numbers:
        journal.settle(settle(number, bad=number % 10 == 0, tenant=tenant))
    journal.flush()


def next_batch(journal: Journal, books: LedgerDatabase, max_rows: int) -> tuple[str, Batch]:
    log = journal.paths.identity().log
    start = books.position(log)
    return log, Batch(start, books.policies).take(read_rows(journal.paths.journal, start), max_rows)


def post_all(journal: Journal, books: LedgerDatabase, max_rows: int = 37) -> None:
    while True:
        log, batch = next_batch(journal, books, max_rows)
        if batch.end == batch.start:
            return
        assert books.post(log, batch)


def test_grants_are_exact(journal: Journal, books: LedgerDatabase) -> None:
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 1001))
    post_all(journal, books)
    balances = books.balances()
    assert balances["acme/ttft/part", "2026-11"] == 1  # ⌊1000 × 1/200⌋ = 5, a fifth of it
    assert balances["acme/ttft/bucket", "2026-11"] == 4 - 100
    assert balances["acme/ttft/spent:ours", "2026-11"] == 100
    assert balances["acme/itl/bucket", "2026-11"] == 2392 - 2000  # ⌊299000 ÷ 100⌋ = 2990 less 598
    assert balances["acme/availability/bucket", "2026-11"] == 1
    assert sum(balances.values()) == 0


def test_a_batch_is_posted_once(journal: Journal, books: LedgerDatabase) -> None:
    write(journal, range(1, 50))
    log, batch = next_batch(journal, books, 1000)
    assert books.post(log, batch)
    before = books.balances()
    assert not books.post(log, batch)
    assert books.balances() == before


def test_events_wait_for_their_policy(journal: Journal, books: LedgerDatabase) -> None:
    write(journal, range(1, 1001))
    post_all(journal, books)
    assert ("acme/ttft/part", "2026-11") not in books.balances(), "a target that nobody knows grants nothing"
    journal.policy(NOVEMBER, POLICY)
    journal.flush()
    post_all(journal, books)
    assert books.balances()["acme/ttft/part", "2026-11"] == 1


def test_targets_may_change_within_a_month(journal: Journal, books: LedgerDatabase) -> None:
    """⌊Σ judged × (1 − τ)⌋: the floor of the sum, with each policy's own target and shared part."""
    looser = msgspec.structs.replace(
        POLICY,
        version="v2",
        tiers=(
            msgspec.structs.replace(
                POLICY.tiers[0],
                objectives=(msgspec.structs.replace(POLICY.tiers[0].objectives[0], target=Fraction(97, 100)),),
            ),
        ),
    )
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 301))  # 1.5
    journal.policy(NOVEMBER, looser)
    for number in range(301, 384):  # 2.49
        done = settle(number)
        journal.settle(msgspec.structs.replace(done, record=msgspec.structs.replace(done.record, policy_version="v2")))
    journal.flush()
    post_all(journal, books)
    balances = books.balances()
    granted = balances["world/ttft/bucket", "2026-11"] + balances.get(("world/ttft/part", "2026-11"), 0)
    assert granted == -3


def test_months_are_those_of_the_tenants_zone(journal: Journal, books: LedgerDatabase) -> None:
    journal.policy(NOVEMBER, POLICY)
    last_of_november = 1_796_083_200.0 - 3600.0  # 23:00 UTC: in Shanghai December has begun
    for number in range(1, 1001):
        journal.settle(settle(number, tenant="acme", arrived_at=last_of_november))
        journal.settle(settle(2000 + number, tenant="beta", arrived_at=last_of_november))
    journal.flush()
    post_all(journal, books)
    balances = books.balances()
    assert balances["acme/ttft/bucket", "2026-11"] == 4
    assert balances["beta/ttft/bucket", "2026-12"] == 4


def test_noted_entries_are_booked(journal: Journal, books: LedgerDatabase) -> None:
    loan = Entry(EntryKind.LOAN, "acme/ttft/part", "beta/ttft/part", 3, "2026-11")
    journal.note(NOVEMBER, ENTRIES_NOTE, encode((loan,)))
    journal.flush()
    post_all(journal, books)
    assert books.balances() == {("acme/ttft/part", "2026-11"): -3, ("beta/ttft/part", "2026-11"): 3}


def test_audit_proves_and_finds(journal: Journal, books: LedgerDatabase, tmp_path: Path) -> None:
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 301))
    post_all(journal, books)
    proof = audit(journal.paths, books)
    assert (proof.findings, proof.num_settled) == ((), 300)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as forger:
        forger.execute("UPDATE balances SET amount = amount + 1 WHERE account = 'acme/ttft/bucket'")
        forger.execute("UPDATE judged SET num_bad = num_bad - 200 WHERE objective = 'itl'")
    forger.close()
    told = [str(finding) for finding in audit(journal.paths, books).findings]
    assert len([line for line in told if "sum of all accounts in 2026-11: the books say 1" in line]) == 1
    assert any(line.startswith("bad events of acme itl") for line in told)
    assert any(line.startswith("bucket granted to acme itl") for line in told)


def test_audit_says_where_a_damaged_log_ends(journal: Journal, books: LedgerDatabase) -> None:
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 301))
    post_all(journal, books)
    segment = sorted(journal.paths.journal.glob("0*.log"))[-1]
    with segment.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff" * 8)
    (finding,) = audit(journal.paths, books).findings
    assert "damaged" in finding.what
    assert finding.truth - int(segment.stem) <= 5000 < finding.books - int(segment.stem)


def test_audit_says_what_is_not_posted_yet(journal: Journal, books: LedgerDatabase) -> None:
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 301))
    post_all(journal, books)
    done = audit(journal.paths, books)
    assert done.log_end == done.posted_to
    write(journal, range(301, 310))
    late = audit(journal.paths, books)
    assert late.log_end > late.posted_to == done.posted_to


def test_rebuilding_gives_the_same(journal: Journal, books: LedgerDatabase) -> None:
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 301))
    post_all(journal, books)
    before, log = books.balances(), journal.paths.identity().log
    books.forget(log, 0)
    assert not any(books.balances().values())
    post_all(journal, books, max_rows=11)
    assert books.balances() == before
    assert audit(journal.paths, books).findings == ()


def test_migrations_make_the_tables_that_we_use(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    engine = engine_of(tmp_path / "fresh.sqlite")
    with engine.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


def test_newer_books(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    LedgerDatabase(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("UPDATE alembic_version SET version_num = '0099'")
    newer.close()
    with pytest.raises(SchemaTooNew, match="99"):
        LedgerDatabase(path)


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite:///x"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="postgresql"):
        LedgerDatabase(url)


def test_a_poster_learns_what_another_posted(journal: Journal, books: LedgerDatabase, tmp_path: Path) -> None:
    """Two posters of one log: the one that did not see the policy's note takes nothing back, and knows the zone."""
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 1001), tenant="beta")
    with LedgerDatabase(tmp_path / "ledger.sqlite") as other:
        log, batch = next_batch(journal, other, 500)
        assert other.post(log, batch)
    post_all(journal, books)
    assert books.balances()["beta/ttft/part", "2026-11"] == 1
    assert {entry.kind for _, entry in books.entries()} == {EntryKind.GRANT, EntryKind.SPEND}

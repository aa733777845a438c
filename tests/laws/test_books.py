"""Law 2: the books balance; what is replayed, interrupted, repeated or merged is booked once."""

import shutil
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.ledger import Ledger
from plimsoll.policy.policy import Policy, Service
from plimsoll.slo.budget import Judged, grant_to_date
from plimsoll.slo.sli import Judgement, Verdict
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.grants import Account, grant_entries
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import read_rows
from tests.storage.rows import NOVEMBER, POLICY, settle

TIGHTER = msgspec.structs.replace(
    POLICY,
    version="v2",
    service=Service(shared_pool=Fraction(1, 4)),
    tiers=tuple(
        msgspec.structs.replace(
            tier,
            objectives=tuple(
                msgspec.structs.replace(each, target=(1 + each.target) / 2, contract=None) for each in tier.objectives
            ),
        )
        for tier in POLICY.tiers
    ),
)
POLICIES = {policy.version: policy for policy in (POLICY, TIGHTER)}


class Request(msgspec.Struct, frozen=True):
    """What varies between settlements."""

    tenant: str
    bad: bool
    num_tokens: int
    policy: str


requests = st.builds(
    Request,
    st.sampled_from(["acme", "beta"]),
    st.booleans(),
    st.integers(0, 5000),
    st.sampled_from(["v1", "v2"]),
)
logs = st.lists(st.lists(requests, max_size=30), min_size=1, max_size=3)
schedule = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12), st.booleans()), max_size=30)
"""Which log posts how many rows, and whether it then tries the same batch again, as after an answer that was lost."""


def settled(request_id: int, request: Request) -> Settle:
    done = settle(request_id, bad=request.bad, tenant=request.tenant)
    tokens = Verdict("itl", Judgement.GOOD, request.num_tokens, 0)
    verdicts = tuple(tokens if verdict.objective == "itl" else verdict for verdict in done.record.verdicts)
    entries = tuple(entry for entry in done.entries if "/itl/" not in entry.source)
    return Settle(msgspec.structs.replace(done.record, verdicts=verdicts, policy_version=request.policy), entries)


def written(home: Path, number: int, history: list[Request]) -> tuple[DataDirectory, list[Settle]]:
    journal = Journal.open(home / f"log{number}", writer=number + 1, segment_bytes=32 * 1024)
    for policy in POLICIES.values():
        journal.policy(NOVEMBER, policy)
    settles = [settled(journal.next_request_id + index, request) for index, request in enumerate(history)]
    for each in settles:
        journal.settle(each)
    journal.close()
    return journal.paths, settles


def expected(settles: list[Settle]) -> dict[tuple[str, str], int]:
    """The same books kept in memory by the plain rules."""
    ledger = Ledger()
    judged: defaultdict[Account, Counter[Fraction]] = defaultdict(Counter)
    shared: defaultdict[Account, Fraction] = defaultdict(Fraction)
    for done in settles:
        ledger.post_all(done.record.request_id, done.entries)
        policy: Policy = POLICIES[done.record.policy_version]
        targets = {each.name: each.target for each in policy.tier("gold").objectives}
        for verdict in done.record.verdicts:
            account = Account(done.record.tenant, verdict.objective, "2026-11")
            num, target = verdict.num_good + verdict.num_bad, targets[verdict.objective]
            judged[account][target] += num
            shared[account] += num * (1 - target) * policy.service.shared_pool
    for account, counts in judged.items():
        allowed = sum((num * (1 - target) for target, num in counts.items()), Fraction(0))
        share = shared[account] / allowed if allowed else Fraction(0)
        grant = grant_to_date([Judged(num, target) for target, num in counts.items()], share)
        for entry in grant_entries(account, grant.bucket, grant.pool_part):
            ledger.post(f"grant {account} {entry.target}", entry)
    return {key: amount for key, amount in ledger.balances().items() if amount}


def post(books: LedgerDatabase, paths: DataDirectory, max_rows: int, *, again: bool = False) -> bool:
    log = paths.identity().log
    reached = books.position(log)
    batch = Batch(reached, books.policies).take(read_rows(paths.journal, reached), max_rows)
    if batch.end == batch.start:
        return False
    assert books.post(log, batch)
    if again:
        assert not books.post(log, batch), "the same batch is never booked twice"
    return True


@pytest.fixture(scope="module")
def empty_books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "ledger.sqlite"
    LedgerDatabase(path).close()
    return path


@settings(max_examples=12, deadline=None)
@given(histories=logs, steps=schedule, rebuilt=st.integers(0, 2))
def test_books_are_the_same_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    empty_books: Path,
    histories: list[list[Request]],
    steps: list[tuple[int, int, bool]],
    rebuilt: int,
) -> None:
    """Several logs, posted in turns and in pieces, tried twice, one taken out and posted anew: as kept in memory."""
    home = tmp_path_factory.mktemp("books")
    shutil.copy(empty_books, home / "ledger.sqlite")
    made = [written(home, number, history) for number, history in enumerate(histories)]
    truth = expected([each for _, settles in made for each in settles])
    with LedgerDatabase(home / "ledger.sqlite") as books:
        for log, max_rows, again in steps:
            post(books, made[log % len(made)][0], max_rows, again=again)
            assert sum(books.balances().values()) == 0
        for _ in range(2):
            for paths, _ in made:
                while post(books, paths, 1000):
                    pass
            balances = books.balances()
            assert {key: amount for key, amount in balances.items() if amount} == truth
            for paths, _ in made:
                assert audit(paths, books).findings == ()
            books.forget(made[rebuilt % len(made)][0].identity().log, 0)
            assert sum(books.balances().values()) == 0


def test_a_posting_that_dies_leaves_nothing(tmp_path: Path, empty_books: Path) -> None:
    """Rows and offset are one transaction: a batch that cannot be finished moves neither."""
    shutil.copy(empty_books, tmp_path / "ledger.sqlite")
    paths, _ = written(tmp_path, 0, [Request("acme", True, 100, "v1")] * 20)
    with LedgerDatabase(tmp_path / "ledger.sqlite") as books:
        post(books, paths, 5)
        before = books.balances(), books.position(paths.identity().log)
        with books._engine.begin() as connection:  # the last table that a posting writes
            connection.exec_driver_sql(
                "CREATE TRIGGER fail BEFORE UPDATE ON balances BEGIN SELECT RAISE(ABORT, 'struck'); END"
            )
        with pytest.raises(Exception, match="struck"):
            post(books, paths, 1000)
        assert (books.balances(), books.position(paths.identity().log)) == before
        with books._engine.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER fail")
        post(books, paths, 1000)
        assert audit(paths, books).findings == ()

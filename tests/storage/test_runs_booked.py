"""Runs of agents in the books: judged once each, whoever reads the log in whatever stretches, and after any crash."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.analytics.runs import runs
from plimsoll.governor.decisions import Settle
from plimsoll.ledger.explain import explain
from plimsoll.ledger.promise import Promises
from plimsoll.ledger.sessions import Sessions
from plimsoll.policy.budget import BudgetRules, ExceptionKind, ExceptionWindow
from plimsoll.policy.objective import RunObjective
from plimsoll.policy.policy import Policy, Service, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.requestlog.turns import turn_of
from plimsoll.slo.budget import period_bounds
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch
from plimsoll.storage.budgeting import BudgetKeeper
from plimsoll.storage.grants import Account
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Projections
from plimsoll.storage.reader import read_rows
from tests.storage.rows import NOVEMBER, record

OBJECTIVE = RunObjective(below=60.0, target=Fraction(1, 2), idle=30.0, half_life=10.0)
POLICY = Policy(
    service=Service(shared_pool=Fraction(1, 5)),
    tiers=(Tier("gold", 0, run=OBJECTIVE), Tier("tin", 1)),
    tenants=(Tenant("acme", "gold", committed=1000), Tenant("beta", "tin")),
    version="r1",
)


def turn(number: int, begin: float, end: float, session: str = "s", **also: object) -> Record:
    row = record(number, arrived_at=NOVEMBER + begin)
    changed = {"session": session, "finished_at": NOVEMBER + end, "policy_version": "r1", "verdicts": (), **also}
    return replace(row, **changed)


def journal_of(home: Path, rows: list[Record], policy: Policy = POLICY, *, until: float = 1e6) -> Journal:
    """Opened at arrival, settled at their end, in order of time; then time goes on."""
    journal = Journal.open(home)
    journal.policy(NOVEMBER - 1, policy)
    steps = [(row.arrived_at, 0, row) for row in rows] + [(row.finished_at, 1, row) for row in rows]
    for at, ends, row in sorted(steps, key=lambda step: (step[0], step[2].request_id, step[1])):
        if ends:
            journal.settle(Settle(row, ()))
        else:
            journal.opened(row.request_id, row.tenant, row.tier, at, session=row.session)
    journal.note(NOVEMBER + until, "entries", b"\x90")
    journal.close()
    return journal


def post_all(books: LedgerDatabase, journal: Journal, max_rows: int) -> None:
    """As after a death between any two batches: each begins with what the books kept."""
    log = journal.paths.identity().log
    while True:
        start = books.position(log)
        batch = Batch(start, books.policies, books.sessions(log))
        batch.take(read_rows(journal.paths.journal, start), max_rows)
        if batch.end == batch.start:
            return
        assert books.post(log, batch)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[LedgerDatabase]:
    with LedgerDatabase(tmp_path / "books.sqlite") as made:
        yield made


def test_what_runs_come_to(tmp_path: Path, books: LedgerDatabase) -> None:
    """Good, late by neither alone, late by us, lost by us, spoilt by the client, and one that still goes on."""
    rows = [
        turn(1, 0, 10, "good"),
        turn(2, 18, 20, "good", upstream_time=5.0, cause="tool"),
        turn(3, 0, 5, "tool"),
        turn(4, 30, 35, "tool"),
        turn(5, 64, 68, "tool", upstream_time=20.0, cause="what/ever"),
        turn(6, 0, 61, "slow"),
        turn(7, 0, 5, "lost", outcome=Outcome.FAILED, reason=Reason.CONNECTION_LOST),
        turn(8, 0, 5, "left", outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT),
        turn(9, 0, 8, "held", client_stall=3.0),
        turn(10, 20, 62, "held"),
        turn(11, 970, 980, "open"),
        replace(turn(12, 0, 61, "beta"), tenant="beta"),
    ]
    journal = journal_of(tmp_path / "data", rows, until=1000)
    post_all(books, journal, 3)
    balances = {account.removeprefix("acme/"): amount for (account, _), amount in books.balances().items() if amount}
    assert {name: num for name, num in balances.items() if name.startswith("run/spent")} == {
        "run/spent:ours": 2,
        "run/spent:joint": 1,
        "run/spent:client": 1,
    }
    assert books.granted()[Account("acme", "run", "2026-11")] == (2, 0)  # ⌊5 ÷ 2⌋, of which ⌊0.4⌋ are shared
    assert balances["run/bucket"] == 2 - 4
    assert balances["@time/llm"] == 1000 * (12 + 14 + 61 + 5 + 5 + 50)
    assert balances["@time/upstream:tool"] == 5000
    assert balances["@time/upstream:other"] == 20_000
    assert balances["@time/own"] == 1000 * (3 + 34 + 12)
    assert sum(books.balances().values()) == 0
    (counts,) = books.judged().values()
    assert (counts.num_good, counts.num_bad, counts.num_requests) == (1, 4, 5)
    assert audit(journal.paths, books).findings == ()
    assert len(list(books.sessions(journal.paths.identity().log)._sessions)) == 1, "one still goes on"


def test_turns_are_weighed_by_their_age(tmp_path: Path, books: LedgerDatabase) -> None:
    bad = turn(1, 0, 10, verdicts=record(1, bad=True).verdicts[:1])
    good = turn(2, 12, 20, verdicts=record(1).verdicts[:1])
    post_all(books, journal_of(tmp_path / "data", [bad, good]), 100)
    balances = books.balances()
    assert (balances["acme/@turns/kept", "2026-11"], balances["acme/@turns/broken", "2026-11"]) == (1000, 500)


def test_windows_of_exception_and_closed_months(tmp_path: Path, books: LedgerDatabase) -> None:
    window = ExceptionWindow(ExceptionKind.PLANNED_MOVE, NOVEMBER + 100, NOVEMBER + 200)
    end = period_bounds("2026-11", "UTC")[1] - NOVEMBER
    rows = [turn(1, 150, 250, "moved"), turn(2, 300, 400, "usual"), turn(3, end - 5, end + 86_500, "late")]
    journal = journal_of(
        tmp_path / "data", rows, replace(POLICY, budget=BudgetRules(exceptions=(window,))), until=end + 90_000
    )
    post_all(books, journal, 2)
    balances = books.balances()
    assert balances["acme/run/exception:planned_move", "2026-11"] == -1
    assert balances["acme/run/spent:ours", "2026-11"] == 1
    assert balances["acme/run/late:ours", "2026-12"] == 1
    assert balances["acme/@time/llm", "2026-12"] == 1000 * 86_505
    assert audit(journal.paths, books).findings == ()


def test_a_policy_that_promises_nothing_more_lets_runs_be(tmp_path: Path, books: LedgerDatabase) -> None:
    journal = Journal.open(tmp_path / "data")
    journal.policy(NOVEMBER, POLICY)
    journal.opened(1, "acme", "gold", NOVEMBER, session="s")
    journal.opened(2, "acme", "gold", NOVEMBER, session="s")
    journal.settle(Settle(turn(1, 0, 61), ()))
    plain = replace(POLICY, tiers=(Tier("gold", 0), Tier("tin", 1)), version="r2")
    journal.policy(NOVEMBER + 62, plain)
    journal.opened(3, "acme", "gold", NOVEMBER + 63, session="t")
    journal.settle(Settle(turn(2, 0, 65, policy_version="r2"), ()))
    journal.settle(Settle(turn(3, 63, 200, "t", policy_version="r2"), ()))
    journal.close()
    post_all(books, journal, 1)
    assert books.balances()["acme/run/spent:ours", "2026-11"] == 1
    assert audit(journal.paths, books).findings == ()


def test_requests_open_when_the_gateway_dies_belong_to_their_runs(tmp_path: Path, books: LedgerDatabase) -> None:
    journal = Journal.open(tmp_path / "data", clock=lambda: NOVEMBER + 40)
    journal.policy(NOVEMBER, POLICY)
    journal.settle(Settle(turn(1, 0, 10), ()))
    journal.opened(2, "acme", "gold", NOVEMBER + 12, session="s")
    journal.flush()
    journal.close()
    again = Journal.open(tmp_path / "data", clock=lambda: NOVEMBER + 40)
    again.note(NOVEMBER + 500, "entries", b"\x90")
    again.close()
    post_all(books, again, 100)
    assert books.balances()["acme/run/spent:ours", "2026-11"] == 1
    assert books.judged()
    assert audit(again.paths, books).findings == ()


TURNS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 90), st.sampled_from("abc"), st.sampled_from([None, 5.0, 50.0])),
    min_size=1,
    max_size=10,
)


@settings(max_examples=40, deadline=None)
@given(TURNS, st.integers(1, 7))
def test_the_books_find_the_runs_that_the_log_holds(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int, str, float | None]], max_rows: int
) -> None:
    """As by hindsight over the whole log, however it is read; and once again from the start."""
    home = tmp_path_factory.mktemp("runs")
    rows = [
        turn(number, begin, begin + length + 0.5, session, upstream_time=upstream)
        for number, (begin, length, session, upstream) in enumerate(turns, 1)
    ]
    journal = journal_of(home / "data", rows)
    found = runs(rows, POLICY, NOVEMBER + 1e6)
    with LedgerDatabase(home / "books.sqlite") as books:
        post_all(books, journal, max_rows)
        balances = books.balances()
        (counts,) = books.judged().values()
        assert counts.num_good == sum(run.judgement is Judgement.GOOD for run in found)
        assert counts.num_bad == sum(run.judgement is Judgement.BAD for run in found)
        for charge in {run.charge for run in found} - {None}:
            assert balances[f"acme/run/spent:{charge}", "2026-11"] == sum(run.charge is charge for run in found)
        for name, total in (("llm", sum(run.llm for run in found)), ("own", sum(run.own for run in found))):
            assert balances.get((f"acme/@time/{name}", "2026-11"), 0) == pytest.approx(1000 * total, abs=len(found))
        assert audit(journal.paths, books).findings == ()
        books.forget(journal.paths.identity().log, 0)
        assert not any(books.balances().values())
        assert not books.sessions(journal.paths.identity().log)._sessions
        post_all(books, journal, 100)
        assert books.balances() == balances


def test_another_projector_in_between_spoils_no_run(tmp_path: Path) -> None:
    """What one has in mind of sessions is read anew where it finds the log posted further than it knew."""
    first = [turn(1, 0, 10), turn(2, 12, 20)]
    journal = journal_of(tmp_path / "data", first, until=21)
    with Projections(journal.paths.root) as projections:
        projections.catch_up()
        again = Journal.open(tmp_path / "data")
        again.settle(Settle(turn(3, 25, 70), ()))
        again.flush()
        with LedgerDatabase(journal.paths.ledger) as books:
            post_all(books, journal, 1)
        again.note(NOVEMBER + 500, "entries", b"\x90")
        again.close()
        for _ in range(3):
            projections.advance()
        assert projections.books.balances()["acme/run/spent:ours", "2026-11"] == 1
        assert audit(journal.paths, projections.books).findings == ()


def test_more_upstream_time_makes_nothing_ours() -> None:
    """Whatever the first request of a run claims, or those between."""
    for begin, end in ((0.0, 61.0), (0.0, 40.0)):
        ours = []
        for claimed in (0.0, 10.0, 30.0, 100.0):
            rows = [turn(1, begin, end, upstream_time=claimed), turn(2, end + 5, end + 10, upstream_time=claimed)]
            found = runs(rows, POLICY, NOVEMBER + 1000)
            ours.append(sum(run.charge == "ours" for run in found))
        assert ours == sorted(ours, reverse=True)


def test_status_and_explanation_speak_of_runs(tmp_path: Path) -> None:
    rows = [
        turn(number, 40 * number, 40 * number + 1 + 61 * (number % 8 == 0), f"s{number}") for number in range(1, 41)
    ]
    journal = journal_of(tmp_path / "data", rows)
    with LedgerDatabase(journal.paths.ledger) as books:
        post_all(books, journal, 1000)
        found = BudgetKeeper(journal.paths, books).assess(POLICY, NOVEMBER + 1e6)
        (row,) = [row for row in found.rows if row.objective == "run"]
        assert (row.tenant, row.unit, row.num_judged, row.num_spent, row.granted) == ("acme", "runs", 40, 5, 20)
        assert row.planned_by == "last week", "what is committed are requests, not runs"
        promised = Promises(POLICY).by_owner
        assert [owner.tenant for owner in promised if owner.objective == "run"] == ["acme"]
        months = BudgetKeeper(journal.paths, books)._knowledge.known(Promises(POLICY), NOVEMBER + 1e6).months
        (owner,) = [owner for owner in promised if owner.objective == "run"]
        told = explain(row, months["2026-11"].figures[owner], promised[owner], POLICY)
        assert "good and bad runs of 2026-11" in told[0].formula
        assert told[5].formula == "5 ours"


def test_a_session_forgets_what_is_promised_nothing() -> None:
    sessions = Sessions({POLICY.version: POLICY}, POLICY.version)
    sessions.settled("beta", "r1", turn_of(turn(1, 0, 10)))
    sessions.settled("acme", "unknown", turn_of(turn(1, 0, 10)))
    assert (sessions.changes, list(sessions.passed(NOVEMBER + 1e6))) == ({}, [])

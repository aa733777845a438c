"""The books in a database: what the log says, posted once, with the grants that follow from it (law 2).

A batch is one transaction: it moves the log's position from the batch's start to its end, where it stands at the
start, and books the batch; so a batch is posted once, whoever tries how often. Several logs (gateways) may post to
one database: their judged events are kept apart, and a grant is computed from all of them under a lock on its row,
so the balances are the same in whatever order they come. Imports sqlalchemy: not for `serve`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
from sqlalchemy import Connection, and_, select, update

from plimsoll.ledger.decided import DecisionKind
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.sessions import Kept, Sessions
from plimsoll.policy.policy import Policy
from plimsoll.slo.runs import Turn
from plimsoll.storage import tables
from plimsoll.storage.batch import Batch, JudgedKey
from plimsoll.storage.database import engine_of, only_reading, upsert
from plimsoll.storage.grants import Account
from plimsoll.storage.posting import Posting, learn_policies


class Counts(NamedTuple):
    """What was counted under one key."""

    num_good: int
    num_bad: int
    num_censored: int  # requests
    num_requests: int  # with at least one judged event

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*[one + two for one, two in zip(self, other, strict=True)])


class Decision(NamedTuple):
    """A decision about budgets as the books keep it."""

    log: str  # that brought it first
    at: float
    kind: DecisionKind
    data: bytes  # msgpack: the evidence


class LedgerDatabase:
    """The books. Close it, or use it in a `with`."""

    def __init__(self, where: Path | str) -> None:
        """A SQLite file (a Path; made where it is new) or `postgresql://…`."""
        self._engine = engine_of(where)
        self.policies: dict[str, Policy] = {}
        """Policies that some log brought, by version: at least all that were posted when a position was last asked."""
        with self._engine.begin() as connection:
            learn_policies(connection, self.policies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back its connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for questions, all of them answered as of one instant. Nobody who writes waits for it."""
        with self._engine.connect() as connection:
            yield only_reading(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction."""
        with self._engine.begin() as connection:
            yield connection

    def position(self, log: str, first: int = 0) -> int:
        """The offset up to which that log is posted; `first` where none of it is."""
        table = tables.positions
        with self._engine.begin() as connection:
            connection.execute(
                upsert(connection, table).values(log=log, reached=first, policy="").on_conflict_do_nothing()
            )
            reached = int(connection.execute(select(table.c.reached).where(table.c.log == log)).scalar_one())
            learn_policies(connection, self.policies)  # after: what is noted before that offset is among them
        return reached

    def sessions(self, log: str) -> Sessions:
        """Agents' runs that go on where that log is posted to."""
        table, where = tables.turns, tables.positions
        with self._engine.begin() as connection:
            in_force = connection.execute(select(where.c.policy).where(where.c.log == log)).scalar()
            query = select(table.c.tenant, table.c.policy, table.c.data).where(table.c.log == log)
            kept = [
                Kept(tenant, policy, msgspec.msgpack.decode(data, type=Turn))
                for tenant, policy, data in connection.execute(query)
            ]
        return Sessions(self.policies, in_force or "", kept)

    def post(self, log: str, batch: Batch) -> bool:
        """Book a batch; False, and nothing changed, where the log is not posted exactly up to the batch's start."""
        table = tables.positions
        with self._engine.begin() as connection:
            now = {"reached": batch.end, "policy": batch.sessions.in_force}
            here = and_(table.c.log == log, table.c.reached == batch.start)
            if connection.execute(update(table).where(here).values(**now)).rowcount != 1:
                return False
            posting = Posting(connection, log, self.policies)
            posting.keep_policies(batch.new_policies)
            posting.count_judged(batch)
            posting.count_recent(batch)
            posting.keep_turns(batch.sessions)
            decided = posting.take_decisions(batch)
            touched = {Account(key.tenant, key.objective, key.period) for key in batch.good}
            touched |= posting.waiting_for(batch.new_policies)
            posting.book(batch.start, batch.moves, posting.grant(touched), decided)
        batch.sessions.changes.clear()
        return True

    def balances(self) -> dict[tuple[str, str], int]:
        """Every account and period ever booked on, sorted, as `ledger/ledger.py` has it in memory."""
        table = tables.balances
        with self._engine.begin() as connection:
            found = connection.execute(select(table.c.account, table.c.period, table.c.amount))
            return {(account, period): int(amount) for account, period, amount in sorted(map(tuple, found))}

    def entries(self, log: str | None = None) -> Iterator[tuple[str, Entry]]:
        """All entries in the order of posting, each with its origin: "row" (from the log), "grant" or "decision"."""
        table = tables.entries
        query = select(table).order_by(table.c.log, table.c.batch, table.c.number)
        if log is not None:
            query = query.where(table.c.log == log)
        with self._engine.begin() as connection:
            for row in connection.execute(query):
                yield row.origin, Entry(EntryKind(row.kind), row.source, row.target, int(row.amount), row.period)

    def judged(self, log: str | None = None) -> dict[JudgedKey, Counts]:
        """Judged events of one log or of all together."""
        table = tables.judged
        query = select(table)
        if log is not None:
            query = query.where(table.c.log == log)
        counts: dict[JudgedKey, Counts] = {}
        with self._engine.begin() as connection:
            for row in connection.execute(query):
                key = JudgedKey(row.tenant, row.objective, row.tier, row.policy, row.period, row.exception)
                found = Counts(int(row.num_good), int(row.num_bad), int(row.num_censored), int(row.num_requests))
                before = counts.get(key)
                counts[key] = found if before is None else before.plus(found)
        return counts

    def decisions(self, kind: DecisionKind | None = None) -> dict[str, Decision]:
        """Decisions by key, oldest first; of one kind or all."""
        table = tables.decisions
        query = select(table).order_by(table.c.at, table.c.key)
        if kind is not None:
            query = query.where(table.c.kind == kind.value)
        with self._engine.begin() as connection:
            return {
                row.key: Decision(row.log, float(row.at), DecisionKind(row.kind), bytes(row.data))
                for row in connection.execute(query)
            }

    def granted(self) -> dict[Account, tuple[int, int]]:
        """What was granted so far: (bucket, pool part)."""
        with self._engine.begin() as connection:
            return {
                Account(row.tenant, row.objective, row.period): (int(row.bucket), int(row.part))
                for row in connection.execute(select(tables.granted))
            }

    def forget(self, log: str, first: int) -> None:
        """Take out everything that came from that log, so that it can be posted again from offset `first`."""
        table = tables.positions
        with self._engine.begin() as connection:
            Posting(connection, log, self.policies).take_out()
            connection.execute(update(table).where(table.c.log == log).values(reached=first, policy=""))

"""The statements of one posting, inside a transaction that its caller opened.

Rows that several logs share are touched in one order everywhere (granted, then balances, each sorted), so that two
postings wait for each other and never both.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from plimsoll.ledger.entry import Entry
from plimsoll.ledger.sessions import Sessions
from plimsoll.policy.policy import Policy
from plimsoll.storage.batch import Batch, JudgedKey, Move
from plimsoll.storage.database import upsert
from plimsoll.storage.grants import Account, grant_entries, grant_of
from plimsoll.storage.policies import decode_policy
from plimsoll.storage.tables import balances, decisions, entries, granted, hours, judged, minutes, policies, turns


class Posting:
    """What one log changes in the books."""

    def __init__(self, connection: Connection, log: str, known: dict[str, Policy]) -> None:
        self._connection = connection
        self._log = log
        self._policies = known

    def keep_policies(self, new: Mapping[str, bytes]) -> None:
        """Remember policies that the log brought, by version."""
        if new:
            rows = [{"version": version, "data": data} for version, data in sorted(new.items())]
            self._connection.execute(upsert(self._connection, policies).on_conflict_do_nothing(), rows)

    def count_judged(self, batch: Batch) -> None:
        """Add the batch's judged events to those of its log."""
        self._add(
            judged,
            ("num_good", "num_bad", "num_censored", "num_requests"),
            [
                {
                    "log": self._log,
                    **key._asdict(),
                    "num_good": batch.good[key],
                    "num_bad": batch.bad[key],
                    "num_censored": batch.censored[key],
                    "num_requests": batch.requests[key],
                }
                for key in sorted(batch.good)
            ],
        )

    def count_recent(self, batch: Batch) -> None:
        """Add them to the minutes and hours in which their requests ended."""
        by_hour: dict[tuple[str, str, int], tuple[int, int]] = {}
        rows = []
        for key, (num_good, num_bad) in sorted(batch.minutes.items()):
            rows.append({"log": self._log, **key._asdict(), "num_good": num_good, "num_bad": num_bad})
            hour = (key.tenant, key.objective, key.minute // 60)
            good, bad = by_hour.get(hour, (0, 0))
            by_hour[hour] = (good + num_good, bad + num_bad)
        self._add(minutes, ("num_good", "num_bad"), rows)
        self._add(
            hours,
            ("num_good", "num_bad"),
            [
                {
                    "log": self._log,
                    "tenant": tenant,
                    "objective": objective,
                    "hour": hour,
                    "num_good": good,
                    "num_bad": bad,
                }
                for (tenant, objective, hour), (good, bad) in by_hour.items()
            ],
        )

    def keep_turns(self, sessions: Sessions) -> None:
        """Bring what is kept of runs that are not over to what it is at the batch's end."""
        gone, kept = [], []
        for (tenant, session, request_id), each in sorted(sessions.changes.items()):
            key = {"log": self._log, "tenant": tenant, "session": session, "request_id": request_id}
            if each is None:
                gone.append({f"key_{name}": value for name, value in key.items()})
            else:
                kept.append({**key, "policy": each.policy, "data": msgspec.msgpack.encode(each.turn)})
        if gone:
            of_key = [turns.c[name] == bindparam(f"key_{name}") for name in ("log", "tenant", "session", "request_id")]
            self._connection.execute(delete(turns).where(*of_key), gone)
        if kept:
            new = upsert(self._connection, turns)
            written = {"policy": new.excluded.policy, "data": new.excluded.data}
            self._connection.execute(
                new.on_conflict_do_update(index_elements=turns.primary_key.columns, set_=written), kept
            )

    def take_decisions(self, batch: Batch) -> list[tuple[int, Entry]]:
        """Keep the decisions that no log brought before; their entries, each with the minute of its decision."""
        taken: list[tuple[int, Entry]] = []
        for at, decided in batch.decisions:
            row = {"key": decided.key, "log": self._log, "at": at, "kind": decided.kind.value, "data": decided.data}
            new = upsert(self._connection, decisions).on_conflict_do_nothing().values(row).returning(decisions.c.key)
            if self._connection.execute(new).first() is not None:  # a count of rows is no answer of every database
                taken += [(int(at // 60), entry) for entry in decided.entries]
        return taken

    def _add(self, table: Table, counts: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
        """Insert rows, or add their counts to those that are there."""
        if rows:
            new = upsert(self._connection, table)
            added = {name: table.c[name] + new.excluded[name] for name in counts}
            self._connection.execute(
                new.on_conflict_do_update(index_elements=table.primary_key.columns, set_=added), rows
            )

    def waiting_for(self, versions: Iterable[str]) -> set[Account]:
        """Accounts with events that were judged under these policies before the books knew them."""
        query = select(judged.c.tenant, judged.c.objective, judged.c.period).where(judged.c.policy.in_(list(versions)))
        return {Account(*row) for row in self._connection.execute(query.distinct())}

    def grant(self, accounts: set[Account]) -> list[Entry]:
        """Bring the grants of these accounts to what all their judged events allow; the entries that do so."""
        made: list[Entry] = []
        if not accounts:
            return made
        changed: dict[Account, tuple[int, int]] = {}
        before = self._lock_granted(sorted(accounts))
        counts = self._judged_of(accounts)
        if any(key.policy not in self._policies for judged_of in counts.values() for key, _ in judged_of):
            learn_policies(self._connection, self._policies)  # another log may have brought it meanwhile
        for account in sorted(accounts):
            grant = grant_of(counts[account], self._policies)
            bucket, part = before[account]
            if (grant.bucket, grant.pool_part) != (bucket, part):
                made += grant_entries(account, grant.bucket - bucket, grant.pool_part - part)
                changed[account] = (grant.bucket, grant.pool_part)
        self._set_granted(changed)
        return made

    def book(
        self, batch: int, moves: Mapping[Move, int], grants: list[Entry], decided: list[tuple[int, Entry]]
    ) -> None:
        """Write entries under the batch's key and move the balances."""
        rows = [
            _row(self._log, batch, "row", Entry(move.kind, move.source, move.target, amount, move.period), move.minute)
            for move, amount in sorted(moves.items())
        ]
        rows += [_row(self._log, batch, "grant", entry, 0) for entry in grants]
        rows += [_row(self._log, batch, "decision", entry, minute) for minute, entry in decided]
        for number, row in enumerate(rows):
            row["number"] = number
        if rows:
            self._connection.execute(insert(entries), rows)
            self._move_balances(rows, 1)

    def take_out(self) -> None:
        """Undo all that the log ever changed."""
        taken = [
            dict(row) for row in self._connection.execute(select(entries).where(entries.c.log == self._log)).mappings()
        ]
        grants: defaultdict[Account, Counter[str]] = defaultdict(Counter)
        for row in taken:
            if row["origin"] == "grant":
                grown = row["source"].startswith("world/")
                tenant, objective, name = (row["target"] if grown else row["source"]).rsplit("/", 2)
                grants[Account(tenant, objective, row["period"])][name] += row["amount"] if grown else -row["amount"]
        left = {
            account: (bucket - grants[account]["bucket"], part - grants[account]["part"])
            for account, (bucket, part) in self._lock_granted(sorted(grants)).items()
        }
        self._set_granted(left)
        for table in (entries, judged, minutes, hours, decisions, turns):
            self._connection.execute(delete(table).where(table.c.log == self._log))
        self._move_balances(taken, -1)

    def _lock_granted(self, accounts: list[Account]) -> dict[Account, tuple[int, int]]:
        """What was granted to each; nobody else changes it before this transaction ends."""
        if not accounts:
            return {}
        new = upsert(self._connection, granted)
        touch = new.on_conflict_do_update(index_elements=granted.primary_key.columns, set_={"bucket": granted.c.bucket})
        self._connection.execute(touch, [{**account._asdict(), "bucket": 0, "part": 0} for account in accounts])
        periods = {account.period for account in accounts}
        wanted = set(accounts)
        found = {
            Account(row.tenant, row.objective, row.period): (int(row.bucket), int(row.part))
            for row in self._connection.execute(select(granted).where(granted.c.period.in_(periods)))
        }
        return {account: amounts for account, amounts in found.items() if account in wanted}

    def _set_granted(self, amounts: Mapping[Account, tuple[int, int]]) -> None:
        if not amounts:
            return
        new = upsert(self._connection, granted)
        self._connection.execute(
            new.on_conflict_do_update(
                index_elements=granted.primary_key.columns,
                set_={"bucket": new.excluded.bucket, "part": new.excluded.part},
            ),
            [{**account._asdict(), "bucket": bucket, "part": part} for account, (bucket, part) in amounts.items()],
        )

    def _judged_of(self, accounts: set[Account]) -> dict[Account, list[tuple[JudgedKey, int]]]:
        """Judged events of these accounts in all logs."""
        periods, tenants = {account.period for account in accounts}, {account.tenant for account in accounts}
        query = select(judged).where(judged.c.period.in_(periods), judged.c.tenant.in_(tenants))
        counts: defaultdict[Account, list[tuple[JudgedKey, int]]] = defaultdict(list)
        for row in self._connection.execute(query):
            key = JudgedKey(row.tenant, row.objective, row.tier, row.policy, row.period, row.exception)
            counts[Account(row.tenant, row.objective, row.period)].append((key, int(row.num_good) + int(row.num_bad)))
        return counts

    def _move_balances(self, rows: list[dict[str, Any]], sign: int) -> None:
        moved: Counter[tuple[str, str]] = Counter()
        for row in rows:
            moved[row["source"], row["period"]] -= sign * row["amount"]
            moved[row["target"], row["period"]] += sign * row["amount"]
        if moved:
            new = upsert(self._connection, balances)
            added = {"amount": balances.c.amount + new.excluded.amount}
            self._connection.execute(
                new.on_conflict_do_update(index_elements=balances.primary_key.columns, set_=added),
                [
                    {"account": account, "period": period, "amount": amount}
                    for (account, period), amount in sorted(moved.items())
                ],
            )


def learn_policies(connection: Connection, known: dict[str, Policy]) -> None:
    """Add the policies of the database that are not known yet."""
    for version in connection.execute(select(policies.c.version)).scalars().all():
        if version not in known:
            data = connection.execute(select(policies.c.data).where(policies.c.version == version)).scalar_one()
            known[version] = decode_policy(data)


def _row(log: str, batch: int, origin: str, entry: Entry, minute: int) -> dict[str, Any]:
    return {
        "log": log,
        "batch": batch,
        "origin": origin,
        "kind": entry.kind.value,
        "source": entry.source,
        "target": entry.target,
        "amount": entry.amount,
        "period": entry.period,
        "minute": minute,
    }

"""What an assessment looks at, read from the books: months, recent traffic, states last told, decisions that hold.

Histories are kept between minutes and only what is new is read. Imports sqlalchemy: not for `serve`.
"""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import msgspec
from sqlalchemy import Column, Connection, Table, delete, func, insert, select

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.actions import Action, Override
from plimsoll.ledger.assessment import Known, Row
from plimsoll.ledger.decided import CloseEvidence, DecisionKind, Undone
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.figures import History, Month
from plimsoll.ledger.promise import Promises, month_before
from plimsoll.slo.budget import Judged, period_bounds, period_of
from plimsoll.storage.batch import JudgedKey
from plimsoll.storage.grants import target_of
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.monthsums import JudgedSums, MonthSums, months_of
from plimsoll.storage.tables import balances, decisions, entries, granted, hours, judged, minutes, states

KEPT_HOURS: Final = 70 * 24
KEPT_MINUTES: Final = 7 * 60
_row: Final = msgspec.msgpack.Decoder(Row)
ROWS_AT_ONCE: Final = 10_000
Counts = dict[int, tuple[int, int]]


class Knowledge:
    """Reads one ledger again and again."""

    def __init__(self, books: LedgerDatabase) -> None:
        self._books = books
        self._hours: defaultdict[Owner, Counts] = defaultdict(dict)
        self._minutes: defaultdict[Owner, Counts] = defaultdict(dict)
        self._seen_at: float | None = None
        self._targets: dict[tuple[str, str, str], Fraction | None] = {}

    def known(self, promises: Promises, at: float, also: str = "") -> Known:
        """All that the books know for an assessment at that instant, with a further month; forecasts are not theirs."""
        now = period_of(at, promises.policy.service.timezone)
        with self._books.reading() as connection:
            ends = self._month_ends(connection)
            closed, provisional = _of(DecisionKind.CLOSE, ends), _of(DecisionKind.PROVISIONAL, ends)
            periods = self._periods(connection, now, {period for _, period in closed} - {also})
            taken = [
                entry
                for evidences in closed.values()
                for evidence in evidences
                for entry in evidence.entries
                if entry.period == evidence.period
            ]
            self._follow(connection, at)
            return Known(
                months=self._months(connection, periods, taken),
                histories={
                    owner: History(self._hours[owner], self._minutes.get(owner, {})) for owner in list(self._hours)
                },
                before={Owner(row.tenant, row.objective): (row.period, row.health) for row in self.rows(connection)},
                overrides=self._overrides(connection),
                num_pool=self._num_pool(connection, now, promises.policy.service.timezone),
                provisional=provisional,
                closed=closed,
                barred=self._barred(connection),
            )

    def rows(self, connection: Connection) -> list[Row]:
        """The states last told."""
        return [_row.decode(data) for data in connection.execute(select(states.c.data)).scalars()]

    def keep(self, rows: Iterable[Row], at: float) -> None:
        """Replace the states, and forget minutes that nobody needs any more."""
        told = [{"tenant": row.tenant, "objective": row.objective, "data": msgspec.msgpack.encode(row)} for row in rows]
        with self._books.writing() as connection:
            connection.execute(delete(states))
            if told:
                connection.execute(insert(states), told)
            connection.execute(delete(minutes).where(minutes.c.minute < int(at // 60) - KEPT_MINUTES))

    def actions(self, tenant: str, since: float) -> dict[str, Action]:
        """Changes of state of a tenant's budgets by key, oldest first."""
        found = self._books.decisions(DecisionKind.ACTION)
        told = {key: msgspec.msgpack.decode(each.data, type=Action) for key, each in found.items() if each.at >= since}
        return {key: action for key, action in told.items() if action.tenant == tenant}

    def entries_of(self, tenant: str, period: str) -> list[tuple[int, Entry]]:
        """All entries of a month that touch a tenant's accounts, by minute."""
        own = f"{tenant}/"
        query = select(entries).where(
            entries.c.period == period,
            entries.c.source.startswith(own, autoescape=True) | entries.c.target.startswith(own, autoescape=True),
        )
        with self._books.reading() as connection:
            return [
                (int(row.minute), Entry(EntryKind(row.kind), row.source, row.target, int(row.amount), row.period))
                for row in connection.execute(query.order_by(entries.c.minute, entries.c.log, entries.c.batch))
            ]

    def _periods(self, connection: Connection, now: str, closed: set[str]) -> set[str]:
        """This month, the one before, and older ones that nobody closed."""
        found = set(connection.execute(select(granted.c.period).distinct()).scalars())
        return {period for period in found if period >= month_before(now) or period not in closed}

    def _months(self, connection: Connection, periods: set[str], taken: list[Entry]) -> dict[str, Month]:
        counts = self._judged(connection, periods)
        amounts = {
            (Owner(row.tenant, row.objective), row.period): (int(row.bucket), int(row.part))
            for row in connection.execute(select(granted).where(granted.c.period.in_(periods)))
        }
        sums = MonthSums(periods)
        query = select(balances.c.account, balances.c.period, balances.c.amount)
        for account, period, amount in connection.execute(query.where(balances.c.period.in_(periods))):
            sums.add(account, period, int(amount))
        for entry in taken:  # what closes took out of loans and headroom was there before
            sums.give_back(entry)
        return months_of(periods, counts, amounts, sums)

    def _judged(
        self, connection: Connection, periods: set[str]
    ) -> dict[tuple[Owner, str], tuple[tuple[Judged, ...], int, int]]:
        """Outside windows of exception."""
        names = ("tenant", "objective", "tier", "policy", "period")
        sums = [func.sum(judged.c[name]) for name in ("num_good", "num_bad", "num_requests", "num_censored")]
        query = select(*[judged.c[name] for name in names], *sums)
        query = query.where(judged.c.period.in_(periods), judged.c.exception == "")
        found = JudgedSums()
        for tenant, objective, tier, policy, period, good, bad, requests, censored in connection.execute(
            query.group_by(*[judged.c[name] for name in names])
        ):
            target = self._target(JudgedKey(tenant, objective, tier, policy, period))
            found.add(Owner(tenant, objective), period, target, int(good) + int(bad), int(requests), int(censored))
        return found.all()

    def _target(self, key: JudgedKey) -> Fraction | None:
        name = (key.policy, key.tier, key.objective)
        if name not in self._targets:
            policy = self._books.policies.get(key.policy)
            if policy is None:
                return None
            self._targets[name] = target_of(policy, key)
        return self._targets[name]

    def _follow(self, connection: Connection, at: float) -> None:
        """Read what was counted since the last time; the newest hour and minutes may have grown."""
        seen = self._seen_at
        if seen is None:
            self._hours = _all_since(connection, hours, hours.c.hour, int(at // 3600) - KEPT_HOURS)
            self._minutes = _all_since(connection, minutes, minutes.c.minute, int(at // 60) - KEPT_MINUTES)
        else:
            _renew(connection, hours, hours.c.hour, int(seen // 3600) - 1, self._hours)
            _renew(connection, minutes, minutes.c.minute, int(seen // 60) - 5, self._minutes)
        if seen is None or int(seen // 3600) != int(at // 3600):
            _forget(self._hours, int(at // 3600) - KEPT_HOURS)
            _forget(self._minutes, int(at // 60) - KEPT_MINUTES)
        self._seen_at = at if seen is None else max(seen, at)

    def _month_ends(self, connection: Connection) -> list[tuple[DecisionKind, CloseEvidence]]:
        kinds = [DecisionKind.CLOSE.value, DecisionKind.PROVISIONAL.value]
        query = select(decisions.c.kind, decisions.c.data).where(decisions.c.kind.in_(kinds))
        return [
            (DecisionKind(kind), msgspec.msgpack.decode(data, type=CloseEvidence))
            for kind, data in connection.execute(query.order_by(decisions.c.at, decisions.c.key))
        ]

    def _overrides(self, connection: Connection) -> tuple[Override, ...]:
        made: dict[str, Override] = {}
        kinds = [DecisionKind.OVERRIDE.value, DecisionKind.UNDO.value]
        query = select(decisions.c.kind, decisions.c.data).where(decisions.c.kind.in_(kinds))
        for kind, data in connection.execute(query.order_by(decisions.c.at, decisions.c.key)):
            if kind == DecisionKind.OVERRIDE:
                override = msgspec.msgpack.decode(data, type=Override)
                made[override.key] = override
            else:
                made.pop(msgspec.msgpack.decode(data, type=Undone).key, None)
        return tuple(made.values())

    def _barred(self, connection: Connection) -> dict[str, frozenset[Owner]]:
        """By period."""
        query = select(decisions.c.data).where(decisions.c.kind == DecisionKind.UNDO.value)
        found: dict[str, frozenset[Owner]] = {}
        for data in connection.execute(query).scalars():
            undone = msgspec.msgpack.decode(data, type=Undone)
            if undone.barred:
                found[undone.period] = found.get(undone.period, frozenset()) | frozenset(undone.barred)
        return found

    def _num_pool(self, connection: Connection, period: str, zone: str) -> int:
        query = select(func.count()).where(
            decisions.c.kind == DecisionKind.POOL.value, decisions.c.at >= period_bounds(period, zone)[0]
        )
        return int(connection.execute(query).scalar_one())


def _all_since(connection: Connection, table: Table, column: Column[int], least: int) -> defaultdict[Owner, Counts]:
    """Everything counted from then on. In the table's own order, and added up here: a quarter of the work of sorting
    and summing two million rows in the database."""
    kept: defaultdict[Owner, Counts] = defaultdict(dict)
    columns = (table.c.tenant, table.c.objective, column, table.c.num_good, table.c.num_bad)
    query = select(*columns).where(column >= least).order_by(*table.primary_key.columns)
    name, counts = ("", ""), Counts()
    for rows in connection.execute(query).partitions(ROWS_AT_ONCE):
        for tenant, objective, when, good, bad in rows:
            if (tenant, objective) != name:
                name = (tenant, objective)
                counts = kept[Owner(tenant, objective)]
            if when in counts:  # in another log, too
                judged, before = counts[when]
                counts[when] = (judged + good + bad, before + bad)
            else:
                counts[when] = (good + bad, bad)
    return kept


def _renew(
    connection: Connection, table: Table, column: Column[int], least: int, kept: defaultdict[Owner, Counts]
) -> None:
    """Replace what was counted from then on."""
    key = (table.c.tenant, table.c.objective, column)
    query = select(*key, func.sum(table.c.num_good), func.sum(table.c.num_bad)).where(column >= least)
    for tenant, objective, when, good, bad in connection.execute(query.group_by(*key)):
        kept[Owner(tenant, objective)][when] = (int(good) + int(bad), int(bad))


def hours_of_objective(connection: Connection, objective: str) -> list[tuple[str, int, int, int]]:
    """Tenant, hour, judged and bad of all that was ever counted for it, in this order."""
    key, sums = (hours.c.tenant, hours.c.hour), (func.sum(hours.c.num_good), func.sum(hours.c.num_bad))
    query = select(*key, *sums).where(hours.c.objective == objective).group_by(*key).order_by(*key)
    return [(tenant, hour, int(good) + int(bad), int(bad)) for tenant, hour, good, bad in connection.execute(query)]


def last_told(connection: Connection) -> float | None:
    """The instant up to which the books know traffic, to the minute or hour; None where there is none."""
    minute: int | None = connection.execute(select(func.max(minutes.c.minute))).scalar()
    if minute is not None:
        return 60.0 * (minute + 1)
    hour: int | None = connection.execute(select(func.max(hours.c.hour))).scalar()
    return None if hour is None else 3600.0 * (hour + 1)


def _of(
    kind: DecisionKind, ends: list[tuple[DecisionKind, CloseEvidence]]
) -> dict[tuple[str, str], tuple[CloseEvidence, ...]]:
    """Month's ends of one kind by zone and period."""
    found: dict[tuple[str, str], tuple[CloseEvidence, ...]] = {}
    for of, evidence in ends:
        if of is kind:
            key = (evidence.zone, evidence.period)
            found[key] = (*found.get(key, ()), evidence)
    return found


def _forget(counts: dict[Owner, Counts], least: int) -> None:
    for kept in counts.values():
        for when in [when for when in kept if when < least]:
            del kept[when]

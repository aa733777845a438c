"""Proof that the books are right: they balance, and they say what the log says. `plimsoll ledger verify`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from plimsoll.ledger.entry import Entry
from plimsoll.storage.batch import Batch, JudgedKey
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.grants import Account, grant_of
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import first_offset, read_rows

WHOLE: Final = 1 << 62
"""More rows than any log has."""

Flow = tuple[str, str, str, str]
"""kind, source, target, period."""


class Finding(Struct, frozen=True):
    """One thing that is wrong: what, what the books say, and what is true."""

    what: str
    books: int
    truth: int

    def __str__(self) -> str:
        return f"{self.what}: the books say {self.books}, but it is {self.truth}"


class Audit(Struct, frozen=True):
    """What was compared, and what was found wrong; no findings means proven right."""

    num_settled: int  # requests in the log, up to where it is posted
    num_entries: int
    num_accounts: int
    posted_to: int  # offset in the log
    findings: tuple[Finding, ...]
    log_end: int = 0  # where the log ends; beyond `posted_to` where a projection has yet to catch up


def audit(paths: DataDirectory, books: LedgerDatabase) -> Audit:
    """Compare the books with the log of this data directory, up to where it is posted, and with themselves."""
    log = paths.identity().log
    first = first_offset(paths.journal)
    reached = books.position(log, first)
    truth = Batch(first, dict(books.policies)).take(read_rows(paths.journal, first), WHOLE, until=reached)
    entries = [entry for _, entry in books.entries()]
    if truth.end < reached:  # nothing that follows could be compared
        damage = Finding("the log is damaged or was cut; end of what can be read", reached, truth.end)
        return Audit(truth.num_settled, len(entries), len(books.balances()), reached, (damage,), truth.end)
    posted: Counter[Flow] = Counter()
    for origin, entry in books.entries(log):
        if origin == "row":
            posted[entry.kind, entry.source, entry.target, entry.period] += entry.amount
    moved: Counter[Flow] = Counter()
    for move, amount in truth.moves.items():
        moved[move.kind, move.source, move.target, move.period] += amount
    balances, judged = books.balances(), books.judged(log)
    findings = [
        *_differences("sum of all accounts in", _sums(balances), {}),
        *_differences("balance of", balances, _balances_of(entries)),
        *_differences("moved by", posted, moved),
        *_decided_findings(books, log, truth),
        *_differences("good events of", {key: counts.num_good for key, counts in judged.items()}, truth.good),
        *_differences("bad events of", {key: counts.num_bad for key, counts in judged.items()}, truth.bad),
        *_differences("censored of", {key: counts.num_censored for key, counts in judged.items()}, truth.censored),
        *_differences("requests of", {key: counts.num_requests for key, counts in judged.items()}, truth.requests),
        *_grant_findings(books),
    ]
    log_end = max((row.end for row in read_rows(paths.journal, reached)), default=reached)
    return Audit(truth.num_settled, len(entries), len(balances), reached, tuple(findings), log_end)


def _differences(what: str, books: Mapping[Any, int], truth: Mapping[Any, int]) -> Iterator[Finding]:
    """Where two counts differ; what one of them does not have counts as 0."""
    for key in sorted({*books, *truth}):
        found, expected = books.get(key, 0), truth.get(key, 0)
        if found != expected:
            name = key if isinstance(key, str) else " ".join(map(str, key))
            yield Finding(f"{what} {name}".strip(), found, expected)


def _sums(balances: Mapping[tuple[str, str], int]) -> Counter[str]:
    """All accounts of a period added up: 0 each, if the books balance."""
    sums: Counter[str] = Counter()
    for (_, period), amount in balances.items():
        sums[period] += amount
    return sums


def _balances_of(entries: Iterable[Entry]) -> Counter[tuple[str, str]]:
    balances: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        balances[entry.source, entry.period] -= entry.amount
        balances[entry.target, entry.period] += entry.amount
    return balances


def _decided_findings(books: LedgerDatabase, log: str, truth: Batch) -> Iterator[Finding]:
    """Decisions of the log that the books lack, or whose entries they have otherwise; what another log brought first
    is that log's."""
    kept = books.decisions()
    moved: Counter[Flow] = Counter()
    counted: set[str] = set()
    for _, decided in truth.decisions:
        if decided.key in counted:
            continue
        counted.add(decided.key)
        found = kept.get(decided.key)
        if found is None:
            yield Finding(f"decision {decided.key}", 0, 1)
        elif found.log == log:
            for entry in decided.entries:
                moved[entry.kind, entry.source, entry.target, entry.period] += entry.amount
    posted: Counter[Flow] = Counter()
    for origin, entry in books.entries(log):
        if origin == "decision":
            posted[entry.kind, entry.source, entry.target, entry.period] += entry.amount
    yield from _differences("decided", posted, moved)


def _grant_findings(books: LedgerDatabase) -> Iterator[Finding]:
    """Grants that are not what the judged events of all logs allow."""
    counts: defaultdict[Account, list[tuple[JudgedKey, int]]] = defaultdict(list)
    for key, judged in books.judged().items():
        counts[Account(key.tenant, key.objective, key.period)].append((key, judged.num_good + judged.num_bad))
    granted = books.granted()
    truth = {account: grant_of(counts[account], books.policies) for account in {*counts, *granted}}
    yield from _differences(
        "bucket granted to",
        {account: bucket for account, (bucket, _) in granted.items()},
        {account: grant.bucket for account, grant in truth.items()},
    )
    yield from _differences(
        "pool part granted to",
        {account: part for account, (_, part) in granted.items()},
        {account: grant.pool_part for account, grant in truth.items()},
    )

"""What replicas streamed by hour, from the log; kept by hour in the data directory for whoever asks often.

`DIR/capabilities/` has one small file an hour, made when the hour is over and its rows are there, and removed after a
week. Whoever only looks (`plimsoll capability`) reads the log itself. Imports duckdb.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import duckdb
import msgspec

from plimsoll.analytics.capability import DAYS, Capabilities, Hour, capabilities
from plimsoll.errors import PlimsollError
from plimsoll.governor import recording
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.figures import History
from plimsoll.policy.policy import Policy
from plimsoll.slo.steadiness import STALL
from plimsoll.slo.timing import bucket_of
from plimsoll.storage.budgetminute import Minute
from plimsoll.storage.capabilityreport import HOUR, LATE, report
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.query import connect

_STALL_BUCKET: Final = bucket_of(STALL)
"""It ends there: those above it hold longer gaps."""

_HOURS: Final = """
    WITH streams AS (
        SELECT floor(finished_at / 3600) * 3600 AS from_at, pool, model, replica,
            CASE WHEN report_running IS NULL THEN -1 ELSE floor(log2(report_running + 1))::INTEGER END AS load,
            output_tokens - 1 AS tokens, tpot * (output_tokens - 1) AS time, itl_sketches,
            CASE WHEN tpot > 0 THEN ceil(log2(tpot) * 32)::INTEGER END AS pace,
            CASE WHEN first_token_at > dispatched_at
                THEN ceil(log2(first_token_at - dispatched_at) * 32)::INTEGER END AS first
        FROM requests
        WHERE finished_at >= ? AND finished_at < ? AND replica <> '' AND tpot IS NOT NULL AND output_tokens > 1
    ), gaps AS (
        SELECT from_at, pool, model, replica, load, list_sum([
            s.num_zero + coalesce(list_sum(map_values(s.buckets)), 0) FOR s IN itl_sketches
        ]) AS gaps, list_sum([
            coalesce(list_sum([e.value FOR e IN map_entries(s.buckets) IF e.key > ?]), 0) FOR s IN itl_sketches
        ]) AS stalls, tokens, time, pace, first
        FROM streams
    )
    SELECT from_at, pool, model, replica, load, count(*), sum(tokens), sum(time), coalesce(sum(gaps), 0),
        coalesce(sum(stalls), 0), histogram(pace), histogram(first)
    FROM gaps GROUP BY from_at, pool, model, replica, load ORDER BY from_at, pool, model, replica, load
"""


def hours(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> list[Hour]:
    """What ended in [since, until), by the hour; the connection has the view `requests` (`storage/query`)."""
    found = connection.execute(_HOURS, [since, until, _STALL_BUCKET]).fetchall()
    return [
        Hour(
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            int(row[5]),
            int(row[6]),
            row[7],
            int(row[8]),
            int(row[9]),
            row[10] or {},
            row[11] or {},
        )
        for row in found
    ]


def measured(directory: Path, policy: Policy, until: float | None = None) -> Capabilities:
    """Of the week before that instant (None: before the log's last end), from the log itself."""
    with connect(directory) as connection:
        if until is None:
            (last,) = connection.execute("SELECT max(finished_at) FROM requests").fetchall()[0]
            until = 0.0 if last is None else last + 1e-6
        since = until - DAYS * 24.0 * HOUR
        return capabilities(hours(connection, since, until), policy, str(directory), since, until)


def kept(directory: Path, policy: Policy, until: float) -> Capabilities:
    """Of the week before that instant, from the hours that are kept; nothing where none are."""
    since = until - DAYS * 24.0 * HOUR
    found: list[Hour] = []
    for path in _files(directory / "capabilities"):
        if since <= float(path.stem) < until:
            with suppress(FileNotFoundError):  # its week was over meanwhile
                found += msgspec.msgpack.decode(path.read_bytes(), type=list[Hour])
    return capabilities(found, policy, str(directory), since, until)


class CapabilityKeeper:
    """Called once a minute in the projector's process: keeps the hours, and tells the gateway when one is new."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._folder = directory / "capabilities"
        self._inbox = Inbox(directory)
        self._say = say
        self._done_until = 0.0
        self._trouble = ""

    def __call__(self, policy: Policy, minute: Minute, _: Mapping[Owner, History]) -> None:
        """See `budgeting.Listener`."""
        self.keep(policy, minute.at)

    def keep(self, policy: Policy, at: float) -> None:
        """Measure the hour that is over; trouble is said once and never stops the books."""
        until = (at - LATE) // HOUR * HOUR
        if until <= self._done_until:
            return
        try:
            self._measure(until)
            found = self.known(policy, until)
            self._inbox.put_capabilities(recording.encode(report(found, at)))
        except (PlimsollError, OSError, duckdb.Error) as error:
            if str(error) != self._trouble:
                self._say(f"capabilities are not measured: {error}")
            self._trouble = str(error)
        else:
            self._trouble, self._done_until = "", until

    def known(self, policy: Policy, until: float) -> Capabilities:
        """Of the week before that instant, from the hours that are kept."""
        return kept(self._directory, policy, until)

    def _measure(self, until: float) -> None:
        """The hour before, or the whole week where none is kept; what is older than a week goes."""
        self._folder.mkdir(exist_ok=True)
        since = until - DAYS * 24.0 * HOUR
        last = max([float(path.stem) for path in _files(self._folder)], default=since - HOUR)
        begin = max(since, last + HOUR)
        if begin < until:
            by_hour: dict[float, list[Hour]] = {}
            with connect(self._directory, begin) as connection:
                for hour in hours(connection, begin, until):
                    by_hour.setdefault(hour.from_at, []).append(hour)
            by_hour.setdefault(until - HOUR, [])  # so that it is known to have been looked at
            for from_at, found in by_hour.items():
                path = self._folder / f"{from_at:.0f}.hour"
                part = path.with_suffix(".part")
                part.write_bytes(msgspec.msgpack.encode(found))
                part.replace(path)
        for path in _files(self._folder):
            if float(path.stem) < since:
                path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".hour"))
    return []

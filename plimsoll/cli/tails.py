"""`plimsoll tails`: latency quantiles of a log by any labels and over time."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console

from plimsoll.analytics.tails import Tails
from plimsoll.cli.options import Seconds
from plimsoll.cli.report import WIDTH, data_directory, window_of
from plimsoll.errors import UsageError

BY = ("tenant", "tier")
MOST_SLICES = 20_000


def tails(
    directory: Path,
    *,
    by: str = ",".join(BY),
    every: Seconds | None = None,
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False,
    since: str | None = None,
    until: str | None = None,
    tenant: str | None = None,
) -> None:
    """Show P50, P95 and P99 with intervals by any labels and over time; P99 ÷ P50 first.

    Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    directory
        A data directory, as `plimsoll serve --data DIR` leaves it, or a folder that holds one under the name `data`.
    by
        Labels by commas: tenant, tier, pool, replica, model, adapter, cause, length (class of the prompt), tenants
        (how many were there in the same minute), variation (of the tenant's prompt lengths); "" for none.
    every
        Cut time into slices: 10s, 1min, 5min, 1h, 1d.
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    since
        Only requests that arrived from then on: 2026-11-30, 2026-11-30T12:00, or 2h: before the last arrival.
    until
        Only requests that arrived before; as --since.
    tenant
        Only this tenant's requests.
    """
    labels = tuple(label.strip() for label in by.split(",") if label.strip())
    found, zone = make(data_directory(directory), labels, every, since=since, until=until, tenant=tenant)
    if json_output:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return
    from plimsoll.cli.tailtable import show  # noqa: PLC0415 - tables, only where they are needed

    show(found, zone, Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH))


def make(
    directory: Path, by: tuple[str, ...], every: float | None, *, since: str | None, until: str | None,
    tenant: str | None,
) -> tuple[Tails, str]:  # fmt: skip
    """The tails and the zone of their times; UsageError where a label, window or tenant makes no sense."""
    from plimsoll.storage import tails as storage  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    unknown = [label for label in by if label not in storage.LABELS]
    if unknown or len(set(by)) < len(by):
        wrong = f"no label is named {unknown[0]!r}" if unknown else "a label is named twice"
        raise UsageError(f"--by {','.join(by)}: {wrong}; known: {', '.join(storage.LABELS)}")
    with connect(directory) as connection:
        policy = policy_in_force(directory)
        first, last = connection.execute("SELECT min(arrived_at), max(arrived_at) FROM requests").fetchall()[0]
        window = window_of(since, until, tenant, policy, last)
        if every is not None:
            span = 0.0 if last is None else min(last, window.until) - max(first, window.since)
            if every <= 0 or span / every > MOST_SLICES:
                raise UsageError(f"--every {every:g}s: would cut {span:.0f} s into more than {MOST_SLICES} slices")
        return storage.tails(connection, window, by, every, str(directory)), policy.service.timezone

"""`plimsoll tails`: latency quantiles of a log by any labels and over time."""

from pathlib import Path

from plimsoll.analytics.tails import Tails
from plimsoll.cli.logwindow import data_directory, window_of
from plimsoll.cli.options import DataDir, Json, Seconds, Since, Until
from plimsoll.cli.output import print_json, terminal
from plimsoll.errors import UsageError

BY = ("tenant", "tier")
MOST_SLICES = 20_000


def tails(
    directory: DataDir,
    *,
    by: str = ",".join(BY),
    every: Seconds | None = None,
    json_output: Json = False,
    since: Since = None,
    until: Until = None,
    tenant: str | None = None,
) -> None:
    """Show P50, P95 and P99 with intervals by any labels and over time; P99 ÷ P50 first.

    Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    by
        Labels by commas: tenant, tier, pool, replica, model, adapter, cause, length (class of the prompt), tenants
        (how many were there in the same minute), variation (of the tenant's prompt lengths); "" for none.
    every
        Cut time into slices: 10s, 1min, 5min, 1h, 1d.
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    tenant
        Only this tenant's requests.
    """
    labels = labels_of(by)
    found, zone = make(data_directory(directory), labels, every, since=since, until=until, tenant=tenant)
    if json_output:
        print_json(found)
        return
    from plimsoll.cli.tailtable import show  # noqa: PLC0415 - tables, only where they are needed

    show(found, zone, terminal())


def labels_of(by: str) -> tuple[str, ...]:
    """Labels from a text with commas; UsageError where one is not known or named twice."""
    from plimsoll.storage.tails import LABELS  # noqa: PLC0415 - DuckDB, only where it is needed

    labels = tuple(label.strip() for label in by.split(",") if label.strip())
    unknown = [label for label in labels if label not in LABELS]
    if unknown or len(set(labels)) < len(labels):
        wrong = f"no label is named {unknown[0]!r}" if unknown else "a label is named twice"
        raise UsageError(f"--by {by}: {wrong}; known: {', '.join(LABELS)}")
    return labels


def make(
    directory: Path, by: tuple[str, ...], every: float | None, *, since: str | None, until: str | None,
    tenant: str | None,
) -> tuple[Tails, str]:  # fmt: skip
    """The tails and the zone of their times; UsageError where a window or tenant makes no sense."""
    from plimsoll.storage import tails as storage  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    with connect(directory) as connection:
        policy = policy_in_force(directory)
        first, last = connection.execute("SELECT min(arrived_at), max(arrived_at) FROM requests").fetchall()[0]
        window = window_of(since, until, tenant, policy, last)
        if every is not None:
            span = 0.0 if last is None else min(last, window.until) - max(first, window.since)
            if every <= 0 or span / every > MOST_SLICES:
                raise UsageError(f"--every {every:g}s: would cut {span:.0f} s into more than {MOST_SLICES} slices")
        return storage.tails(connection, window, by, every, str(directory)), policy.service.timezone

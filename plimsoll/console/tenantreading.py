"""What the pages of one tenant read from the log: its tails and verdicts by slices of time, its slowest requests."""

from math import inf
from pathlib import Path
from typing import Final

from msgspec import Struct

from plimsoll.analytics.gathering import Window
from plimsoll.analytics.tails import TailGroup
from plimsoll.console.logreading import NO_GAPS
from plimsoll.requestlog.record import format_request_id
from plimsoll.slo.budget import HourCount
from plimsoll.storage.chosen import quoted
from plimsoll.storage.hourly import hourly_of
from plimsoll.storage.promised import policy_in_force
from plimsoll.storage.query import connect
from plimsoll.storage.tails import tails

NUM_SLICES: Final = 48
FEWEST_SLICES: Final = 24
EACH: Final = 400
STEPS: Final = (5, 10, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 86_400)
"""s of a slice: the first with which a window has no more than NUM_SLICES."""
MOST_SLOW: Final = 20


class SliceJudged(Struct, frozen=True):
    """What was judged of one objective in a slice; `start` in UTC epoch s."""

    objective: str
    start: float
    good: int
    bad: int
    charges: dict[str, int]


class SlowRequest(Struct, frozen=True):
    """One that missed an objective, or one of the slowest. Durations in s; None is unknown."""

    request: str
    arrived_at: float
    ttft: float | None
    e2e: float | None
    prompt_tokens: int
    output_tokens: int
    replica: str
    outcome: str
    broke: tuple[str, ...]


class TenantLog(Struct, frozen=True):
    """One tenant in a window. `hours` are of the whole log, by objective."""

    tenant: str
    since: float
    until: float
    every: float
    num: int
    num_bad: int
    whole: TailGroup | None
    slices: tuple[TailGroup, ...]
    judged: tuple[SliceJudged, ...]
    slow: tuple[SlowRequest, ...]
    hours: dict[str, list[HourCount]]


def step_of(span: float, num: int) -> float:
    """s of a slice of so long a window with so many requests: a tail needs some hundred values."""
    most = min(NUM_SLICES, max(FEWEST_SLICES, num // EACH))
    return float(next((step for step in STEPS if span / step <= most), STEPS[-1]))


def read_tenant(root: Path, tenant: str, since: float, until: float, *, hours: bool = True) -> TenantLog:
    """Requests of the tenant that arrived in [since, until); `hours` only where they are asked for."""
    with connect(root, -inf if hours else since) as connection:
        by_hour = hourly_of(connection, tenant, policy_in_force(root).budget.exceptions) if hours else {}
        connection.execute(
            f"""CREATE TEMP TABLE windowed AS SELECT * EXCLUDE (entries) {NO_GAPS} FROM requests
            WHERE tenant = {quoted(tenant)} AND arrived_at >= {since!r}::DOUBLE AND arrived_at < {until!r}::DOUBLE"""
        )
        connection.execute("CREATE OR REPLACE TEMP VIEW requests AS SELECT * FROM windowed")
        (num,) = connection.execute("SELECT count(*) FROM requests").fetchall()[0]
        every = step_of(until - since, num)
        found = tails(connection, Window(since, until, tenant), (), every, "")
        judged: dict[tuple[str, float], tuple[list[int], dict[str, int]]] = {}
        for objective, start, charge, good, bad in connection.execute(
            f"""SELECT v.objective, floor(arrived_at / {every!r}) * {every!r} AS start, v.charge,
                sum(v.num_good)::BIGINT, sum(v.num_bad)::BIGINT
            FROM (SELECT arrived_at, unnest(verdicts) AS v FROM requests)
            WHERE v.num_good + v.num_bad > 0 GROUP BY ALL ORDER BY 1, 2, 3"""
        ).fetchall():
            counts, charges = judged.setdefault((objective, start), ([0, 0], {}))
            counts[0] += good
            counts[1] += bad
            if charge and bad:
                charges[charge] = charges.get(charge, 0) + bad
        slow = connection.execute(
            f"""SELECT request_id, arrived_at, ttft, e2e, prompt_tokens, output_tokens, replica, outcome,
                list_transform(list_filter(verdicts, lambda v: v.num_bad > 0), lambda v: v.objective) AS broke
            FROM requests ORDER BY len(broke) > 0 DESC, coalesce(ttft, e2e, finished_at - arrived_at) DESC, request_id
            LIMIT {MOST_SLOW}"""
        ).fetchall()
        slow = [(format_request_id(row[0]), *row[1:-1], tuple(row[-1] or ())) for row in slow]
    return TenantLog(
        tenant=tenant,
        since=since,
        until=until,
        every=every,
        num=found.num,
        num_bad=found.whole.num_bad,
        whole=found.whole if found.num else None,
        slices=found.groups,
        judged=tuple([SliceJudged(*key, counts[0], counts[1], charges) for key, (counts, charges) in judged.items()]),
        slow=tuple([SlowRequest(*row) for row in slow]),
        hours={objective: counts for (_, objective), counts in by_hour.items()},
    )

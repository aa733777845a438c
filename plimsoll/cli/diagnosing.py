"""What the commands of diagnosis share: rows of a data directory as columns, and its engines' profiles."""

from typing import Any

import duckdb

from plimsoll.diagnosis.visits import FIELDS, Visits
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.policy.policy import Policy
from plimsoll.storage.chosen import BROKE


def visits_between(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> Visits:
    """The requests that arrived in [since, until), UTC epoch s; either may be infinite."""
    bounds = [f"arrived_at >= {since!r}"] if since > float("-inf") else []
    bounds += [f"arrived_at < {until!r}"] if until < float("inf") else []
    where = f"WHERE {' AND '.join(bounds)}" if bounds else ""
    columns: dict[str, Any] = connection.execute(
        f"""SELECT {", ".join(FIELDS)},
            {BROKE} AS broke
        FROM requests {where}"""
    ).fetchnumpy()
    return Visits(columns)


def engines_of(policy: Policy) -> dict[str, EngineProfile]:
    """By pool, the profiles that the policy names and that are at hand; others stay unknown."""
    found: dict[str, EngineProfile] = {}
    for pool in policy.pools:
        if pool.profile:
            try:
                found[pool.name] = profiles.of_pool(pool)
            except ProfileError:
                continue
    return found

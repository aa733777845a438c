"""What the commands of diagnosis share: rows of a data directory as columns, and its engines' profiles."""

from typing import Any

import duckdb

from plimsoll.diagnosis.enginesignals import States
from plimsoll.diagnosis.visits import FIELDS, MORE_FIELDS, Visits
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.enginestate import HISTOGRAMS, ReplicaWindow
from plimsoll.storage.chosen import BROKE


def visits_between(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> Visits:
    """The requests that arrived in [since, until), UTC epoch s; either may be infinite."""
    bounds = [f"arrived_at >= {since!r}"] if since > float("-inf") else []
    bounds += [f"arrived_at < {until!r}"] if until < float("inf") else []
    where = f"WHERE {' AND '.join(bounds)}" if bounds else ""
    columns: dict[str, Any] = connection.execute(
        f"""SELECT {", ".join((*FIELDS, *MORE_FIELDS))},
            {BROKE} AS broke
        FROM requests {where}"""
    ).fetchnumpy()
    return Visits(columns)


def states_between(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> States:
    """What replicas reported in windows that touch [since, until), UTC epoch s; either may be infinite."""
    bounds = [f"until_at > {since!r}"] if since > float("-inf") else []
    bounds += [f"from_at < {until!r}"] if until < float("inf") else []
    where = f"WHERE {' AND '.join(bounds)}" if bounds else ""
    names = [name for name in ReplicaWindow.__struct_fields__ if name not in HISTOGRAMS]
    rows = connection.execute(f"SELECT {', '.join(names)} FROM states {where}").fetchall()
    return States(ReplicaWindow(*row) for row in rows)


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

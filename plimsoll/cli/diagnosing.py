"""What the commands of diagnosis share: rows of a data directory as columns, and its engines' profiles."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plimsoll.diagnosis.enginesignals import States
from plimsoll.diagnosis.visits import FIELDS, MORE_FIELDS, Visits, texts_of
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
    table = connection.sql(
        f"""SELECT {", ".join((*FIELDS, *MORE_FIELDS))},
            {BROKE} AS broke
        FROM requests {where}"""
    ).to_arrow_table()
    return Visits({name: _column(table.column(name)) for name in table.column_names})


def _column(values: pa.ChunkedArray) -> Any:
    """As `Visits` wants it: texts by codes, numbers with NaN where unknown."""
    if pa.types.is_string(values.type):
        coded = pc.fill_null(values, "").combine_chunks().dictionary_encode()
        return texts_of(coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64))
    return values.to_numpy()


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

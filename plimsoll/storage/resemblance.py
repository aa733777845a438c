"""How much requests that arrive together resemble each other, measured over blocks of time in the log."""

from typing import Any, Final

import duckdb

from plimsoll.analytics.gathering import Gathered
from plimsoll.analytics.independence import design_effect
from plimsoll.analytics.latencyfigures import LEVELS
from plimsoll.analytics.tally import Tally, merged
from plimsoll.slo.outcome import Outcome

NUM_BLOCKS: Final = 30
"""So many, of equal length, over the span of arrivals."""
SHORTEST_BLOCK: Final = 2.0
"""s; where blocks would be shorter none are made."""
CORRECTED: Final = ("ttft", "e2e")

LATENCY_ROWS: Final = {
    "ttft": """SELECT {keys}, arrived_at, 'ttft' AS name, ttft IS NULL AS cut_off, coalesce(ttft, waited) AS value
        FROM chosen WHERE streaming AND (ttft IS NOT NULL OR waiting)""",
    "e2e": """SELECT {keys}, arrived_at, 'e2e' AS name, e2e IS NULL OR outcome <> 'completed' AS cut_off,
            CASE WHEN outcome = 'completed' THEN e2e ELSE waited END AS value
        FROM chosen WHERE (e2e IS NOT NULL AND outcome = 'completed') OR waiting""",
    "tpot": """SELECT {keys}, arrived_at, 'tpot' AS name, false AS cut_off, tpot AS value
        FROM chosen WHERE tpot IS NOT NULL""",
    "queued_for": f"""SELECT {{keys}}, arrived_at, 'queued_for' AS name, false AS cut_off, queued_for AS value
        FROM chosen WHERE outcome <> '{Outcome.REJECTED.value}' AND queued_for IS NOT NULL""",
}
"""By latency, one row a request of the view `chosen` that has it; the rules are `analytics.tally.latency_of`'s."""
_TTFT_AND_E2E: Final = " UNION ALL ".join(LATENCY_ROWS[name] for name in CORRECTED)


def design_effects(
    connection: duckdb.DuckDBPyConnection, gathered: Gathered
) -> dict[tuple[str, str, str, float], float]:
    """By (kind, group, latency, quantile): how the share above that quantile varies from block to block."""
    first, last = connection.execute("SELECT min(arrived_at), max(arrived_at) FROM chosen").fetchall()[0]
    if first is None or (last - first) / NUM_BLOCKS < SHORTEST_BLOCK:
        return {}
    block = f"floor((arrived_at - {first!r}::DOUBLE) / {(last - first) / NUM_BLOCKS!r}::DOUBLE)"
    effects: dict[tuple[str, str, str, float], float] = {}
    for kind, (group, tallies) in _groups(gathered).items():
        for (name, latency, q), counts in sorted(_blocks(connection, group, tallies, block).items()):
            effect = design_effect(sorted(counts))
            if effect is not None:
                effects[kind, name, latency, q] = effect
    return effects


def _groups(gathered: Gathered) -> dict[str, tuple[str, dict[str, Tally]]]:
    """By kind: the SQL that names a row's group, and each group's tally."""
    tenants = gathered.tenants
    tiers = {of: merged(tally for (_, tier), tally in tenants.items() if tier == of) for _, of in tenants}
    return {
        "tenant": ("tenant || '/' || tier", {f"{name}/{tier}": tally for (name, tier), tally in tenants.items()}),
        "tier": ("tier", tiers),
        "all": ("'all'", {"all": merged(tenants.values())}),
        "cause": ("cause", gathered.causes),
    }


def _blocks(
    connection: duckdb.DuckDBPyConnection, group: str, tallies: dict[str, Tally], block: str
) -> dict[tuple[str, str, float], list[tuple[int, int]]]:
    """By (group, latency, quantile): values, and of these above the quantile, of each block."""
    limits: list[list[Any]] = []
    for name, tally in tallies.items():
        for latency in CORRECTED:
            levels = [(q, tally.latencies[latency].seen.quantile(q)) for q in LEVELS]
            limits += [[name, latency, q, value] for q, value in levels if value is not None]
    if not limits:
        return {}
    connection.execute("CREATE OR REPLACE TEMP TABLE limits (g VARCHAR, name VARCHAR, q DOUBLE, threshold DOUBLE)")
    connection.executemany("INSERT INTO limits VALUES (?, ?, ?, ?)", limits)
    found: dict[tuple[str, str, float], list[tuple[int, int]]] = {}
    for name, latency, q, num, above in connection.execute(
        f"""SELECT v.g, v.name, q, count(*), count_if(value > threshold)
        FROM (SELECT *, {block} AS block FROM ({_TTFT_AND_E2E.format(keys=f"{group} AS g")}) WHERE NOT cut_off) v
        JOIN limits ON v.g = limits.g AND v.name = limits.name GROUP BY v.g, v.name, q, block"""
    ).fetchall():
        found.setdefault((name, latency, q), []).append((num, above))
    return found

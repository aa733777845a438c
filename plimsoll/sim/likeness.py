"""How like its source traffic is that was drawn from what was learnt of it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.endings import Table
from plimsoll.sim.learning import Behaviour, Learnt, behaviour
from plimsoll.sim.workload import Workload
from plimsoll.storage.tracerow import TraceRow

LEVELS: Final = (0.5, 0.9, 0.99)
_ENOUGH: Final = 30  # requests of a span whose rate is compared

Pairs = tuple[tuple[float, float], ...]
"""(log, drawn) at each of LEVELS; () where there is nothing to compare."""


class Likeness(Struct, frozen=True):
    """One tenant in the log and as drawn from what was learnt of it: (log, drawn) of each figure."""

    tenant: str
    num: tuple[int, int]
    rate_error: float  # the mean over spans of |drawn − log| ÷ log, where the log has 30 requests or more
    chance_error: float  # the same that luck alone makes in counts of those sizes
    burstiness: tuple[float, float]
    prompt: Pairs
    output: Pairs
    correlation: tuple[float, float]
    turns: Pairs = ()
    think: Pairs = ()  # s
    followup: Pairs = ()
    shared: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 1))  # (tokens, variants)
    upstream: Pairs = ()  # s
    repeated: tuple[float, float] | None = None  # share of prompt tokens that an earlier prompt began with


def likeness(found: Learnt, rows: Sequence[TraceRow], load: Workload, seed: int) -> list[Likeness]:
    """Traffic drawn from the file beside the log."""
    drawn: dict[str, list[TraceRow]] = {}
    for arrival in load.arrivals(seed):
        drawn.setdefault(arrival.tenant, []).append(as_row(arrival))
    alike = []
    for each in found.tenants:
        log = [row for row in rows if row.tenant == each.tenant]
        alike.append(_alike(each, log, drawn.get(each.tenant, []), found.duration))
    return alike


def as_row(arrival: Arrival) -> TraceRow:
    """A request of a workload as a trace would tell it."""
    return TraceRow(
        at=arrival.at,
        prompt_tokens=arrival.prompt_tokens,
        output_tokens=arrival.output_tokens,
        prefix_ids=arrival.hashes,
        block_tokens=arrival.hash_tokens if arrival.hashes else 0,
        tenant=arrival.tenant,
        session=arrival.session,
        cause=arrival.cause,
        criticality=arrival.criticality,
        upstream_time=arrival.upstream_time,
    )


def _alike(each: Behaviour, log: list[TraceRow], drawn: list[TraceRow], duration: float) -> Likeness:
    again = behaviour(each.tenant, drawn, duration) if drawn else each
    pairs = [
        (a * each.span, b * each.span) for a, b in zip(each.rates, again.rates, strict=True) if a * each.span >= _ENOUGH
    ]
    errors = [abs(b - a) / a for a, b in pairs]
    together = each.burstiness * each.num / max(1, each.num_conversations)  # requests that come and stay away together
    luck = [(2 * together / np.pi / a) ** 0.5 for a, _ in pairs]  # mean |error| of a normal count
    return Likeness(
        tenant=each.tenant,
        num=(len(log), len(drawn)),
        rate_error=float(np.mean(errors)) if errors else 0.0,
        chance_error=float(np.mean(luck)) if luck else 0.0,
        burstiness=(each.burstiness, again.burstiness),
        prompt=_pairs([row.prompt_tokens for row in log], [row.prompt_tokens for row in drawn]),
        output=_pairs([row.output_tokens for row in log], [row.output_tokens for row in drawn]),
        correlation=(each.correlation, again.correlation),
        turns=_of_tables(each.turns, again.turns),
        think=_of_tables(each.think, again.think),
        followup=_of_tables(each.followup, again.followup),
        shared=(_shared(each), _shared(again)),
        upstream=_of_tables(each.upstream, again.upstream),
        repeated=(repeated(log), repeated(drawn)) if any(row.prefix_ids for row in log) and drawn else None,
    )


def _shared(each: Behaviour) -> tuple[int, int]:
    return each.beginning.tokens, each.beginning.variants


def _pairs(log: Sequence[int], drawn: Sequence[int]) -> Pairs:
    if not drawn:
        return ()
    return tuple((float(np.quantile(log, q)), float(np.quantile(drawn, q))) for q in LEVELS)


def _of_tables(log: Table, drawn: Table) -> Pairs:
    if not log or not drawn:
        return ()
    return tuple((_at(log, level), _at(drawn, level)) for level in LEVELS)


def _at(table: Table, level: float) -> float:
    return float(np.interp(level, [share for share, _ in table], [value for _, value in table]))


def repeated(rows: Sequence[TraceRow]) -> float:
    """The share of prompt tokens whose blocks an earlier prompt had: hits of a cache that forgets nothing."""
    seen: set[int] = set()
    hits = total = 0
    for row in rows:
        total += row.prompt_tokens
        hits += row.block_tokens * sum(block in seen for block in row.prefix_ids)
        seen.update(row.prefix_ids)
    return hits / total if total else 0.0

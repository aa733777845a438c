"""Learns how tenants behave from what they sent: rate over time, burstiness, lengths and how these go together.

Burstiness is that of gaps in operational time: instants are mapped through the cumulated rate, so that a busy hour is
not taken for a burst. Lengths are kept as tables of quantiles, their dependence as the correlation of normal scores.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from statistics import NormalDist
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.sim.tenantprofile import HOUR
from plimsoll.storage.tracerow import TraceRow, length_of

LEVELS: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
FINE: Final = 0.999  # told too where there are so many values that it means something
_ENOUGH_FOR_FINE: Final = 5000
FEWEST: Final = 30
"""Requests of a tenant; of fewer nothing is learnt."""
_NUM_SPANS: Final = 6  # of a log shorter than six hours

Floats = NDArray[np.float64]


class Behaviour(Struct, frozen=True):
    """One tenant's. `rates` are requests a second in spans of `span` s from the start of the log."""

    tenant: str
    num: int
    span: float
    rates: tuple[float, ...]
    burstiness: float
    prompt: tuple[tuple[float, float], ...]
    output: tuple[tuple[float, float], ...]
    correlation: float
    cause: str = ""
    criticality: str = ""


class Learnt(Struct, frozen=True):
    """A log's tenants, and what of it is not in the profile."""

    duration: float
    tenants: tuple[Behaviour, ...]
    too_few: tuple[tuple[str, int], ...]  # tenants of which nothing is learnt
    notes: tuple[str, ...] = ()


def learn(rows: Sequence[TraceRow], duration: float = 0.0) -> Learnt:
    """From rows in order of time; `duration` in s where it is known to be longer than to the last of them."""
    whole = duration or length_of(rows)
    by_tenant: dict[str, list[TraceRow]] = {}
    for row in rows:
        by_tenant.setdefault(row.tenant, []).append(row)
    tenants = tuple(behaviour(name, group, whole) for name, group in by_tenant.items() if len(group) >= FEWEST)
    few = tuple((name, len(group)) for name, group in by_tenant.items() if len(group) < FEWEST)
    return Learnt(whole, tenants, few, tuple(_notes(rows)))


def behaviour(tenant: str, rows: Sequence[TraceRow], duration: float) -> Behaviour:
    """One tenant's, from its requests in order of time."""
    at = np.array([row.at for row in rows])
    span = HOUR if duration >= _NUM_SPANS * HOUR else max(1.0, duration / _NUM_SPANS)
    rates = rates_of(at, span, duration)
    prompts = np.array([float(row.prompt_tokens) for row in rows])
    outputs = np.array([float(row.output_tokens) for row in rows])
    return Behaviour(
        tenant=tenant,
        num=len(rows),
        span=span,
        rates=tuple(rates.tolist()),
        burstiness=burstiness_of(at, rates, span),
        prompt=_table(prompts),
        output=_table(outputs),
        correlation=correlation_of(prompts, outputs),
        cause=_usual(row.cause for row in rows),
        criticality=_usual(row.criticality for row in rows),
    )


def rates_of(at: Floats, span: float, duration: float) -> Floats:
    """Requests a second in each span; the last may be shorter."""
    num = max(1, ceil(duration / span - 1e-9))
    counts = np.bincount(np.minimum((at // span).astype(int), num - 1), minlength=num)
    lengths = np.full(num, span)
    lengths[-1] = duration - span * (num - 1)
    return np.asarray(counts / np.maximum(lengths, 1e-9))


def burstiness_of(at: Floats, rates: Floats, span: float) -> float:
    """Squared coefficient of variation of gaps in operational time."""
    grown = np.concatenate([[0.0], np.cumsum(rates * span)])
    place = np.minimum((at // span).astype(int), len(rates) - 1)
    gaps = np.diff(grown[place] + (at - place * span) * rates[place])
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return float(gaps.var() / mean**2) if mean > 0 else 1.0


def correlation_of(first: Floats, second: Floats) -> float:
    """Of normal scores (ties share their mean rank), so that the shape of either length does not matter."""
    scores = [_scores(values) for values in (first, second)]
    if min(score.std() for score in scores) == 0.0:
        return 0.0
    return float(np.corrcoef(scores[0], scores[1])[0, 1])


def _scores(values: Floats) -> Floats:
    unique, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((rank - 0.5) / len(values)) for rank in ranks[: len(unique)].tolist()])
    return np.asarray(scores[inverse])


def _table(values: Floats) -> tuple[tuple[float, float], ...]:
    """Quantiles, rising; equal ones at the end of a table add nothing but are told all the same."""
    levels = sorted({*LEVELS, FINE} if len(values) >= _ENOUGH_FOR_FINE else LEVELS)
    return tuple((level, float(round(value))) for level, value in zip(levels, np.quantile(values, levels), strict=True))


def _usual(values: Iterable[str]) -> str:
    """What nine in ten say; "" where there is no such word."""
    counts = Counter(values)
    word, num = counts.most_common(1)[0]
    return word if num >= 0.9 * counts.total() else ""


def _notes(rows: Sequence[TraceRow]) -> Iterable[str]:
    seen: set[int] = set()
    hits = total = 0
    for row in rows:
        total += row.prompt_tokens
        hits += row.block_tokens * sum(block in seen for block in row.prefix_ids)
        seen.update(row.prefix_ids)
    if hits:
        yield f"prompts repeat {hits / total:.0%} of their tokens; for prefix hits use the trace itself (traces:)"
    turns = Counter(row.session for row in rows if row.session)
    if turns and len(turns) < 0.9 * turns.total():
        yield f"{turns.total() / len(turns):.1f} requests a session; their growing prompts are taken as independent"

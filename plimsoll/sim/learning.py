"""Learns how tenants behave from what they sent: rate over time, burstiness, lengths and how these go together,
sessions and shared beginnings (`conversations.py`), and the time that was spent before a request came.

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

from plimsoll.sim.conversations import MOSTLY, Beginning, Conversation, beginning_of, conversations, sessions_of
from plimsoll.sim.endings import Table
from plimsoll.sim.tenantprofile import HOUR, Lengths
from plimsoll.storage.tracerow import TraceRow, length_of

LEVELS: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
FINE: Final = 0.999  # told too where there are so many values that it means something
_ENOUGH_FOR_FINE: Final = 5000
FEWEST: Final = 30
"""Requests of a tenant; of fewer nothing is learnt."""
_LINKED: Final = 0.2  # correlation from which on it is told
_NUM_SPANS: Final = 6  # of a log shorter than six hours

Floats = NDArray[np.float64]


class Behaviour(Struct, frozen=True):
    """One tenant's. `rates` are requests a second in spans of `span` s from the start of the log.

    In a session `prompt` is what a first turn holds beside the shared beginning; () where nothing of a kind was found.
    """

    tenant: str
    num: int
    span: float
    rates: tuple[float, ...]
    burstiness: float  # of requests; of sessions' starts where there are sessions
    prompt: Table
    output: Table
    correlation: float
    cause: str = ""
    criticality: str = ""
    num_conversations: int = 0  # a request without a session is one
    longest: int = 0  # tokens of a whole prompt, the shared beginning left out
    turns: Table = ()
    think: Table = ()  # s
    followup: Table = ()  # tokens that a later turn adds to the conversation
    beginning: Beginning = Beginning()
    upstream: Table = ()  # s
    untold: tuple[str, ...] = ()  # what could not be learnt, or not well, and why


class Learnt(Struct, frozen=True):
    """A log's tenants, and what of it is not in the profile."""

    duration: float
    tenants: tuple[Behaviour, ...]
    too_few: tuple[tuple[str, int], ...]  # tenants of which nothing is learnt


def learn(rows: Sequence[TraceRow], duration: float = 0.0) -> Learnt:
    """From rows in order of time; `duration` in s where it is known to be longer than to the last of them."""
    whole = duration or length_of(rows)
    by_tenant: dict[str, list[TraceRow]] = {}
    for row in rows:
        by_tenant.setdefault(row.tenant, []).append(row)
    tenants = tuple(behaviour(name, group, whole) for name, group in by_tenant.items() if len(group) >= FEWEST)
    few = tuple((name, len(group)) for name, group in by_tenant.items() if len(group) < FEWEST)
    return Learnt(whole, tenants, few)


def behaviour(tenant: str, rows: Sequence[TraceRow], duration: float) -> Behaviour:
    """One tenant's, from its requests in order of time."""
    at = np.array([row.at for row in rows])
    span = HOUR if duration >= _NUM_SPANS * HOUR else max(1.0, duration / _NUM_SPANS)
    rates = rates_of(at, span, duration)
    found = conversations(rows)
    beginning, notes = beginning_of(found)
    sessions, note = sessions_of(found, beginning.tokens, duration)
    if sessions is None:
        firsts = [(max(1, row.prompt_tokens - beginning.tokens), row.output_tokens) for row in rows]
        laters: list[tuple[int, int]] = []
    else:
        at, firsts, laters = np.array(sessions.starts), list(sessions.firsts), list(sessions.laters)
        rates = rates_of(at, span, duration) * Lengths(1.0, quantiles=sessions.turns).mean
    upstream, more = _upstream(found)
    return Behaviour(
        tenant=tenant,
        num=len(rows),
        span=span,
        rates=tuple(rates.tolist()),
        burstiness=burstiness_of(at, rates, span),
        prompt=_table([prompt for prompt, _ in firsts]),
        output=_table([output for _, output in firsts + laters]),
        correlation=_joint(firsts, laters),
        cause=_usual(row.cause for row in rows),
        criticality=_usual(row.criticality for row in rows),
        num_conversations=len(found),
        longest=max(1, max(row.prompt_tokens for row in rows) - beginning.tokens),
        turns=sessions.turns if sessions else (),
        think=sessions.think if sessions else (),
        followup=_table([prompt for prompt, _ in laters]) if laters else (),
        beginning=beginning,
        upstream=upstream,
        untold=tuple(each for each in (note, *notes, *more) if each),
    )


def _joint(*groups: Sequence[tuple[int, int]]) -> float:
    """Correlation of what a turn adds and its answer, within first turns and within later ones, by their numbers."""
    some = [np.array(group, dtype=np.float64) for group in groups if len(group) >= FEWEST]
    if not some:
        return 0.0
    return float(np.average([correlation_of(*group.T) for group in some], weights=[len(group) for group in some]))


def _upstream(found: Sequence[Conversation]) -> tuple[Table, list[str]]:
    """Time spent before requests came, and how what is drawn from it differs from what was seen."""
    known = [(row, row.upstream_time) for each in found for row in each if row.upstream_time is not None]
    num = sum(len(each) for each in found)
    if len(known) < max(FEWEST, MOSTLY * num):
        return (), [f"upstream time is not learnt: {len(known)} of {num} requests tell it"] if known else []
    times = np.array([seconds for _, seconds in known])
    notes = (
        []
        if len(known) >= 0.9 * num
        else [f"{num - len(known)} of {num} requests tell no upstream time: taken as like the others"]
    )
    linked = correlation_of(np.array([float(row.prompt_tokens) for row, _ in known]), times)
    if abs(linked) > _LINKED:
        notes.append(f"upstream time goes with prompt length ({linked:.2f}); it is drawn without regard to it")
    return tuple(zip(LEVELS, np.quantile(times, LEVELS).tolist(), strict=True)), notes


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


def _table(values: Sequence[int]) -> Table:
    """Quantiles, rising; equal ones at the end of a table add nothing but are told all the same."""
    levels = sorted({*LEVELS, FINE} if len(values) >= _ENOUGH_FOR_FINE else LEVELS)
    return tuple((level, float(round(value))) for level, value in zip(levels, np.quantile(values, levels), strict=True))


def _usual(values: Iterable[str]) -> str:
    """What nine in ten say; "" where there is no such word."""
    counts = Counter(values)
    word, num = counts.most_common(1)[0]
    return word if num >= 0.9 * counts.total() else ""

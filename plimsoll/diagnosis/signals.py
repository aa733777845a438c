"""What changed between two times, by tenant and by replica: rates, lengths, cache hits, pace, failures.

Every figure is a quotient "during ÷ before" or None where either side has too few requests to say (law 8).
"""

from math import inf
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.diagnosis.timeparts import TimeParts
from plimsoll.diagnosis.visits import Floats, Ints, Visits

MIN_ROWS: Final = 10
SURE: Final = 2.0
"""Standard errors by which mean lengths must differ to be another length."""
MIN_APPEARED: Final = 3
"""Requests from which on a tenant that sent nothing before has begun to send."""


class TenantSignal(Struct, frozen=True):
    """One tenant, during ÷ before; `prompt_during` in tokens."""

    name: str
    num_during: int
    rate: float | None
    prompt: float | None  # mean length
    prompt_rate: float | None  # prompt tokens a second
    output: float | None  # mean length of answers
    hits: float | None  # mean prompt tokens that were in the prefix cache
    hits_before: float | None  # the same before
    prompt_during: float | None
    appeared: bool  # sent (almost) nothing before
    entropy: float | None = None  # bits a byte of its prompts, during less before


class ReplicaSignal(Struct, frozen=True):
    """One replica. `pace`: how many times longer than the model says its steps took."""

    name: str
    num_during: int
    num_before: int
    pace_during: float | None
    pace_before: float | None
    failed: int  # requests that it failed during


class PathSignal(Struct, frozen=True):
    """The connections of slow requests, as the kernel told: median round trip during ÷ before, retransmissions each."""

    rtt_ratio: float
    retransmits: float
    retransmits_before: float


class Signals(Struct, frozen=True):
    """All of both."""

    tenants: tuple[TenantSignal, ...]
    replicas: tuple[ReplicaSignal, ...]
    load: float | None  # tokens a second, during ÷ before
    engine_path: PathSignal | None = None
    client_path: PathSignal | None = None

    def tenant(self, name: str) -> TenantSignal | None:
        """The tenant of that name."""
        return next((each for each in self.tenants if each.name == name), None)


def signals(
    visits: Visits, parts: TimeParts, before: Ints, during: Ints, spans: tuple[float, float], *, since: float = -inf
) -> Signals:
    """`before` and `during` are rows by arrival; `spans` how many seconds each time lasted (0.0: there is none).

    `during` may begin sooner than the change at `since`, with those who were there when it came; replicas, and what
    their prefix caches had, are looked at from the change on.
    """
    tenants = [
        _tenant(visits, name, before[visits.tenant.codes[before] == code], during[visits.tenant.codes[during] == code],
                (*spans, since))
        for code, name in enumerate(visits.tenant.names)
    ]  # fmt: skip
    changed = during[visits.arrived[during] >= since]
    names = visits.replica.names
    replicas = [_replica(visits, parts, code, before, changed) for code, name in enumerate(names) if name]
    tokens = (visits.prompt + visits.output).astype(float)
    load = _rate_ratio(float(tokens[before].sum()), float(tokens[during].sum()), spans) if before.size else None
    engine = _path(visits.engine_rtt, visits.engine_retransmits, before, during)
    client = _path(visits.client_rtt, visits.client_retransmits, before, during)
    return Signals(tuple(tenants), tuple(replicas), load, engine, client)


def _path(rtt: Floats, retransmits: Floats, before: Ints, during: Ints) -> PathSignal | None:
    now, usual = _median(rtt[during]), _median(rtt[before])
    if now is None or not usual:
        return None
    again, again_before = (float(np.nanmean(retransmits[rows])) for rows in (during, before))
    return PathSignal(now / usual, again, again_before)


def _tenant(visits: Visits, name: str, before: Ints, during: Ints, times: tuple[float, float, float]) -> TenantSignal:
    """`times`: s before, s during, the instant of the change."""
    spans, since = times[:2], times[2]
    prompt, output = visits.prompt.astype(float), visits.output.astype(float)
    answered_before, answered = before[output[before] > 0], during[output[during] > 0]
    hits_before, hits = _hits(visits, before), _hits(visits, during[visits.arrived[during] >= since])
    had_before = spans[0] > 0.0
    return TenantSignal(
        name=name,
        num_during=int(during.size),
        rate=_rate_ratio(float(before.size), float(during.size), spans) if before.size >= MIN_ROWS else None,
        prompt=_mean_ratio(prompt, before, during),
        prompt_rate=_rate_ratio(float(prompt[before].sum()), float(prompt[during].sum()), spans),
        output=_mean_ratio(output, answered_before, answered),
        hits=hits,
        hits_before=hits_before,
        prompt_during=float(prompt[during].mean()) if during.size else None,
        appeared=had_before and before.size < MIN_ROWS and _came(prompt[before], prompt[during], spans),
        entropy=_difference(_median(visits.entropy[during]), _median(visits.entropy[before])),
    )


def _came(before: Floats, during: Floats, spans: tuple[float, float]) -> bool:
    """Whether a tenant sends, that sent less than a tenth as many prompt tokens a second: few long ones are many."""
    if during.size < MIN_APPEARED or spans[1] <= 0.0:
        return False
    return float(before.sum()) / spans[0] < 0.1 * float(during.sum()) / spans[1]


def _replica(visits: Visits, parts: TimeParts, code: int, before: Ints, during: Ints) -> ReplicaSignal:
    here_before, here = before[visits.replica.codes[before] == code], during[visits.replica.codes[during] == code]
    return ReplicaSignal(
        name=visits.replica.names[code],
        num_during=int(here.size),
        num_before=int(here_before.size),
        pace_during=_median(parts.pace[here]),
        pace_before=_median(parts.pace[here_before]),
        failed=int(visits.failed[here].sum()),
    )


def _hits(visits: Visits, rows: Ints) -> float | None:
    known = rows[visits.cached[rows] >= 0]
    return float(visits.cached[known].mean()) if known.size >= MIN_ROWS else None


def _mean_ratio(values: Floats, before: Ints, during: Ints) -> float | None:
    if before.size < MIN_ROWS or during.size < MIN_ROWS:
        return None
    usual, now = float(values[before].mean()), float(values[during].mean())
    if abs(now - usual) < SURE * float(np.hypot(_error(values[before]), _error(values[during]))):
        return 1.0  # as long as before, as far as so few tell
    return now / usual if usual > 0.0 else None


def _error(values: Floats) -> float:
    """Standard error of a mean."""
    return float(values.std()) / float(np.sqrt(values.size))


def _rate_ratio(before: float, during: float, spans: tuple[float, float]) -> float | None:
    if spans[0] <= 0.0 or spans[1] <= 0.0 or before <= 0.0:
        return None
    return (during / spans[1]) / (before / spans[0])


def _difference(during: float | None, before: float | None) -> float | None:
    return None if during is None or before is None else during - before


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size >= MIN_ROWS else None

"""One request on one screen: when what happened, where its time went, who was beside it, what it broke."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.diagnosis.crowding import crowding
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.timeparts import HOW, PARTS
from plimsoll.diagnosis.visits import Visits
from plimsoll.engine.profile import EngineProfile
from plimsoll.requestlog.record import Record, format_request_id
from plimsoll.units import format_duration

MAX_NEIGHBOURS: Final = 8
ALSO: Final = (
    "session", "adapter", "prefill", "hedge", "plugins", "plugin_time", "predicted_ttft", "predicted_tpot",
    "cached_expected", "cached_from", "prompt_entropy", "engine_rtt", "engine_retransmits", "client_rtt",
    "client_retransmits",
)  # fmt: skip
"""Columns shown where a row has them."""
HEDGES: Final = {
    "won": "was first, and answered it",
    "lost": "was later, and was left",
    "failed": "failed",
    "asked": "had shown no token when all ended",
}


class PartTime(Struct, frozen=True):
    """One part of the request's time, in s, its share, and how it is known."""

    part: str
    seconds: float
    share: float
    how: str


class Moment(Struct, frozen=True):
    """Something that happened, s after arrival."""

    after: float
    what: str


class Neighbour(Struct, frozen=True):
    """Another request on the same replica, by how long both were there (s)."""

    request: str
    tenant: str
    tier: str
    prompt_tokens: int
    output_tokens: int
    together: float


class Explanation(Struct, frozen=True):
    """All that the log tells of one request. `waited_for`: s of its waiting by the tenant whose requests it was for.

    `also` are columns of its row that not every row has (by name, s for times), `told` the same in sentences.
    """

    request: str
    tenant: str
    tier: str
    model: str
    pool: str
    replica: str
    outcome: str
    reason: str
    arrived_at: float
    timeline: tuple[Moment, ...]
    parts: tuple[PartTime, ...]
    total: float
    modelled: bool
    waited_for: dict[str, float]
    neighbours: tuple[Neighbour, ...]
    replica_then: str
    broke: tuple[str, ...]
    notes: tuple[str, ...]
    also: dict[str, str | float] = {}
    told: tuple[str, ...] = ()


def explain(record: Record, visits: Visits, profiles: Mapping[str, EngineProfile]) -> Explanation:
    """`visits` holds the request and those that were there with it; `profiles` by pool."""
    index = visits.index_of(record.request_id)
    if index is None:
        raise ValueError("the request is not among the visits")
    parts = time_parts(visits, profiles)
    total = float(parts.total[index])
    seconds = parts.seconds[index]
    matrix = crowding(visits, parts, np.array([index]))
    waited = matrix.seconds[matrix.victims.index(record.tenant)]
    shares = [
        PartTime(part.value, float(value), float(value) / total if total > 0.0 else 0.0, HOW[part])
        for part, value in zip(PARTS, seconds, strict=True)
        if value > 0.0
    ]
    return Explanation(
        request=format_request_id(record.request_id),
        tenant=record.tenant,
        tier=record.tier,
        model=record.model,
        pool=record.pool,
        replica=record.replica,
        outcome=record.outcome.value,
        reason=record.reason.value,
        arrived_at=record.arrived_at,
        timeline=tuple(_timeline(record)),
        parts=tuple(shares),
        total=total,
        modelled=bool(parts.modelled[index]),
        waited_for={
            name: float(value)
            for value, name in sorted(zip(waited.tolist(), matrix.culprits, strict=True), reverse=True)
            if value >= 0.001
        },
        neighbours=tuple(_neighbours(visits, index)),
        replica_then=_replica_then(record),
        broke=tuple(_broken(record)),
        notes=tuple(_notes(record, modelled=bool(parts.modelled[index]))),
        also={name: value for name in ALSO if (value := getattr(record, name)) not in {None, ""}},
        told=tuple(_told(record)),
    )


def _timeline(record: Record) -> list[Moment]:
    moments = [(record.arrived_at, f"arrived: {record.prompt_tokens} prompt tokens, {record.endpoint}")]
    if record.upstream_time is not None:
        moments.append((record.arrived_at - record.upstream_time, f"upstream began ({record.cause or 'no cause'})"))
    if record.dispatched_at is not None:
        tries = f", attempt {record.attempts}" if record.attempts > 1 else ""
        moments.append(
            (record.dispatched_at, f"dispatched to {record.replica or 'a replica that the log does not name'}{tries}")
        )
    if record.first_token_at is not None:
        hit = "" if record.cached_tokens is None else f", {record.cached_tokens} prompt tokens from the prefix cache"
        moments.append((record.first_token_at, f"first token{hit}"))
    moments.append(
        (record.finished_at, f"{record.outcome.value} ({record.reason.value}), {record.output_tokens} tokens out")
    )
    return [Moment(at - record.arrived_at, what) for at, what in sorted(moments, key=lambda moment: moment[0])]


def _neighbours(visits: Visits, index: int) -> list[Neighbour]:
    """Who shared its replica, longest first."""
    start, end = visits.dispatched[index], visits.ended[index]
    if np.isnan(start):
        return []
    with np.errstate(invalid="ignore"):
        overlap = np.minimum(visits.ended, end) - np.maximum(visits.dispatched, start)
    overlap = np.where(visits.replica.codes == visits.replica.codes[index], np.nan_to_num(overlap, nan=0.0), 0.0)
    overlap[index] = 0.0
    ranked = np.argsort(-overlap, kind="stable")[:MAX_NEIGHBOURS]
    return [
        Neighbour(
            format_request_id(int(visits.request_id[i])),
            visits.tenant.at(int(i)),
            visits.tier.at(int(i)),
            int(visits.prompt[i]),
            int(visits.output[i]),
            float(overlap[i]),
        )
        for i in ranked
        if overlap[i] > 0.0
    ]


def _replica_then(record: Record) -> str:
    if record.report_age is None:
        return "the replica had not reported"
    usage = "KV usage unknown" if record.report_kv_usage is None else f"KV {record.report_kv_usage:.0%} full"
    running = "?" if record.report_running is None else str(record.report_running)
    waiting = "?" if record.report_waiting is None else str(record.report_waiting)
    return f"{running} running, {waiting} waiting, {usage}, as it said {record.report_age:.1f} s before the dispatch"


def _told(record: Record) -> Iterator[str]:
    """What `also` says, in sentences; `console/sayings.json` knows each by its pattern."""
    if record.session:
        yield f"the run {record.session} (plimsoll runs)"
    if record.adapter:
        yield f"needs the adapter {record.adapter}"
    if record.prefill:
        yield f"its prompt was computed on {record.prefill} and handed over"
    if record.hedge:
        yield f"a second replica was asked beside the first: it {HEDGES.get(record.hedge, record.hedge)}"
    if record.plugins:
        yield f"plugins were asked: {record.plugins.replace(',', ', ')}"
    if record.predicted_ttft is not None:
        tpot = (
            "" if record.predicted_tpot is None else f", a token after it in {format_duration(record.predicted_tpot)}"
        )
        yield f"foreseen at dispatch: its first token within {format_duration(record.predicted_ttft)}{tpot}"
    if record.prompt_entropy is not None:
        yield f"its prompt holds {record.prompt_entropy:.1f} bits a byte (little: it repeats itself)"
    for side, rtt, again in (
        ("engine", record.engine_rtt, record.engine_retransmits),
        ("client", record.client_rtt, record.client_retransmits),
    ):
        if rtt is not None:
            resent = "" if again is None else f", {again} segments sent again"
            yield f"connection to the {side}: round trip {format_duration(rtt)}{resent}"


def _broken(record: Record) -> list[str]:
    return [
        f"{verdict.objective}, charged {verdict.charge.value if verdict.charge else 'to nobody'}"
        for verdict in record.verdicts
        if verdict.num_bad
    ]


def _notes(record: Record, *, modelled: bool) -> list[str]:
    notes = []
    if record.dispatched_at is not None and not modelled:
        notes.append("Its pool has no engine profile, or it got no token: what the engine did is not told apart.")
    if not record.streaming and modelled:
        notes.append("It was not streamed: when its first token came is reckoned back from its end.")
    return notes

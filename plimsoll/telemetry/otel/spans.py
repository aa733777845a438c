"""A row as spans: the request (kind SERVER, its id is what the engine was given as its parent) with plugins (where any
were asked), queue, prefill and decode below it."""

from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from xxhash import xxh3_64_intdigest

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import REASONS, Blame, Outcome
from plimsoll.telemetry.otel.naming import TENANT, attributes, nanoseconds, operation_of, request_attributes

SAMPLED: Final = 1
ENGINES: Final = ("prefill", "decode")  # phases that an engine does


def trace_id_of(record: Record) -> bytes:
    """16 bytes; made of the request's id where the row has no trace (it was found at recovery)."""
    if record.trace_id:
        return bytes.fromhex(record.trace_id)
    own = record.request_id.to_bytes(8, "big")
    return _digest(own, "trace").to_bytes(8, "big") + own


def span_id_of(record: Record) -> bytes:
    """8 bytes: what `traceparent` told the engine."""
    return record.request_id.to_bytes(8, "big")


def spans_of(record: Record, kept_because: str = "", tenant: str = TENANT) -> list[Span]:
    """The request's span first, then those of its phases, as far as they were reached; instants in ns."""
    trace_id, own_id = trace_id_of(record), span_id_of(record)
    whole = Span(
        trace_id=trace_id,
        span_id=own_id,
        parent_span_id=bytes.fromhex(record.parent_span_id),
        name=f"{operation_of(record)} {record.model}".strip(),
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=nanoseconds(record.arrived_at),
        end_time_unix_nano=nanoseconds(max(record.finished_at, record.arrived_at)),
        attributes=[*request_attributes(record, tenant), *attributes({"plimsoll.kept_because": kept_because})],
        status=_status(record),
        flags=SAMPLED,
    )
    return [whole, *(_phase(record, whole, phase) for phase in phases(record))]


def phases(record: Record) -> list[tuple[str, float, float]]:
    """Name, begin and end (UTC epoch s) of what a request went through; each begins where the one before ends."""
    begin, found = record.arrived_at, []
    for name, end in (
        *([("plugins", begin + record.plugin_time)] if record.plugin_time is not None else []),
        ("queue", record.finished_at if record.dispatched_at is None else record.dispatched_at),
        ("prefill", _end_of_prefill(record)),
        ("decode", record.finished_at if record.first_token_at is not None else None),
    ):
        if end is None:
            break
        found.append((name, begin, max(begin, end)))
        begin = max(begin, end)
    return found


def _end_of_prefill(record: Record) -> float | None:
    if record.dispatched_at is None:
        return None
    return record.finished_at if record.first_token_at is None else record.first_token_at


def _phase(record: Record, whole: Span, phase: tuple[str, float, float]) -> Span:
    name, begin, end = phase
    place = {"plimsoll.pool": record.pool, "server.address": record.replica if name in ENGINES else ""}
    return Span(
        trace_id=whole.trace_id,
        span_id=_digest(whole.span_id, name).to_bytes(8, "big"),
        parent_span_id=whole.span_id,
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=nanoseconds(begin),
        end_time_unix_nano=nanoseconds(end),
        attributes=attributes(dict(place)),
        flags=SAMPLED,
    )


def _digest(own: bytes, name: str) -> int:
    return xxh3_64_intdigest(own + name.encode()) | 1  # an id of zeros would be none


def _status(record: Record) -> Status:
    """ERROR only where the service failed it: a client's own fault is none of the server's (HTTP conventions)."""
    if record.outcome is Outcome.COMPLETED:
        return Status(code=Status.STATUS_CODE_UNSET)
    row = REASONS[record.reason]
    if row.blame is Blame.OURS:
        return Status(code=Status.STATUS_CODE_ERROR, message=row.text)
    return Status(code=Status.STATUS_CODE_UNSET)

"""What a client says beside its body: tier, cause, criticality, session, deadline, upstream time, trace.

Faults in our own headers (`X-Plimsoll-…`) are the client's to mend and are told; headers that proxies set
(`X-Request-Start`, `traceparent`, `baggage`) are taken where they make sense and passed over where they do not.
"""

import re
from collections.abc import Mapping
from math import inf, isfinite
from typing import Final
from urllib.parse import unquote_to_bytes

from plimsoll.gateway.vouching import HOP, SIGNATURE, UPSTREAM, Vouching
from plimsoll.governor.events import Criticality
from plimsoll.policy.policy import UpstreamTrust

TIER: Final = b"x-plimsoll-tier"
CAUSE: Final = b"x-plimsoll-cause"
CRITICALITY: Final = b"x-plimsoll-criticality"
SESSION: Final = b"x-plimsoll-session"
DEADLINE: Final = b"x-plimsoll-deadline-ms"  # from arrival
EARLY_HINTS: Final = b"x-plimsoll-early-hints"  # 1: it knows 103 from an answer
REQUEST_ID: Final = b"x-request-id"
TRACEPARENT: Final = b"traceparent"
BAGGAGE: Final = b"baggage"
BAGGAGE_CAUSE: Final = b"plimsoll.cause"
BAGGAGE_UPSTREAM: Final = b"plimsoll.upstream_ms"
OURS: Final = frozenset({TIER, CAUSE, CRITICALITY, SESSION, DEADLINE, EARLY_HINTS, UPSTREAM, SIGNATURE, HOP})

LONGEST: Final = 128  # characters of a label, session or client request id that are kept
LABEL = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_IDS = rb"-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
TRACE = re.compile(rb"00" + _IDS + rb"\Z")
LATER_TRACE = re.compile(rb"(?!00|ff)[0-9a-f]{2}" + _IDS + rb"(?:-.*)?\Z", re.DOTALL)  # read by its first fields
CRITICALITIES: Final = {criticality.value.encode(): criticality for criticality in Criticality}


_NO_TRUST: Final = UpstreamTrust.NONE


class BadHeader(ValueError):
    """One of our own headers cannot be read; the text names it and says what was expected."""


class ClientLabels:
    """The headers of one request, read. Times in s; "" and None where the client said nothing."""

    __slots__ = (
        "cause",
        "client_request_id",
        "continues_trace",
        "criticality",
        "deadline_at",
        "early_hints",
        "parent_span_id",
        "session",
        "tier",
        "trace_flags",
        "trace_id",
        "upstream_time",
        "upstream_trust",
    )

    def __init__(self) -> None:
        self.tier = ""
        self.cause = ""
        self.session = ""
        self.client_request_id = ""
        self.criticality = Criticality.CRITICAL
        self.deadline_at = inf
        self.early_hints = False
        self.upstream_time: float | None = None
        self.upstream_trust = UpstreamTrust.NONE
        self.trace_id = ""
        self.parent_span_id = ""
        self.trace_flags = "01"  # as if no header had been sent: a sampler that asks its parent would else keep nothing
        self.continues_trace = False


def read_labels(fields: Mapping[bytes, bytes], arrived_at: float, vouching: Vouching) -> ClientLabels:
    """Read a request's labels from its fields (lower-case name → value). Raises BadHeader."""
    labels = ClientLabels()
    get = fields.get
    if (value := get(REQUEST_ID)) is not None:
        labels.client_request_id = value[:LONGEST].decode("latin-1")
    if (value := get(TRACEPARENT)) is not None and (trace := read_trace(value)) is not None:
        labels.trace_id, labels.parent_span_id, labels.trace_flags = trace
        labels.continues_trace = True
    if not OURS.isdisjoint(fields):
        _read_ours(labels, fields, arrived_at)
    baggage = get(BAGGAGE)
    upstream = _baggage(labels, baggage) if baggage is not None and b"plimsoll." in baggage else b""
    if vouching.trust is not _NO_TRUST:
        reported = _milliseconds(fields, UPSTREAM) if UPSTREAM in fields else _baggage_time(upstream)
        cause = labels.cause.encode()
        labels.upstream_time, labels.upstream_trust = vouching.upstream(
            fields, arrived_at, reported, cause, labels.trace_id
        )
    return labels


def read_trace(value: bytes) -> tuple[str, str, str] | None:
    """Trace id, the client's span and flags of a `traceparent`, as hex digits; None where it is malformed or absent."""
    trace = TRACE.match(value) or LATER_TRACE.match(value)
    return None if trace is None else (trace[1].decode(), trace[2].decode(), trace[3].decode())


def _read_ours(labels: ClientLabels, fields: Mapping[bytes, bytes], arrived_at: float) -> None:
    labels.tier = _label(fields, TIER)
    labels.cause = _label(fields, CAUSE)
    labels.session = _label(fields, SESSION)
    if (value := fields.get(CRITICALITY)) is not None:
        criticality = CRITICALITIES.get(value.lower())
        if criticality is None:
            expected = ", ".join(name.decode() for name in CRITICALITIES)
            raise BadHeader(f"header {CRITICALITY.decode()}: expected one of {expected}, got {_shown(value)}")
        labels.criticality = criticality
    if (value := fields.get(EARLY_HINTS)) is not None:
        if value not in (b"0", b"1"):
            raise BadHeader(f"header {EARLY_HINTS.decode()}: expected 1 or 0, got {_shown(value)}")
        labels.early_hints = value == b"1"
    if DEADLINE in fields:
        labels.deadline_at = arrived_at + _milliseconds(fields, DEADLINE)


def _label(fields: Mapping[bytes, bytes], name: bytes) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not LABEL.match(value):
        raise BadHeader(
            f"header {name.decode()}: expected 1 to {LONGEST} visible ASCII characters, got {_shown(value)}"
        )
    return value.decode()


def _baggage_time(text: bytes) -> float | None:
    """Seconds; baggage is others' too, so what is no time there is passed over."""
    try:
        seconds = float(text) / 1000 if text else -1.0
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds >= 0 else None


def _milliseconds(fields: Mapping[bytes, bytes], name: bytes) -> float:
    try:
        seconds = float(fields[name]) / 1000
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds < 0:
        raise BadHeader(f"header {name.decode()}: expected milliseconds, 0 or more, got {_shown(fields[name])}")
    return seconds


def _baggage(labels: ClientLabels, value: bytes) -> bytes:
    """Our members of W3C baggage: the cause, where no header gave one; returns the upstream time as it was sent."""
    upstream = b""
    for member in value.split(b","):
        name, _, text = member.partition(b";")[0].partition(b"=")
        name, text = name.strip(), unquote_to_bytes(text.strip())
        if name == BAGGAGE_CAUSE and not labels.cause and LABEL.match(text):
            labels.cause = text.decode()
        elif name == BAGGAGE_UPSTREAM:
            upstream = text
    return upstream


def traceparent(trace_id: str, span_id: int, flags: str) -> bytes:
    """The header for the engine: the same trace, our span (W3C Trace Context, level 1)."""
    return b"00-%s-%016x-%s" % (trace_id.encode(), span_id, flags.encode())


def _shown(value: bytes) -> str:
    return repr(value[:40].decode("latin-1"))

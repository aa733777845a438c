"""What a client says beside its body: tier, cause, criticality, session, deadline, upstream time, trace.

Faults in our own headers (`X-Plimsoll-…`) are the client's to mend and are told; headers that proxies set
(`X-Request-Start`, `traceparent`) are taken where they make sense and passed over where they do not.
"""

import re
from collections.abc import Mapping
from math import inf, isfinite
from typing import Final

from plimsoll.governor.events import Criticality
from plimsoll.policy.policy import UpstreamTrust

TIER: Final = b"x-plimsoll-tier"
CAUSE: Final = b"x-plimsoll-cause"
CRITICALITY: Final = b"x-plimsoll-criticality"
SESSION: Final = b"x-plimsoll-session"
DEADLINE: Final = b"x-plimsoll-deadline-ms"  # from arrival
UPSTREAM: Final = b"x-plimsoll-upstream-ms"  # spent before the request was sent to us
START: Final = b"x-request-start"  # when the first proxy took it: epoch s, ms or us, with or without "t="
REQUEST_ID: Final = b"x-request-id"
TRACEPARENT: Final = b"traceparent"
OURS: Final = frozenset({TIER, CAUSE, CRITICALITY, SESSION, DEADLINE, UPSTREAM})

LONGEST: Final = 128  # characters of a label, session or client request id that are kept
LABEL = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_IDS = rb"-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})"
TRACE = re.compile(rb"00" + _IDS + rb"\Z")
LATER_TRACE = re.compile(rb"(?!00|ff)[0-9a-f]{2}" + _IDS + rb"(?:-.*)?\Z", re.DOTALL)  # read by its first fields
CRITICALITIES: Final = {criticality.value.encode(): criticality for criticality in Criticality}
OLDEST_START: Final = 86_400.0  # s; an X-Request-Start further back is no start of this request


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
        self.upstream_time: float | None = None
        self.upstream_trust = UpstreamTrust.NONE
        self.trace_id = ""
        self.trace_flags = "01"  # as if no header had been sent: a sampler that asks its parent would else keep nothing
        self.continues_trace = False


def read_labels(fields: Mapping[bytes, bytes], arrived_at: float, trust: UpstreamTrust) -> ClientLabels:
    """Read a request's labels from its fields (lower-case name → value). Raises BadHeader."""
    labels = ClientLabels()
    get = fields.get
    if (value := get(REQUEST_ID)) is not None:
        labels.client_request_id = value[:LONGEST].decode("latin-1")
    if (value := get(TRACEPARENT)) is not None and (trace := TRACE.match(value) or LATER_TRACE.match(value)):
        labels.trace_id = trace[1].decode()
        labels.trace_flags = trace[2].decode()
        labels.continues_trace = True
    if not OURS.isdisjoint(fields):
        _read_ours(labels, fields, arrived_at, trust)
    return labels


def _read_ours(labels: ClientLabels, fields: Mapping[bytes, bytes], arrived_at: float, trust: UpstreamTrust) -> None:
    labels.tier = _label(fields, TIER)
    labels.cause = _label(fields, CAUSE)
    labels.session = _label(fields, SESSION)
    if (value := fields.get(CRITICALITY)) is not None:
        criticality = CRITICALITIES.get(value.lower())
        if criticality is None:
            expected = ", ".join(name.decode() for name in CRITICALITIES)
            raise BadHeader(f"header {CRITICALITY.decode()}: expected one of {expected}, got {_shown(value)}")
        labels.criticality = criticality
    if DEADLINE in fields:
        labels.deadline_at = arrived_at + _milliseconds(fields, DEADLINE)
    if UPSTREAM in fields and trust is not UpstreamTrust.NONE:
        labels.upstream_time, labels.upstream_trust = _upstream(fields, arrived_at, trust)


def _label(fields: Mapping[bytes, bytes], name: bytes) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not LABEL.match(value):
        raise BadHeader(
            f"header {name.decode()}: expected 1 to {LONGEST} visible ASCII characters, got {_shown(value)}"
        )
    return value.decode()


def _milliseconds(fields: Mapping[bytes, bytes], name: bytes) -> float:
    try:
        seconds = float(fields[name]) / 1000
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds < 0:
        raise BadHeader(f"header {name.decode()}: expected milliseconds, 0 or more, got {_shown(fields[name])}")
    return seconds


def _upstream(fields: Mapping[bytes, bytes], arrived_at: float, trust: UpstreamTrust) -> tuple[float, UpstreamTrust]:
    """Reported time, never more than has passed since X-Request-Start; without that nobody vouches for it."""
    reported = _milliseconds(fields, UPSTREAM)
    started_at = request_start(fields.get(START, b""))
    elapsed = arrived_at - started_at if started_at is not None else -1.0
    if trust is not UpstreamTrust.HEADER or not 0 <= elapsed <= OLDEST_START:
        return reported, UpstreamTrust.NONE
    return min(reported, elapsed), UpstreamTrust.HEADER


def request_start(value: bytes) -> float | None:
    """`X-Request-Start` in s: nginx sends `t=1700000000.123`, Heroku ms, Apache `t=` and us. None: not readable."""
    try:
        number = float(value.strip().removeprefix(b"t="))
    except ValueError:
        return None
    if not isfinite(number) or number <= 0:
        return None
    for scale in (1.0, 1e3, 1e6, 1e9):  # an instant of our age has 10 digits of seconds
        if number / scale < 1e11:
            return number / scale
    return None


def traceparent(trace_id: str, span_id: int, flags: str) -> bytes:
    """The header for the engine: the same trace, our span (W3C Trace Context, level 1)."""
    return b"00-%s-%016x-%s" % (trace_id.encode(), span_id, flags.encode())


def _shown(value: bytes) -> str:
    return repr(value[:40].decode("latin-1"))

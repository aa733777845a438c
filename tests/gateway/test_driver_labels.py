"""Labels of a request: ours are checked, proxies' are taken where they make sense, traces are continued or begun."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.labels import BadHeader, read_labels, traceparent
from plimsoll.gateway.vouching import Vouching, request_start
from plimsoll.governor.events import Criticality
from plimsoll.policy.policy import Service, UpstreamTrust

NOW = 1_800_000_000.0
NOBODY, HEADER = Vouching(Service()), Vouching(Service(upstream_time=UpstreamTrust.HEADER))
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_silence_is_the_default() -> None:
    labels = read_labels({}, NOW, HEADER)
    assert (labels.tier, labels.cause, labels.session, labels.client_request_id) == ("", "", "", "")
    assert labels.criticality is Criticality.CRITICAL
    assert labels.deadline_at == inf
    assert labels.upstream_time is None
    assert not labels.continues_trace


def test_all_labels_are_read() -> None:
    fields = {
        b"x-plimsoll-tier": b"silver",
        b"x-plimsoll-cause": b"nightly batch",
        b"x-plimsoll-criticality": b"Sheddable",
        b"x-plimsoll-session": b"s-1",
        b"x-plimsoll-deadline-ms": b"1500",
        b"x-request-id": b"abc",
    }
    labels = read_labels(fields, NOW, NOBODY)
    assert (labels.tier, labels.cause, labels.session) == ("silver", "nightly batch", "s-1")
    assert labels.criticality is Criticality.SHEDDABLE
    assert labels.deadline_at == NOW + 1.5
    assert labels.client_request_id == "abc"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-plimsoll-tier", b""),
        (b"x-plimsoll-tier", b"a\x01"),
        (b"x-plimsoll-cause", b"x" * 129),
        (b"x-plimsoll-session", b"\xff"),
        (b"x-plimsoll-criticality", b"huge"),
        (b"x-plimsoll-deadline-ms", b"soon"),
        (b"x-plimsoll-deadline-ms", b"-1"),
        (b"x-plimsoll-deadline-ms", b"nan"),
        (b"x-plimsoll-deadline-ms", b"inf"),
        (b"x-plimsoll-upstream-ms", b"-3"),
    ],
)
def test_our_own_headers_are_checked(name: bytes, value: bytes) -> None:
    with pytest.raises(BadHeader, match=name.decode()):
        read_labels({name: value}, NOW, HEADER)


@given(st.floats(0, 1e6), st.floats(-100, 100_000))
def test_upstream_time_never_exceeds_what_has_passed(reported_ms: float, elapsed: float) -> None:
    fields = {b"x-plimsoll-upstream-ms": b"%.3f" % reported_ms, b"x-request-start": b"t=%.6f" % (NOW - elapsed)}
    labels = read_labels(fields, NOW, HEADER)
    assert labels.upstream_time is not None
    if labels.upstream_trust is UpstreamTrust.HEADER:
        assert 0 <= labels.upstream_time <= elapsed + 1e-3
    else:
        assert not 0 < elapsed < 86_400 - 1


def test_upstream_time_without_a_start_or_trust() -> None:
    fields = {b"x-plimsoll-upstream-ms": b"250"}
    labels = read_labels(fields, NOW, HEADER)
    assert (labels.upstream_time, labels.upstream_trust) == (0.25, UpstreamTrust.NONE)
    assert read_labels(fields, NOW, NOBODY).upstream_time is None


@pytest.mark.parametrize(
    "text", [b"t=1800000000.25", b"1800000000.25", b"1800000000250", b"t=1800000000250000", b"1800000000250000000"]
)
def test_request_start_in_every_unit(text: bytes) -> None:
    assert request_start(text) == pytest.approx(1_800_000_000.25, abs=1e-3)


@pytest.mark.parametrize("text", [b"", b"t=", b"yesterday", b"-5", b"nan", b"1e300"])
def test_request_start_that_is_none(text: bytes) -> None:
    assert request_start(text) is None


def test_a_trace_is_continued_with_our_span() -> None:
    labels = read_labels({b"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01".encode()}, NOW, NOBODY)
    assert labels.continues_trace
    assert labels.parent_span_id == "00f067aa0ba902b7"
    assert traceparent(labels.trace_id, 0xABC, labels.trace_flags) == f"00-{TRACE}-0000000000000abc-01".encode()


@pytest.mark.parametrize(
    "value",
    [
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE[:-1]}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-01x",
        f"00-{TRACE}-00f067aa0ba902b7-01-more",
        "garbage",
    ],
)
def test_a_broken_trace_is_begun_anew(value: str) -> None:
    assert not read_labels({b"traceparent": value.encode()}, NOW, NOBODY).continues_trace


def test_a_later_version_is_read_by_its_first_fields() -> None:
    value = f"01-{TRACE}-00f067aa0ba902b7-00-more".encode()
    assert read_labels({b"traceparent": value}, NOW, NOBODY).trace_id == TRACE

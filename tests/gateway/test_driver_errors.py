"""One error shape: every reason that can be sent says who is at fault, why, and when to come back."""

import json
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.errors import Refusal
from plimsoll.slo.outcome import REASONS, Reason

SENT = [reason for reason, row in REASONS.items() if row.error_type and row.status not in (0, 499)]


@pytest.mark.parametrize("anthropic", [False, True])
@pytest.mark.parametrize("reason", SENT)
def test_the_shape(reason: Reason, anthropic: bool) -> None:
    answer = Refusal(reason, request_id=0xAB, detail="42 of 41", anthropic=anthropic).answer()
    body = json.loads(answer.body)
    assert answer.status == REASONS[reason].status >= 400
    assert body["plimsoll"] == {"reason": reason.value, "request_id": "req-00000000000000ab"}
    assert body["error"]["message"] == f"{REASONS[reason].text}: 42 of 41"
    assert body["error"].keys() == ({"type", "message"} if anthropic else {"message", "type", "param", "code"})
    assert (body.get("type") == "error") is anthropic
    assert dict(answer.headers)[b"x-plimsoll-reason"] == reason.value.encode()
    assert b"retry-after" not in dict(answer.headers)


@given(st.floats(0.0001, 3600))
def test_waits_are_never_told_short(seconds: float) -> None:
    answer = Refusal(Reason.TENANT_RATE, retry_after=seconds).answer()
    headers = dict(answer.headers)
    assert int(headers[b"retry-after"]) == max(1, ceil(seconds))
    assert seconds * 1000 <= int(headers[b"x-plimsoll-retry-after-ms"]) < seconds * 1000 + 1
    assert headers[b"retry-after-ms"] == headers[b"x-plimsoll-retry-after-ms"]
    assert json.loads(answer.body)["plimsoll"]["retry_after_ms"] == int(headers[b"retry-after-ms"])


def test_codes_that_sdks_know() -> None:
    for reason, code in ((Reason.UNKNOWN_KEY, "invalid_api_key"), (Reason.PROMPT_TOO_LONG, "context_length_exceeded")):
        assert json.loads(Refusal(reason).answer().body)["error"]["code"] == code
    assert dict(Refusal(Reason.UNKNOWN_KEY).answer().headers)[b"www-authenticate"] == b"Bearer"


def test_errors_within_a_stream() -> None:
    event = Refusal(Reason.IDLE_TIMEOUT).event()
    assert event.startswith(b'data: {"error":')
    assert event.endswith(b"}\n\n")
    assert Refusal(Reason.IDLE_TIMEOUT, anthropic=True).event().startswith(b'event: error\ndata: {"type":"error"')

"""How we say no: one error shape (OpenAI's; Anthropic's on /v1/messages), one reason each, waits that are true.

Official SDKs read `error.code` and `error.type`; the `plimsoll` object beside them carries our own reason, the
request's id and, where one can be promised, the wait. `docs/reasons.md` has a heading for each reason.
"""

from math import ceil
from typing import Final

import msgspec

from plimsoll.gateway.hands import Answer
from plimsoll.requestlog.record import format_request_id
from plimsoll.slo.outcome import REASONS, Reason

JSON: Final = (b"content-type", b"application/json")
CODES: Final = {  # what OpenAI calls it, where it has a name; else the reason itself
    Reason.UNKNOWN_KEY: "invalid_api_key",
    Reason.UNKNOWN_MODEL: "model_not_found",
    Reason.PROMPT_TOO_LONG: "context_length_exceeded",
    Reason.TENANT_CONCURRENCY: "rate_limit_exceeded",
    Reason.TENANT_RATE: "rate_limit_exceeded",
    Reason.TENANT_TOKENS: "rate_limit_exceeded",
    Reason.TENANT_QUEUE: "rate_limit_exceeded",
}
ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    431: "invalid_request_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
NOT_SENT: Final = 400  # for a reason whose row has no status of its own; nobody is there to read it


class Refusal:
    """All that is said in one error answer."""

    __slots__ = ("anthropic", "detail", "headers", "param", "reason", "request_id", "retry_after")

    def __init__(
        self,
        reason: Reason,
        *,
        request_id: int = 0,
        retry_after: float = 0.0,
        detail: str = "",
        param: str | None = None,
        anthropic: bool = False,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.reason = reason
        self.request_id = request_id  # 0: refused before it got one
        self.retry_after = retry_after  # s; 0: nothing can be promised
        self.detail = detail  # numbers and names for the message
        self.param = param  # the field at fault, as OpenAI names it
        self.anthropic = anthropic
        self.headers = headers  # further ones: Allow, CORS

    @property
    def status(self) -> int:
        """The HTTP status."""
        return REASONS[self.reason].status or NOT_SENT

    @property
    def message(self) -> str:
        """The sentence that a person reads."""
        text = REASONS[self.reason].text
        return f"{text}: {self.detail}" if self.detail else text

    def answer(self) -> Answer:
        """The whole answer with its headers."""
        headers = [JSON, (b"x-plimsoll-reason", self.reason.encode()), *self.headers]
        if self.request_id:
            headers.append((b"x-plimsoll-request-id", format_request_id(self.request_id).encode()))
        if self.retry_after > 0:
            headers += retry_headers(self.retry_after)
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return Answer(self.status, headers, msgspec.json.encode(self.body()))

    def body(self) -> dict[str, object]:
        """The JSON object of the body."""
        ours: dict[str, object] = {"reason": self.reason.value}
        if self.request_id:
            ours["request_id"] = format_request_id(self.request_id)
        if self.retry_after > 0:
            ours["retry_after_ms"] = ceil(self.retry_after * 1000)
        if self.anthropic:
            kind = ANTHROPIC_TYPES.get(self.status, "api_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}, "plimsoll": ours}
        row = REASONS[self.reason]
        code = CODES.get(self.reason, self.reason.value)
        error = {"message": self.message, "type": row.error_type, "param": self.param, "code": code}
        return {"error": error, "plimsoll": ours}

    def event(self) -> bytes:
        """The error as one SSE event, for a stream that has begun."""
        data = msgspec.json.encode(self.body())
        return b"event: error\ndata: " + data + b"\n\n" if self.anthropic else b"data: " + data + b"\n\n"


def retry_headers(seconds: float) -> list[tuple[bytes, bytes]]:
    """`Retry-After` in whole seconds, never early (RFC 9110 §10.2.3), and exactly for those who read it.

    The official SDKs read `retry-after-ms` first.
    """
    exact = b"%d" % ceil(seconds * 1000)
    whole = b"%d" % max(1, ceil(seconds))
    return [(b"retry-after", whole), (b"retry-after-ms", exact), (b"x-plimsoll-retry-after-ms", exact)]

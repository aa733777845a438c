"""The head of an engine's answer, read in one pass: what ends its body, what it is, which lines go on to the client."""

import re
from typing import Final

from plimsoll.gateway.hands import Headers
from plimsoll.gateway.headers import NOT_RETURNED, connection_options, status_line

_SECONDS: Final = re.compile(rb"\d{1,6}(?:\.\d{1,6})?")
_LOOKED_AT: Final = frozenset(
    {
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"date",
        b"retry-after",
        b"transfer-encoding",
    }
)
_NOTHING: Final[frozenset[bytes]] = frozenset()


class AnswerHead:
    """Status and fields of an engine's answer. `contradictory`: its framing can be read in two ways (RFC 9112
    section 6.3)."""

    __slots__ = (
        "_fields", "_named", "content_type", "contradictory", "has_body", "has_date", "length", "plain", "retry_after",
        "status", "until_close",
    )  # fmt: skip

    def __init__(self, status: int, fields: list[tuple[bytes, bytes]], *, version: str, head_only: bool) -> None:
        self.status = status
        self.content_type = b""  # lower-case
        self.plain = True  # no content coding, so that the body can be looked at
        self.retry_after = 0.0  # s; 0.0 where it said nothing, or a date
        self.has_date = False  # whether the engine said when
        self._named = _NOTHING
        self._fields = [(name.lower(), name, value) for name, value in fields]
        length: int | None = None
        num_codings = 0
        coding = b""
        for name, _, value in self._fields:
            if name in _LOOKED_AT:
                if name == b"content-length":
                    length = int(value)  # llhttp lets only digits pass, and only one such field
                elif name == b"transfer-encoding":
                    num_codings += 1
                    coding = value.lower()
                else:
                    self._note(name, value)
        self.contradictory = num_codings > 0 and (num_codings > 1 or coding != b"chunked" or version != "1.1")
        self.has_body = not (head_only or status in (204, 304) or (length == 0 and not num_codings))
        self.until_close = self.has_body and length is None and not num_codings
        self.length = length if status != 204 else None  # RFC 9110 section 8.6: none may be sent with 204

    def lines(self, drop: frozenset[bytes], add: Headers) -> bytes:
        """Status line and end-to-end fields, without Date, framing and blank line."""
        hidden = NOT_RETURNED | self._named if self._named else NOT_RETURNED
        lines = [status_line(self.status)]
        for lower, name, value in self._fields:
            if lower not in hidden and lower not in drop:
                lines.append(name + b": " + value + b"\r\n")
        for name, value in add:
            lines.append(name + b": " + value + b"\r\n")
        return b"".join(lines)

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"content-type":
            self.content_type = value.lower()
        elif name == b"content-encoding":
            self.plain = value.lower() in (b"", b"identity")
        elif name == b"connection":
            self._named |= connection_options(value.lower())
        elif name == b"date":
            self.has_date = True
        elif name == b"retry-after" and _SECONDS.fullmatch(value):
            self.retry_after = float(value)

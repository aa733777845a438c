"""The head of an engine's answer, read in one pass: what ends its body, what it is, which lines go on to the client."""

import re
from typing import Final

from plimsoll.gateway.hands import Headers
from plimsoll.gateway.headers import NOT_RETURNED, connection_options, status_line

_SECONDS: Final = re.compile(rb"\d{1,6}(?:\.\d{1,6})?")
_LOOKED_AT: Final = NOT_RETURNED | {b"content-type", b"content-encoding", b"date", b"retry-after"}


class AnswerHead:
    """Status and fields of an engine's answer. `contradictory`: its framing can be read in two ways (RFC 9112
    section 6.3)."""

    __slots__ = (
        "_lines", "_named", "_names", "content_type", "contradictory", "has_body", "has_date", "length", "plain",
        "retry_after", "status", "until_close",
    )  # fmt: skip

    def __init__(self, status: int, fields: list[tuple[bytes, bytes]], *, version: str, head_only: bool) -> None:
        self.status = status
        self.length: int | None = None  # Content-Length
        self.content_type = b""  # lower-case
        self.plain = True  # no content coding, so that the body can be looked at
        self.retry_after = 0.0  # s; 0.0 where it said nothing, or a date
        self.contradictory = False
        self.has_date = False  # whether the engine said when
        self._named: frozenset[bytes] = frozenset()
        self._names: list[bytes] = []
        self._lines: list[bytes] = []
        self.has_body = True
        self.until_close = False  # the body ends with the connection
        self._find_end(chunked=self._read(fields, version), head_only=head_only)

    def lines(self, drop: frozenset[bytes], add: Headers) -> bytes:
        """Status line and end-to-end fields, without Date, framing and blank line."""
        kept = self._lines
        if drop or self._named:
            hidden = drop | self._named
            kept = [line for name, line in zip(self._names, kept, strict=True) if name not in hidden]
        added = [b"%b: %b\r\n" % field for field in add]
        return b"".join([status_line(self.status), *kept, *added])

    def _read(self, fields: list[tuple[bytes, bytes]], version: str) -> bool:
        """Look at every field once; returns whether the body is chunked."""
        chunked: bool = False
        names, lines = self._names, self._lines
        for name, value in fields:
            lower = name.lower()
            if lower in _LOOKED_AT:
                if lower == b"transfer-encoding":
                    self.contradictory = chunked or value.lower() != b"chunked" or version != "1.1"
                    chunked = True
                else:
                    self._note(lower, value)
                if lower in NOT_RETURNED:
                    continue
            names.append(lower)
            lines.append(name + b": " + value + b"\r\n")
        return chunked

    def _find_end(self, *, chunked: bool, head_only: bool) -> None:
        self.has_body = not (head_only or self.status in (204, 304) or (self.length == 0 and not chunked))
        self.until_close = self.has_body and self.length is None and not chunked
        if self.status == 204:
            self.length = None  # RFC 9110 section 8.6: none may be sent

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self.length = int(value)  # llhttp lets only digits pass, and only one such field
        elif name == b"content-type":
            self.content_type = value.lower()
        elif name == b"content-encoding":
            self.plain = value.lower() in (b"", b"identity")
        elif name == b"connection":
            self._named |= connection_options(value.lower())
        elif name == b"date":
            self.has_date = True
        elif name == b"retry-after" and _SECONDS.fullmatch(value):
            self.retry_after = float(value)

"""Header fields on their way through: which stay, which go, and how a head is written (RFC 9110 section 7.6)."""

from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from plimsoll.gateway.hands import Attempt, ClientRequest, Headers

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
"""Never passed on, in either direction, nor is what `Connection` names."""

NOT_FORWARDED: Final = HOP_BY_HOP | {b"host", b"content-length", b"accept-encoding", b"expect"}
"""Written anew for the engine; identity is asked for, so that the answer can be read."""

NOT_RETURNED: Final = HOP_BY_HOP | {b"content-length"}

_NO_FIELDS: Final[frozenset[bytes]] = frozenset()
_OPTIONS: Final = {b"": _NO_FIELDS, b"keep-alive": frozenset({b"keep-alive"}), b"close": frozenset({b"close"})}


def connection_options(value: bytes) -> frozenset[bytes]:
    """The lower-case names in a Connection field; what it names goes no further than this hop."""
    known = _OPTIONS.get(value)
    if known is not None:
        return known
    return frozenset(option.strip().lower() for option in value.split(b","))


def forwarded_head(request: ClientRequest, attempt: Attempt, host: bytes, prefix: bytes) -> bytes:
    """The head of a request as an engine at `host` gets it; `prefix` is the path of its base URL."""
    named = connection_options(request.fields.get(b"connection", b""))
    drop = attempt.drop_headers | named if named else attempt.drop_headers
    parts = [
        b"%b %b%b HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\nvia: %b plimsoll\r\n"
        % (request.method, prefix, attempt.target or request.target, host, request.version)
    ]
    for name, value in request.headers:
        if name not in NOT_FORWARDED and name not in drop:
            parts.append(b"%b: %b\r\n" % (name, value))
    for name, value in attempt.add_headers:
        parts.append(b"%b: %b\r\n" % (name, value))
    body = request.body if attempt.body is None else attempt.body
    if body or request.method not in (b"GET", b"HEAD", b"OPTIONS", b"DELETE"):
        parts.append(b"content-length: %d\r\n\r\n" % len(body))
    else:
        parts.append(b"\r\n")
    return b"".join(parts)


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Client Closed Request" if status == 499 else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_STATUS_LINES: Final = {status: _status_line(status) for status in range(100, 600)}


def status_line(status: int) -> bytes:
    """`HTTP/1.1 200 OK` and its line end; statuses without a phrase of their own get an empty one."""
    return _STATUS_LINES.get(status) or _status_line(status)


class DateLine:
    """The Date field, written once a second."""

    __slots__ = ("_line", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def at(self, now: float) -> bytes:
        """`date: …` and its line end for that instant (UTC epoch s)."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._line = b"date: %b\r\n" % formatdate(second, usegmt=True).encode()
        return self._line


def framing_lines(*, length: int | None, chunked: bool, keep_alive: bool, version: bytes) -> bytes:
    """Content-Length or Transfer-Encoding, Connection where it says something, and the blank line.

    HTTP/1.0 clients keep a connection only where told so, HTTP/1.1 clients unless told otherwise.
    """
    if length is not None:
        body = b"content-length: %d\r\n" % length
    else:
        body = b"transfer-encoding: chunked\r\n" if chunked else b""
    if not keep_alive:
        return body + b"connection: close\r\n\r\n"
    return body + (b"connection: keep-alive\r\n\r\n" if version == b"1.0" else b"\r\n")


def own_head(status: int, fields: Headers, date: bytes) -> bytes:
    """Status line and fields of an answer of our own, without framing and blank line."""
    return b"".join([status_line(status), date, *[b"%b: %b\r\n" % field for field in fields]])

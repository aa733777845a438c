"""Bytes from a client in, whole requests out, one at a time; no I/O.

Heads are parsed by llhttp (strict), one message a feed, so that nothing behind a message is ever read as part of it.
What llhttp lets pass is refused here: HTTP/0.9 and other protocols, several spaces in the request line, other transfer
codings than exactly `chunked`, chunked in HTTP/1.0, a missing or second Host, fragments. Bodies of known length are
only gathered. Limits hold at every moment, so memory is bounded by `max_headers` + `max_body` + one read.
"""

import re
from enum import Enum, auto
from io import BytesIO
from typing import Final

import httptools

from plimsoll.gateway.hands import ClientRequest
from plimsoll.gateway.headers import connection_options
from plimsoll.slo.outcome import Reason

ASK_FIRST: Final = 64 * 1024  # bytes of body above which the head is shown before the body is read

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])\r\n")
_ABSOLUTE: Final = re.compile(rb"https?://[^/?]+", re.IGNORECASE)
_REFUSED_METHODS: Final = frozenset({b"CONNECT", b"TRACE"})


class Step(Enum):
    """What `RequestReader.step` found."""

    NEED = auto()  # more bytes
    HEAD = auto()  # a head whose body is large, unsized or expected: go on, or refuse
    WHOLE = auto()  # `request` is whole
    FAULT = auto()  # `fault` says why; nothing more can be read


_NEED: Final = Step.NEED
_WHOLE: Final = Step.WHOLE


class RequestReader:
    """One client connection's requests, in order."""

    def __init__(self, peer: str, max_headers: int, max_body: int) -> None:
        self._peer, self._max_headers, self._max_body = peer, max_headers, max_body
        self._data: bytes = b""  # not yet read
        self._length = 0  # of the body that is being gathered
        self._have = 0
        self._parts = BytesIO()  # grows read by read and is handed over uncopied: one large join would hold up streams
        self._chunks: ChunkedBody | None = None
        self._in_body = False
        self._read_at = 0.0
        self.request = ClientRequest(0.0, peer)
        self.started_at = 0.0  # first byte of the request that is being read; 0.0: none has come
        self.expects_continue = False
        self.keep_alive = True  # whether the client lets the connection live after this request
        self.fault = Reason.BAD_REQUEST

    @property
    def buffered(self) -> int:
        """Bytes that wait behind the request in hand."""
        return len(self._data)

    def receive(self, data: bytes, at: float) -> None:
        """The next bytes, read at that instant."""
        if self._in_body and self._chunks is None and not self._data:
            self._gather(data)
        else:
            self._data = self._data + data if self._data else data
        self._read_at = at
        self.started_at = self.started_at or at

    def step(self) -> Step:
        """Look for the next thing in what has been received. After WHOLE the next call begins the next request."""
        if self._in_body:
            return self._body_step()
        data = self._data
        while data.startswith(b"\r\n"):  # RFC 9112 section 2.2
            data = self._data = data[2:]
        if not data:
            self.started_at = 0.0
            return _NEED
        end = data.find(b"\r\n\r\n", 0, self._max_headers)
        if end < 0:
            return self._partial_head(data)
        self._data = data[end + 4 :]
        return self._head_step(data[: end + 4])

    def unfinished(self) -> ClientRequest:
        """What is known of the request that is being read."""
        if not self._in_body:
            self.request = ClientRequest(self.started_at, self._peer)
        return self.request

    def _refuse(self, reason: Reason) -> Step:
        self.fault = reason
        self.keep_alive = False
        return Step.FAULT

    def _partial_head(self, data: bytes) -> Step:
        """Refuse at once what can never become a head, so that its sender need not wait for a timeout."""
        if len(data) >= self._max_headers:
            self.unfinished()
            return self._refuse(Reason.HEADERS_TOO_LARGE)
        if data == b"\r":
            return _NEED
        if not data[:1].isalpha() or data.count(b"\n") != data.count(b"\r\n") or b"\0" in data:
            self.unfinished()
            return self._refuse(Reason.BAD_REQUEST)
        return _NEED

    def _head_step(self, head: bytes) -> Step:
        request = self.request = ClientRequest(self.started_at, self._peer)
        request.read_at = self._read_at
        line = _REQUEST_LINE.match(head)
        if line is None:
            return self._refuse(Reason.BAD_REQUEST)
        request.method, target, minor = line.groups()
        request.version = b"1." + minor
        try:
            httptools.HttpRequestParser(_HeadEvents(request.headers)).feed_data(head)
        except httptools.HttpParserUpgrade:
            pass  # an upgrade is never taken; the request stands as it is
        except httptools.HttpParserError:
            return self._refuse(Reason.BAD_REQUEST)
        _index_fields(request, padded=b" \r\n" in head or b"\t\r\n" in head)
        if request.method in _REFUSED_METHODS:
            return self._refuse(Reason.METHOD_NOT_ALLOWED)
        if not self._set_target(target) or not self._host_is_right():
            return self._refuse(Reason.BAD_REQUEST)
        connection = request.fields.get(b"connection")
        if connection is None:
            self.keep_alive = minor == b"1"
        else:
            options = connection_options(connection.lower())
            self.keep_alive = b"close" not in options and (minor == b"1" or b"keep-alive" in options)
        return self._begin_body()

    def _set_target(self, target: bytes) -> bool:
        """Keep the origin form; an absolute one is cut to it (RFC 9112 section 3.2.2)."""
        request = self.request
        if target[:1] != b"/":
            authority = _ABSOLUTE.match(target)
            if authority:
                target = target[authority.end() :]
                target = target if target.startswith(b"/") else b"/" + target
            elif target != b"*" or request.method != b"OPTIONS":
                return False
        request.target = target
        return True

    def _host_is_right(self) -> bool:
        request = self.request
        if b"host" not in request.fields:
            return request.version == b"1.0"
        return len(request.fields) == len(request.headers) or [name for name, _ in request.headers].count(b"host") == 1

    def _begin_body(self) -> Step:
        request = self.request
        coding = request.fields.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked" or request.version == b"1.0" or b"content-length" in request.fields:
                return self._refuse(Reason.BAD_REQUEST)
            self._chunks = ChunkedBody()
        else:
            length = request.fields.get(b"content-length", b"0")
            if not length.isdigit():
                return self._refuse(Reason.BAD_REQUEST)
            self._length = int(length) if len(length) < 20 else self._max_body + 1
            if self._length > self._max_body:
                return self._refuse(Reason.BODY_TOO_LARGE)
            if self._length <= len(self._data):
                return self._take_body()
        self._in_body = True
        self.expects_continue = (
            request.fields.get(b"expect", b"").lower() == b"100-continue" and request.version == b"1.1"
        )
        if self._chunks is not None or self.expects_continue or self._length > ASK_FIRST:
            return Step.HEAD
        return self._body_step()

    def _take_body(self) -> Step:
        """The body is all there already."""
        self.request.body = self._data[: self._length]
        self._data = self._data[self._length :]
        return self._whole()

    def _body_step(self) -> Step:
        if self._chunks is not None:
            return self._chunked_step(self._chunks)
        if self._data:
            data, self._data = self._data, b""
            self._gather(data)
        if self._have < self._length:
            return _NEED
        self.request.body, self._parts = self._parts.getvalue(), BytesIO()
        return self._whole()

    def _gather(self, data: bytes) -> None:
        missing = self._length - self._have
        if len(data) > missing:
            self._data = data[missing:]
            data = data[:missing]
        self._parts.write(data)
        self._have += len(data)

    def _chunked_step(self, chunks: "ChunkedBody") -> Step:
        data, self._data = self._data, b""
        try:
            self._data = chunks.feed(data)
        except httptools.HttpParserError:
            return self._refuse(Reason.BAD_REQUEST)
        if chunks.size > self._max_body:
            return self._refuse(Reason.BODY_TOO_LARGE)
        if chunks.overhead > self._max_headers + 8 * chunks.size:  # extensions or trailers without end
            return self._refuse(Reason.BAD_REQUEST)
        if not chunks.done:
            return _NEED
        self.request.body = chunks.parts.getvalue()
        return self._whole()

    def _whole(self) -> Step:
        self._in_body = self.expects_continue = False
        self._chunks = None
        self._have = 0
        self.request.read_at = self._read_at
        self.started_at = self._read_at if self._data else 0.0
        return _WHOLE


class _HeadEvents:
    """llhttp's callbacks for one head."""

    __slots__ = ("_headers",)

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers = headers

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))


def _index_fields(request: ClientRequest, *, padded: bool) -> None:
    """Fill `fields`; `padded`: some line ends in a blank, which llhttp leaves on the value."""
    if padded:
        request.headers = [(name, value.rstrip(b" \t")) for name, value in request.headers]
    fields = request.fields = dict(request.headers)
    if len(fields) != len(request.headers):
        fields.clear()
        for name, value in request.headers:
            before = fields.get(name)
            fields[name] = value if before is None else before + b", " + value


class ChunkedBody:
    """A chunked body, unwrapped by llhttp; trailers are dropped.

    A chunked message can end only where the bytes CR LF CR LF end, so it is fed up to each of those in turn: what
    follows the message is never shown to its parser.
    """

    __slots__ = ("_fed_last", "_parser", "done", "overhead", "parts", "size")

    def __init__(self) -> None:
        self.parts = BytesIO()
        self.size = 0
        self.overhead = 0  # bytes of framing, extensions and trailers
        self.done = False
        self._fed_last = b""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")

    def feed(self, data: bytes) -> bytes:
        """Unwrap the next bytes; returns what lies behind the end. HttpParserError where it is malformed."""
        start = 0
        while start < len(data) and not self.done:
            end = self._next_end(data, start)
            piece = data[start:end]
            self.overhead += len(piece)
            self._parser.feed_data(piece)
            self._fed_last = (self._fed_last + piece[-3:])[-3:]
            start = end
        return data[start:]

    def _next_end(self, data: bytes, start: int) -> int:
        """Up to where may be fed without passing the end of the message."""
        if self._fed_last:
            joined = self._fed_last + data[start : start + 3]
            cut = joined.find(b"\r\n\r\n")
            if cut >= 0:
                return start + cut + 4 - len(self._fed_last)
        found = data.find(b"\r\n\r\n", start)
        return found + 4 if found >= 0 else len(data)

    def on_body(self, body: bytes) -> None:
        self.parts.write(body)
        self.size += len(body)
        self.overhead -= len(body)

    def on_message_complete(self) -> None:
        self.done = True

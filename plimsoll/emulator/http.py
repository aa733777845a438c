"""Enough of HTTP/1.1 for an engine's server: llhttp parses, one request at a time on a connection."""

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

import httptools

MAX_BODY: Final = 64 * 1024 * 1024  # bytes
MAX_UNSENT: Final = 8 * 1024 * 1024  # bytes of one stream that a client may leave unread before it is cut


class Request:
    """One request, read whole."""

    def __init__(self, method: str, path: str, body: bytes, keep_alive: bool) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.keep_alive = keep_alive


Handler = Callable[["Connection", Request], None]


class Connection(asyncio.Protocol):
    """A client's connection; the handler answers each request by `respond`, or `stream`, `send` … and `end`."""

    def __init__(self, handler: Handler, connections: "set[Connection]") -> None:
        self._handler = handler
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._body: list[bytes] = []
        self._size = 0
        self._expects = False
        self._queue: deque[Request] = deque()
        self._answering: Request | None = None
        self.on_lost: Callable[[], None] | None = None  # called once if the client leaves before the answer has ended

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went away, in the middle of an answer perhaps."""
        self._connections.discard(self)
        self._transport = None
        self._queue.clear()
        lost, self.on_lost = self.on_lost, None
        if lost is not None:
            lost()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what it cannot read ends the connection, as with uvicorn."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError:
            self._refuse(400, b"Invalid HTTP request received.")

    # httptools

    def on_message_begin(self) -> None:
        """Forget the last request."""
        self._url, self._body, self._size, self._expects = b"", [], 0, False

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the headers only Expect matters here."""
        if name.lower() == b"expect" and value.lower() == b"100-continue":
            self._expects = True

    def on_headers_complete(self) -> None:
        """Ask for the body where the client waits to be asked."""
        self._next()

    def on_body(self, data: bytes) -> None:
        """Collect the body, up to a limit."""
        self._size += len(data)
        if self._size > MAX_BODY:
            self._refuse(413, b"Request body too large.")
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Answer now, or after the request before it."""
        path = self._url.split(b"?", 1)[0].decode("latin-1")
        self._expects = False
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, path, b"".join(self._body), self._parser.should_keep_alive())
        self._body = []
        self._queue.append(request)
        self._next()

    # What the handler does.

    def respond(self, status: int, body: bytes, content_type: bytes = b"application/json") -> None:
        """Answer whole."""
        self._write(self._head(status, content_type, b"content-length: %d" % len(body)) + body)
        self._done()

    def stream(self) -> None:
        """Begin a stream of server-sent events."""
        self._write(self._head(200, b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked"))

    def send(self, event: bytes) -> None:
        """One event, with `data: ` before it and the empty line after it."""
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size() > MAX_UNSENT:
            transport.abort()
            return
        transport.write(b"%x\r\ndata: %b\n\n\r\n" % (len(event) + 8, event))

    def end(self) -> None:
        """End the stream."""
        self._write(b"0\r\n\r\n")
        self._done()

    def close(self) -> None:
        """Close after what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def _head(self, status: int, content_type: bytes, framing: bytes) -> bytes:
        alive = b"" if self._answering is not None and self._answering.keep_alive else b"connection: close\r\n"
        phrase = HTTPStatus(status).phrase.encode()
        line = b"HTTP/1.1 %d %b\r\nserver: plimsoll-emulator\r\n" % (status, phrase)
        return line + b"content-type: %b\r\n%b\r\n%b\r\n" % (content_type, framing, alive)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _next(self) -> None:
        if self._answering is not None or self._transport is None:
            return
        if self._queue:
            self._answering = self._queue.popleft()
            self._handler(self, self._answering)
        elif self._expects:
            self._expects = False
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _done(self) -> None:
        self.on_lost = None
        answered, self._answering = self._answering, None
        if answered is not None and not answered.keep_alive:
            self.close()
        else:
            self._next()

    def _refuse(self, status: int, body: bytes) -> None:
        self._write(self._head(status, b"text/plain; charset=utf-8", b"content-length: %d" % len(body)) + body)
        self.close()

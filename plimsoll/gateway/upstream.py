"""One connection to an engine: sends a request, reads its answer, says whether it can be used again."""

import asyncio
from typing import Final, Protocol

import httptools

from plimsoll.gateway.enginehead import AnswerHead
from plimsoll.gateway.hands import NO_PATH, Path
from plimsoll.gateway.sockets import set_socket_options, tcp_state
from plimsoll.slo.outcome import Reason

MAX_HEAD: Final = 64 * 1024  # bytes of an engine's head, or of its trailers


class Pool(Protocol):
    """Where connections go when their answer is complete."""

    def put(self, upstream: "UpstreamConnection") -> None:
        """Take back a connection that can be used again."""

    def forget(self, upstream: "UpstreamConnection") -> None:
        """A connection closed."""


class Receiver(Protocol):
    """The exchange that a connection is lent to."""

    def interim(self, head: AnswerHead) -> None:
        """A 1xx answer other than 100 came."""

    def received(self, upstream: "UpstreamConnection", body: bytes) -> None:
        """More of the answer: `upstream.head` is set; `upstream.complete` says whether this is its end."""

    def lost(self, upstream: "UpstreamConnection", reason: Reason) -> None:
        """The answer will not be completed. The connection is closed."""


class UpstreamConnection:
    """One connection to an engine. After the answer the receiver calls `release` or `abort`.

    A protocol as asyncio wants it, by its methods: a base class of asyncio's could not be compiled.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.transport: asyncio.Transport | None = None
        self.receiver: Receiver | None = None
        self.num_served = 0
        self.idle_since = 0.0
        self.head: AnswerHead | None = None
        self.complete = False
        self.got_bytes = False  # of the present answer
        self._keep = False
        self._paused = False
        self._retransmits = 0  # up to the end of the request before
        self._head_only = False
        self._fault = False
        self._head_bytes = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    # --- the exchange's side ---

    def send(self, receiver: Receiver, head: bytes, body: bytes, *, head_only: bool) -> None:
        """Send a request and lend this connection to `receiver`. `head_only`: it is a HEAD request."""
        self.receiver = receiver
        self.head = None
        self.complete = self._keep = self.got_bytes = False
        self._head_only = head_only
        self._head_bytes = 0
        self._fields = []
        transport = self.transport
        if transport is None:
            return
        if len(body) < 16 * 1024:
            transport.write(head + body if body else head)
        else:
            transport.write(head)
            transport.write(body)  # large ones are not copied

    def release(self) -> None:
        """The answer is complete: back to the pool, or closed where HTTP or the engine wants it so."""
        self.receiver = None
        self.num_served += 1
        transport = self.transport
        if transport is None:
            return
        if self._keep and self.complete and not transport.is_closing() and not transport.get_write_buffer_size():
            self.resume()  # one that was paused for a slow client would never see its engine's goodbye
            self._pool.put(self)
        else:
            transport.abort()

    def abort(self) -> None:
        """Close at once: tells the engine to stop generating."""
        self.receiver = None
        if self.transport is not None:
            self.transport.abort()

    def path(self) -> Path:
        """How the way to the engine was for the request that now ends: asked once for each."""
        told = None if self.transport is None else tcp_state(self.transport)
        if told is None:
            return NO_PATH
        more, self._retransmits = told[1] - self._retransmits, told[1]
        return told[0], more

    def pause(self) -> None:
        """Read nothing more until `resume`."""
        if self.transport is not None and not self._paused and not self.complete:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        set_socket_options(transport)

    def data_received(self, data: bytes) -> None:
        receiver = self.receiver
        if receiver is None or self.complete:
            self._spoil()  # nothing was asked: a late 408, or bytes behind an answer
            return
        if not self.got_bytes:
            self.got_bytes = True
            self._fault = data[:1] != b"H"  # llhttp would skip empty lines
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._keep = False
            self._fault = self._fault or not self.complete
        if self._fault:
            self._fail(Reason.BAD_UPSTREAM)
            return
        parts = self._parts
        if parts:
            self._head_bytes = 0  # what counts is a head, or trailers, without an end
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._fail(Reason.BAD_UPSTREAM)
                return
        if self.head is None:
            return
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        receiver.received(self, body)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        pass  # a request larger than the socket takes: the transport holds the rest

    def resume_writing(self) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._pool.forget(self)
        receiver = self.receiver
        if receiver is None or self.complete:
            return
        if exc is None and self.head is not None and self.head.until_close:
            self.complete = True
            receiver.received(self, b"")
        else:
            self.receiver = None
            receiver.lost(self, Reason.CONNECTION_LOST)

    def _spoil(self) -> None:
        self._keep = False
        if self.transport is not None and self.receiver is None:
            self.transport.abort()

    def _fail(self, reason: Reason) -> None:
        receiver, self.receiver = self.receiver, None
        if self.transport is not None:
            self.transport.abort()
        if receiver is not None:
            receiver.lost(self, reason)

    # --- llhttp's side ---

    def on_message_begin(self) -> None:
        if self.complete:
            self._keep = False  # bytes behind the answer: whatever they are, no answer of ours

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:
            self._fields.append((name, value))
        else:  # trailers are dropped
            self._head_bytes += len(name) + len(value)
            self._fault = self._fault or self._head_bytes > MAX_HEAD

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.complete:
            return
        if status < 100 or self._parser.get_http_version() not in ("1.1", "1.0"):
            self._fault = True  # llhttp lets 000 and HTTP/2.0 pass
            return
        if status < 200:
            self._fault = self._fault or status == 101  # no upgrade was asked for
            return
        head = AnswerHead(status, self._fields, version=self._parser.get_http_version(), head_only=self._head_only)
        if head.contradictory:
            self._fault = True
            return
        self.head = head
        if not head.has_body:
            self.complete = True
            self._keep = not self._head_only and self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        if self.head is None:
            self._interim_complete()
        elif not self._head_only:
            self.complete = True
            self._keep = self._parser.should_keep_alive()  # right only here

    def _interim_complete(self) -> None:
        status, fields, self._fields = self._parser.get_status_code(), self._fields, []
        if self.receiver is not None and 100 < status < 200 and not self._fault:
            self.receiver.interim(AnswerHead(status, fields, version="1.1", head_only=True))

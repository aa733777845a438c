"""One client's connection: requests in order, one exchange at a time, and an orderly end in every case.

Pipelined requests wait as bytes until the one before is answered; of these no more than `max_headers` are taken before
reading pauses. A client that closes its side has left: half-closed clients cannot be told from gone ones before
something is sent, and an engine should not generate for nobody (nginx and Go's net/http decide the same).
"""

import asyncio
from enum import Enum, auto
from typing import Final, Protocol

from plimsoll.gateway.answer import Client, respond
from plimsoll.gateway.hands import NO_PATH, Answer, ClientRequest, Clock, Hands, Path
from plimsoll.gateway.headers import DateLine
from plimsoll.gateway.origin import Upstreams
from plimsoll.gateway.reader import RequestReader, Step
from plimsoll.gateway.sockets import reset, set_socket_options, tcp_state
from plimsoll.gateway.twohop import TwoHopExchange
from plimsoll.policy.policy import GatewayRules
from plimsoll.slo.outcome import Reason

LINGER = 2.0
"""s that the rest of a refused request is read and dropped, so that the refusal is not lost. Not Final: compiled code
would fix it, tests shorten it."""


class Listener(Protocol):
    """What all connections of a server share."""

    hands: Hands
    rules: GatewayRules
    clock: Clock
    upstreams: Upstreams
    dates: DateLine
    draining: bool
    connections: "set[ClientConnection]"

    def closed(self, connection: "ClientConnection") -> None:
        """A connection is gone."""


class Mode(Enum):
    """What the connection does with what it reads."""

    SERVING = auto()
    LINGERING = auto()  # the last answer is sent: read and drop, then close
    CLOSING = auto()


_SERVING: Final = Mode.SERVING
_WHOLE: Final = Step.WHOLE
_NEED: Final = Step.NEED


class ClientConnection(Client):
    """A protocol as asyncio wants it, by its methods: a base class of asyncio's could not be compiled."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader("", 0, 0)
        self._mode: Mode = _SERVING
        self._advancing = False
        self._reading_paused = False
        self._since = 0.0  # idle, lingering or closing since
        self.exchange: TwoHopExchange | None = None
        self.keep_alive = True
        self.paused = False
        self._retransmits = 0  # up to the end of the request before

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        listener = self._listener
        rules = listener.rules
        set_socket_options(transport)
        transport.set_write_buffer_limits(high=rules.stream_buffer, low=rules.stream_buffer // 4)  # type: ignore[attr-defined]
        peer = transport.get_extra_info("peername")
        name = peer[0] if isinstance(peer, tuple) else ""
        self._reader = RequestReader(name, rules.max_headers, rules.max_body)
        self._since = listener.clock()
        listener.connections.add(self)
        if len(listener.connections) > rules.max_connections:
            self._refuse(ClientRequest(self._since, name), Reason.TOO_MANY_CONNECTIONS)

    def data_received(self, data: bytes) -> None:
        if self._mode is not _SERVING:
            return
        self._reader.receive(data, self._listener.clock())
        if self.exchange is None:
            self._advance()
        elif self._reader.buffered > self._listener.rules.max_headers:
            self._pause_reading()

    def eof_received(self) -> bool:
        self._client_left()
        self._mode = Mode.CLOSING
        self._since = self._listener.clock()
        return False  # what is still to be sent is sent, then the transport closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._mode = Mode.CLOSING
        self._client_left()
        self._listener.closed(self)

    def pause_writing(self) -> None:
        self.paused = True
        if self.exchange is not None:
            self.exchange.client_paused()

    def resume_writing(self) -> None:
        self.paused = False
        if self.exchange is not None:
            self.exchange.client_resumed()

    # --- the exchange's side ---

    def write(self, data: bytes) -> None:
        """Send; does nothing once the client is gone."""
        transport = self._transport
        if transport is not None:
            transport.write(data)

    def path(self) -> Path:
        """How the way to the client was for the request that now ends: asked once for each."""
        told = None if self._transport is None else tcp_state(self._transport)
        if told is None:
            return NO_PATH
        more, self._retransmits = told[1] - self._retransmits, told[1]
        return told[0], more

    def date(self) -> bytes:
        """The Date line of now."""
        return self._listener.dates.at(self._listener.clock())

    def over(self) -> None:
        """The answer is complete: the next request may be read, or the connection closed."""
        self._forget()
        self._since = self._listener.clock()
        if not self.keep_alive or self._listener.draining:
            self.close()
            return
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()
        if self._reader.buffered:
            self._advance()

    def break_off(self, *, hard: bool) -> None:
        """Close in the middle of an answer; `hard` (a reset) where an orderly close would look like its end."""
        self._forget()
        if hard:
            self.abort()
        else:
            self.close()

    # --- the server's side ---

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._mode = Mode.CLOSING
        if self._transport is not None:
            reset(self._transport)

    def close(self) -> None:
        """Close once all is sent."""
        self._mode = Mode.CLOSING
        self._since = self._listener.clock()
        if self._transport is not None:
            self._transport.close()

    def close_if_idle(self) -> None:
        """Close unless a request is being read or answered, or the first one may be on its way."""
        fresh = not self._reader.request.arrived_at
        if self._mode is _SERVING and self.exchange is None and not self._reader.started_at and not fresh:
            self.close()

    def check(self, now: float) -> None:
        """Called a few times a second: end what takes longer than the policy allows."""
        timeouts = self._listener.rules.timeouts
        transport = self._transport
        if transport is None:
            return
        if self._mode is not _SERVING:
            limit = LINGER if self._mode is Mode.LINGERING else timeouts.client_stall
            if now - self._since > limit:
                transport.abort()
        elif self.exchange is not None:
            self.exchange.check(now, timeouts)
        elif self._reader.started_at:
            if now - self._reader.started_at > timeouts.request:
                self._refuse(self._reader.unfinished(), Reason.REQUEST_TIMEOUT)
        elif now - self._since > (LINGER if self._listener.draining else timeouts.keep_alive):
            self.close()

    # --- steps ---

    def _client_left(self) -> None:
        if self.exchange is not None:
            self.exchange.client_left()
            self._forget()

    def _forget(self) -> None:
        """The exchange is over. The driver's object points back at it: left so, bodies would wait for the collector."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.context = None

    def _advance(self) -> None:
        """Take requests from what was read, until one is being answered. Not re-entered: answers can be immediate."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self.exchange is None and self._mode is _SERVING:
                step = self._reader.step()
                if step is _WHOLE:
                    self._begin()
                elif step is _NEED:
                    break
                elif step is Step.FAULT:
                    self._refuse(self._reader.request, self._reader.fault)
                else:
                    self._ask()
        finally:
            self._advancing = False

    def _begin(self) -> None:
        reader, listener = self._reader, self._listener
        self.keep_alive = reader.keep_alive and not listener.draining
        exchange = self.exchange = TwoHopExchange(
            reader.request, self, listener.hands, upstreams=listener.upstreams, clock=listener.clock
        )
        listener.hands.request(exchange)

    def _ask(self) -> None:
        """A head whose body is not there yet: the driver may refuse before it is read."""
        reader = self._reader
        refusal = self._listener.hands.head_read(reader.request)
        if refusal is not None:
            self._send_last(reader.request, refusal)
        elif reader.expects_continue:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, request: ClientRequest, reason: Reason) -> None:
        self._send_last(request, self._listener.hands.refusal(request, reason, self._listener.clock()))

    def _send_last(self, request: ClientRequest, answer: Answer) -> None:
        """Answer and close. What the client is still sending is dropped for a while first: closing at once would
        reset the connection, and the answer could be lost with it (RFC 9112 section 9.6)."""
        self.keep_alive = False
        self._mode = Mode.LINGERING
        self._since = self._listener.clock()
        respond(self, request, answer)
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

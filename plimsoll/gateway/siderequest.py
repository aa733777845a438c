"""A request that is made beside an exchange's own connection: its dial, its connection, its end."""

import asyncio

from plimsoll.gateway.enginehead import AnswerHead
from plimsoll.gateway.hands import Attempt
from plimsoll.gateway.origin import Origin
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.slo.outcome import Reason


class SideRequest:
    """Implements `upstream.Receiver`, and `origin.Caller` for its own dial. A class, not a Protocol, as its heirs are
    compiled."""

    def __init__(self, attempt: Attempt, origin: Origin, head: bytes, body: bytes) -> None:
        self.attempt = attempt
        self.head = head  # of the request
        self.upstream: UpstreamConnection | None = None
        self.dial: asyncio.Task[None] | None = None
        self._origin = origin
        self._body = body

    def start(self) -> None:
        """Send it, or dial first."""
        upstream = self._origin.take()
        if upstream is None:
            self.dial = self._origin.dial(self)
        else:
            self._send(upstream)

    def drop(self) -> None:
        """Nobody wants it any more: its engine is told by closing the connection."""
        dial, self.dial = self.dial, None
        if dial is not None:
            dial.cancel()
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.abort()

    # --- what its heirs do ---

    def sent(self) -> None:
        """It is with its engine."""

    def answered(self, upstream: UpstreamConnection, body: bytes) -> None:
        """More of the answer."""
        raise NotImplementedError

    def failed(self, reason: Reason, retry_after: float) -> None:
        """It came to nothing."""
        raise NotImplementedError

    # --- what its connection reports ---

    def connected(self, upstream: UpstreamConnection) -> None:
        """The dialled connection stands."""
        if self.dial is None:
            upstream.abort()
            return
        self.dial = None
        self._send(upstream)

    def not_connected(self) -> None:
        """Dialling failed."""
        if self.dial is not None:
            self.dial = None
            self.failed(Reason.CONNECT_FAILED, 0.0)

    def interim(self, head: AnswerHead) -> None:
        """A 1xx answer: the client has seen none of it, and need not."""

    def received(self, upstream: UpstreamConnection, body: bytes) -> None:
        """More of its answer."""
        if upstream is self.upstream:
            self.answered(upstream, body)
        else:
            upstream.abort()

    def lost(self, upstream: UpstreamConnection, reason: Reason) -> None:
        """Its connection broke."""
        if upstream is self.upstream:
            self.upstream = None
            self.failed(reason, 0.0)

    def _send(self, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        upstream.send(self, self.head, self._body, head_only=False)
        self.sent()

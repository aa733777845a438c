"""A second attempt beside the first: whichever shows its first token goes on, the other's connection is closed.

What the second replica answers is held back until it wins, so nothing of it reaches the client before; and once
anything of the first has, the second can only lose. Where the first fails meanwhile, the second takes its place.
"""

from plimsoll.gateway.exchange import DISPATCHED, HttpExchange
from plimsoll.gateway.hands import Attempt
from plimsoll.gateway.headers import forwarded_head
from plimsoll.gateway.origin import Origin
from plimsoll.gateway.reading import Reading, engine_fault
from plimsoll.gateway.siderequest import SideRequest
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.slo.outcome import Phase, Reason

_CONNECT, _PREFILL, _DECODE = Phase.CONNECT, Phase.PREFILL, Phase.DECODE


class Rival(SideRequest):
    """The second attempt."""

    def __init__(self, race: "RacingExchange", attempt: Attempt, origin: Origin, head: bytes, body: bytes) -> None:
        super().__init__(attempt, origin, head, body)
        self._race = race
        self.reading: Reading | None = None
        self.adopted = False  # it is the exchange's only attempt now
        self._held: list[bytes] = []

    def held(self) -> bytes:
        """What it has answered so far."""
        return b"".join(self._held)

    def connected(self, upstream: UpstreamConnection) -> None:
        """See `origin.Caller`."""
        if self.adopted:
            self._race.connected(upstream)
        else:
            super().connected(upstream)

    def not_connected(self) -> None:
        """See `origin.Caller`."""
        if self.adopted:
            self._race.not_connected()
        else:
            super().not_connected()

    def answered(self, upstream: UpstreamConnection, body: bytes) -> None:
        """See `SideRequest`."""
        reading = self.reading or self._begin(upstream)
        if reading is None or reading.scanner is None:
            return
        scanner = reading.scanner
        self._held.append(scanner.feed(body) if body else body)
        if scanner.error is not None:
            self.failed(Reason.ENGINE_ERROR, 0.0)
        elif scanner.new_tokens:
            self._race.rival_won(self, reading, scanner.new_tokens)
        elif upstream.complete:
            self.failed(Reason.BAD_UPSTREAM, 0.0)

    def failed(self, reason: Reason, retry_after: float) -> None:
        """See `SideRequest`."""
        self._race.rival_failed(self, reason, retry_after)

    def _begin(self, upstream: UpstreamConnection) -> Reading | None:
        """Its head is there; None where no stream can come of it."""
        head = upstream.head
        if head is None:
            return None
        reading = Reading(head, self.attempt)
        fault = engine_fault(head.status)
        if fault is None and (head.status >= 400 or reading.scanner is None):
            fault = Reason.ENGINE_ERROR  # what the request itself deserves, the first replica will say
        if fault is not None:
            self.failed(fault, head.retry_after)
            return None
        self.reading = reading
        return reading


class RacingExchange(HttpExchange):
    """An exchange that may be hedged; costs the others nothing."""

    _rival: Rival | None = None
    _by_hedge: bool = False  # the answer is the second attempt's

    def hedge(self, attempt: Attempt) -> None:
        """Send it to a second replica too; see `Exchange`."""
        if self._state != DISPATCHED or self._writer.started or self.phase is _DECODE or self._rival is not None:
            self._hands.hedge_failed(self, Reason.HEDGED, 0.0, self._clock())
            return
        origin = self._upstreams.origin(attempt.replica)
        head = forwarded_head(self.request, attempt, origin.host, origin.prefix)
        body = self.request.body if attempt.body is None else attempt.body
        rival = self._rival = Rival(self, attempt, origin, head, body)
        rival.start()

    def rival_failed(self, rival: Rival, reason: Reason, retry_after: float) -> None:
        """The second attempt came to nothing; the first goes on."""
        if rival is not self._rival:
            return
        self._rival = None
        rival.drop()
        self._hands.hedge_failed(self, reason, retry_after, self._clock())

    def rival_won(self, rival: Rival, reading: Reading, num_tokens: int) -> None:
        """The second attempt showed the first token."""
        if rival is not self._rival:
            return
        if self._writer.started or self._state != DISPATCHED:
            self.rival_failed(rival, Reason.HEDGED, 0.0)
            return
        self._rival = None
        self._leave_first()
        self._adopt(rival)
        self._by_hedge = True
        self._patience.last_read_at = self._clock()
        self._count_tokens(reading, num_tokens)
        upstream = self._upstream
        if self._state != DISPATCHED or upstream is None:
            return
        if upstream.complete:
            self._complete(reading, rival.held())
        else:
            self._writer.pass_on(rival.held())

    # --- where one attempt at a time does otherwise ---

    def _first_token(self, at: float) -> None:
        rival, self._rival = self._rival, None
        if rival is not None:
            rival.drop()
        self._hands.first_token(self, at, hedge=self._by_hedge)

    def _attempt_failed(self, reason: Reason, retry_after: float = 0.0) -> None:
        rival = self._rival
        if rival is None or self._writer.started:
            super()._attempt_failed(reason, retry_after)
            return
        self._rival = None
        self._leave_first()
        self._adopt(rival)
        self._hands.attempt_failed(self, reason, retry_after, self._clock())
        if (held := rival.held()) and self._state == DISPATCHED:
            self._writer.pass_on(held)

    def _let_go(self) -> None:
        rival, self._rival = self._rival, None
        if rival is not None:
            rival.drop()
        super()._let_go()

    def _leave_first(self) -> None:
        """The first attempt's connection is closed."""
        super()._let_go()

    def _adopt(self, rival: Rival) -> None:
        """The second attempt is the only one from now on."""
        rival.adopted = True
        self._attempt, self._head = rival.attempt, rival.head
        self._retried_stale, self._dial, self._upstream = False, rival.dial, rival.upstream
        self._patience.attempt(self._clock())
        self.phase = _CONNECT
        if self._upstream is not None:
            self._upstream.receiver = self
            self._patience.sent, self.phase = True, _PREFILL
        self._reading, self._status = None, 0
        if rival.reading is not None and self._upstream is not None and self._upstream.head is not None:
            self._announce(self._upstream.head, rival.attempt, rival.reading)

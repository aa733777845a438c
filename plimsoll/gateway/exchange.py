"""One request and its answer: from the driver's `forward` to the client's last byte, and every way this can break."""

import asyncio
from typing import Final

from plimsoll.gateway.answer import AnswerWriter, Client, respond
from plimsoll.gateway.enginehead import AnswerHead
from plimsoll.gateway.hands import NO_PATH, Answer, Attempt, ClientRequest, Clock, Ended, Hands, Headers, Path, Usage
from plimsoll.gateway.headers import forwarded_head, own_head
from plimsoll.gateway.origin import Upstreams
from plimsoll.gateway.patience import Patience
from plimsoll.gateway.reading import Reading, engine_fault
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.policy.policy import Timeouts
from plimsoll.slo.outcome import Outcome, Phase, Reason

WAITING: Final = 0  # the driver may answer or forward
DISPATCHED: Final = 1
OVER: Final = 2

# Reaching an enum's member through its class costs more than a token's bookkeeping (Python 3.11).
_QUEUE, _CONNECT, _PREFILL, _DECODE = Phase.QUEUE, Phase.CONNECT, Phase.PREFILL, Phase.DECODE
_COMPLETED, _NO_PHASE = Outcome.COMPLETED, Phase.NONE


class HttpExchange:
    """Implements `hands.Exchange`, and `upstream.Receiver` for the connection that it is lent."""

    def __init__(
        self, request: ClientRequest, client: Client, hands: Hands, *, upstreams: Upstreams, clock: Clock
    ) -> None:
        self.request = request
        self.context: object = None
        self.phase: Phase = _QUEUE
        self._client, self._hands = client, hands
        self._upstreams, self._clock = upstreams, clock
        self._state = WAITING
        self._writer = AnswerWriter(client, request.version)
        self._attempt: Attempt | None = None
        self._upstream: UpstreamConnection | None = None
        self._dial: asyncio.Task[None] | None = None
        self._head = b""  # of the request to the engine
        self._reading: Reading | None = None  # of the engine's answer, once its head is there
        self._status, self._retried_stale = 0, False
        self._patience = Patience()
        self._path: Path = NO_PATH  # of the engine's connection, once it is given up

    @property
    def open(self) -> bool:  # see `Exchange`
        return self._state == WAITING

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        """Answer it and end the exchange; only while nothing is dispatched."""
        if self._state != WAITING:
            return
        self._state = OVER
        respond(self._client, self.request, Answer(status, headers, body))
        self._client.over()

    def forward(self, attempt: Attempt) -> None:
        """Send it to a replica; only while no other attempt runs and no byte has reached the client."""
        if self._state != WAITING:
            return
        self._state, self.phase = DISPATCHED, _CONNECT
        self._attempt, self._reading, self._retried_stale = attempt, None, False
        self._patience.attempt(self._clock())
        origin = self._upstreams.origin(attempt.replica)
        self._head = forwarded_head(self.request, attempt, origin.host, origin.prefix)
        if (upstream := origin.take()) is None:
            self._dial = origin.dial(self)
        else:
            self._send(upstream)

    def hedge(self, attempt: Attempt) -> None:
        """Send it to a second replica too: `hedging` does that."""
        raise NotImplementedError

    def hint(self, fields: Headers) -> None:
        """Tell the client that before its answer; see `Exchange`."""
        if self._state != OVER:
            self._writer.interim(own_head(103, fields, b""))

    def evict(self, reason: Reason) -> None:
        """End it after dispatch: the engine's connection is closed and `ended` is called within this call."""
        if self._state == DISPATCHED:
            self._break(reason, Outcome.EVICTED)

    def client_left(self) -> None:
        """The client's connection is gone, or it said that it will read no more."""
        self._abandon(Reason.CLIENT_LEFT)

    def client_paused(self) -> None:
        """The client does not take what is sent: read nothing more from the engine."""
        if self._state == DISPATCHED and self._upstream is not None and not self._patience.stalled_at:
            self._patience.stalled_at = self._clock()
            self._upstream.pause()

    def client_resumed(self) -> None:
        """The client reads again."""
        self._count_stall()
        if self._upstream is not None:
            self._upstream.resume()

    def check(self, now: float, timeouts: Timeouts) -> None:
        """Called a few times a second: end what takes longer than the policy allows."""
        if self._state != DISPATCHED:
            return
        reading, reason = self._reading, self._patience.overdue(now, timeouts)
        if reading is not None and reading.whole_but_for_framing and self._patience.framing_is_late(now):
            self._complete(reading, b"")
        elif reason is Reason.TOTAL_TIMEOUT:
            self._break(reason)  # another attempt would be late from the start
        elif reason is Reason.SLOW_CLIENT:
            self._abandon(reason)
            self._client.break_off(hard=True)
        elif reason is not None:
            self._attempt_failed(reason)

    def connected(self, upstream: UpstreamConnection) -> None:
        """The dialled connection stands."""
        if self._state == DISPATCHED and self._dial is not None:
            self._dial = None
            return self._send(upstream)
        return upstream.abort()

    def not_connected(self) -> None:
        """Dialling failed."""
        if self._state == DISPATCHED and self._dial is not None:
            self._dial = None
            self._attempt_failed(Reason.CONNECT_FAILED)

    def interim(self, head: AnswerHead) -> None:
        """A 1xx answer of the engine goes on."""
        if self._attempt is not None:
            self._writer.interim(head.lines(self._attempt.drop_answer_headers, ()))

    def received(self, upstream: UpstreamConnection, body: bytes) -> None:
        """More of the engine's answer. This is the path that every event takes."""
        if self._state != DISPATCHED or upstream is not self._upstream:
            upstream.abort()
            return
        reading = self._reading
        if reading is None and (reading := self._begin(upstream)) is None:
            return
        if body:
            self._patience.last_read_at = self._clock()
            scanner = reading.scanner
            if scanner is None:
                reading.add(body)
            else:
                body = scanner.feed(body)
                if scanner.error is not None and self._failed_early(scanner.error):
                    return
                if scanner.new_tokens and not self._count_tokens(reading, scanner.new_tokens):
                    return
        if upstream.complete:
            self._complete(reading, body)
        elif body:
            self._writer.pass_on(body)

    def lost(self, upstream: UpstreamConnection, reason: Reason) -> None:
        """The engine's connection broke before its answer was complete."""
        if self._state != DISPATCHED or upstream is not self._upstream:
            return
        reading = self._reading
        if reading is not None and reading.whole_but_for_framing:
            self._complete(reading, b"")
        elif upstream.num_served and not upstream.got_bytes and not self._retried_stale and self._attempt is not None:
            self._retried_stale = True  # the engine closed an idle connection while we took it: nobody's failure
            self._upstream, self._patience.sent = None, False
            self.phase = _CONNECT
            self._dial = self._upstreams.origin(self._attempt.replica).dial(self)
        else:
            self._attempt_failed(reason)

    def _send(self, upstream: UpstreamConnection) -> None:
        self._upstream = upstream
        self.phase = _PREFILL
        self._patience.sent = True
        changed = self._attempt.body if self._attempt is not None else None
        body = self.request.body if changed is None else changed
        upstream.send(self, self._head, body, head_only=self.request.method == b"HEAD")
        if self._client.paused:
            self.client_paused()

    def _begin(self, upstream: UpstreamConnection) -> Reading | None:
        """The engine's head is there; None where it ended the attempt."""
        head, attempt = upstream.head, self._attempt
        if head is None or attempt is None:
            return None
        if (fault := engine_fault(head.status)) is not None:
            self._attempt_failed(fault, head.retry_after)
            return None
        reading = Reading(head, attempt)
        self._announce(head, attempt, reading)
        return reading

    def _announce(self, head: AnswerHead, attempt: Attempt, reading: Reading) -> None:
        """The client's head waits for the first body bytes."""
        self._status, self._reading = head.status, reading
        lines = head.lines(attempt.drop_answer_headers, attempt.add_answer_headers)
        if not head.has_date:
            lines += self._client.date()
        self._writer.begin(lines, length=reading.length, has_body=head.has_body)

    def _count_tokens(self, reading: Reading, num: int) -> bool:
        """Whether it goes on: a call to the driver may evict it."""
        tokens, at = reading.tokens, self._patience.last_read_at
        tokens.tokens(at, num)
        if self.phase is not _DECODE:
            self.phase = _DECODE
            self._first_token(at)
        if tokens.num_tokens > reading.limit and reading.outgrown():
            self._hands.outgrown(self, tokens.num_tokens, at)
        return self._state == DISPATCHED

    def _first_token(self, at: float) -> None:
        self._hands.first_token(self, at)

    def _failed_early(self, error: int) -> bool:
        """Whether it is an error before any byte reached the client; asked before tokens that came with it count."""
        is_early = not (self._writer.started or 400 <= error < 500)
        if is_early:
            self._attempt_failed(Reason.ENGINE_ERROR)
        return is_early

    def _complete(self, reading: Reading, body: bytes) -> None:
        """The engine's answer is whole: settle first, then let the client have the end."""
        if (scanner := reading.scanner) is not None:
            body += scanner.finish()
            if scanner.error is not None and self._failed_early(scanner.error):
                return
            if reading.cut_short:
                self._attempt_failed(Reason.CONNECTION_LOST)
                return
            if scanner.new_tokens and not self._count_tokens(reading, scanner.new_tokens):
                return
        self._let_go()
        try:
            self._end(*reading.verdict())
        finally:  # a fault in the books is told to the event loop; the client has its answer all the same
            self._writer.end(body)
            self._client.over()

    def _attempt_failed(self, reason: Reason, retry_after: float = 0.0) -> None:
        """The attempt is over: the driver may try again where no token was seen, else the answer breaks."""
        if self._writer.started or self.phase is _DECODE:
            self._break(reason)
            return
        self._let_go()
        self._state, self._status = WAITING, 0
        self._hands.attempt_failed(self, reason, retry_after, self._clock())

    def _break(self, reason: Reason, outcome: Outcome = Outcome.FAILED) -> None:
        """End it badly, visibly for the client: an error answer, an error event, or a connection that breaks."""
        self._let_go()
        self._end(outcome, reason)
        if not self._writer.started:
            respond(self._client, self.request, self._hands.failure(self, reason))
            self._client.over()
            return
        is_stream = self._reading is not None and self._reading.scanner is not None
        if is_stream:
            self._writer.pass_on(self._hands.failure_event(self, reason))
        self._client.break_off(hard=self._writer.ends_by_closing and not is_stream)

    def _abandon(self, reason: Reason) -> None:
        """The client is lost: stop the engine and say so."""
        if self._state == WAITING:
            self._state = OVER
            self._hands.client_left(self, self._clock())
        elif self._state == DISPATCHED:
            self._let_go()
            self._end(Outcome.ABORTED, reason)

    def _let_go(self) -> None:
        """Give the engine's connection up: back to the pool if its answer is complete, else closed."""
        if self._dial is not None:
            dial, self._dial = self._dial, None
            dial.cancel()
        if self._upstream is not None:
            upstream, self._upstream = self._upstream, None
            self._path = upstream.path()
            if upstream.complete:
                upstream.release()
            else:
                upstream.abort()

    def _count_stall(self) -> None:
        if self._patience.stalled_at and self._attempt is not None:
            self._attempt.tokens.stall(self._patience.stalled_for(self._clock()))

    def _end(self, outcome: Outcome, reason: Reason) -> None:
        self._state = OVER
        self._count_stall()
        phase = _NO_PHASE if outcome is _COMPLETED else self.phase
        usage = self._reading.usage() if self._reading is not None else Usage()
        end = Ended(self._clock(), outcome, reason, phase=phase, status=self._status, usage=usage)
        end.engine_path, end.client_path = self._path, self._client.path()
        self._hands.ended(self, end)

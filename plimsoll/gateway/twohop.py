"""Prefill on one engine, decode on another: the protocol of vLLM's KV connectors (NIXL and those like it).

First the request goes to the engine that computes prompts, asking for one token, no stream, and a cache that somebody
else will take over (`kv_transfer_params` with `do_remote_decode`). Its answer tells under the same key where the cache
lies; with that the request goes, otherwise as the client sent it, to the engine that decodes. Both carry the same
X-Request-Id, by which the engines know that they belong together. Where the first hop fails, or tells nothing to take
over, the second engine gets the request as it came and computes the prompt itself.
"""

import msgspec

from plimsoll.gateway.counts import Prefilled
from plimsoll.gateway.exchange import DISPATCHED, WAITING
from plimsoll.gateway.hands import Attempt, Usage
from plimsoll.gateway.headers import forwarded_head
from plimsoll.gateway.hedging import RacingExchange
from plimsoll.gateway.origin import Origin
from plimsoll.gateway.patches import put
from plimsoll.gateway.reading import engine_fault
from plimsoll.gateway.siderequest import SideRequest
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.gateway.usage import last_usage, read_usage
from plimsoll.slo.outcome import Phase, Reason

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of a first hop's answer: block ids of a long prompt are tens of thousands of numbers. Tests shorten it."""
_decoder = msgspec.json.Decoder(Prefilled)
_PREFILL = Phase.PREFILL


class Hop(SideRequest):
    """The request to the engine that computes the prompt."""

    def __init__(self, exchange: "TwoHopExchange", attempt: Attempt, origin: Origin, head: bytes, body: bytes) -> None:
        super().__init__(attempt, origin, head, body)
        self._exchange = exchange
        self._parts: list[bytes] = []
        self._size = 0

    def sent(self) -> None:
        """See `SideRequest`."""
        self._exchange.hop_sent()

    def answered(self, upstream: UpstreamConnection, body: bytes) -> None:
        """See `SideRequest`."""
        head = upstream.head
        if head is None:
            return
        if head.status != 200:
            self.failed(engine_fault(head.status) or Reason.ENGINE_ERROR, head.retry_after)
            return
        self._parts.append(body)
        self._size += len(body)
        if self._size > MAX_ANSWER:
            self.failed(Reason.BAD_UPSTREAM, 0.0)
        elif upstream.complete:
            self.upstream = None
            upstream.release()
            answer = b"".join(self._parts)
            params = transfer_params(answer)
            if params:
                self._exchange.prefilled(self, params, read_usage(last_usage(answer)))
            else:
                self.failed(Reason.BAD_UPSTREAM, 0.0)

    def failed(self, reason: Reason, retry_after: float) -> None:
        """See `SideRequest`."""
        self._exchange.hop_failed(self, reason, retry_after)


class TwoHopExchange(RacingExchange):
    """An exchange whose prompt may be computed elsewhere; costs the others nothing."""

    _hop: Hop | None = None

    def forward(self, attempt: Attempt) -> None:
        """See `Exchange`."""
        first = attempt.prefill
        if first is None or self._state != WAITING:
            super().forward(attempt)
            return
        self._state, self.phase = DISPATCHED, _PREFILL
        self._attempt = attempt
        self._patience.attempt(self._clock())
        self._reading = None
        origin = self._upstreams.origin(first.replica)
        head = forwarded_head(self.request, first, origin.host, origin.prefix)
        hop = self._hop = Hop(self, first, origin, head, first.body or b"")
        hop.start()

    def hop_sent(self) -> None:
        """The first hop's request is with its engine."""
        self._patience.sent = True

    def prefilled(self, hop: Hop, params: bytes, told: Usage) -> None:
        """The prompt is computed; `params` say where its cache lies, `told` what of it was cached before."""
        attempt = self._attempt
        if hop is not self._hop or attempt is None:
            return
        self._hop = None
        attempt.first_told = told
        attempt.body = put(self.request.body if attempt.body is None else attempt.body, "kv_transfer_params", params)
        self._decode(attempt)

    def hop_failed(self, hop: Hop, reason: Reason, retry_after: float) -> None:
        """The prompt is not computed there: the engine that decodes does it."""
        attempt = self._attempt
        if hop is not self._hop or attempt is None:
            return
        self._hop = None
        hop.drop()
        self._hands.prefill_failed(self, reason, retry_after, self._clock())
        if self._state == DISPATCHED:
            self._decode(attempt)

    def _decode(self, attempt: Attempt) -> None:
        self._state = WAITING
        super().forward(attempt)

    def _attempt_failed(self, reason: Reason, retry_after: float = 0.0) -> None:
        hop = self._hop
        if hop is not None:  # what took too long was the first hop
            self.hop_failed(hop, reason, retry_after)
            return
        super()._attempt_failed(reason, retry_after)

    def _leave_first(self) -> None:
        self._drop_hop()
        super()._leave_first()

    def _let_go(self) -> None:
        self._drop_hop()
        super()._let_go()

    def _drop_hop(self) -> None:
        hop, self._hop = self._hop, None
        if hop is not None:
            hop.drop()


def transfer_params(answer: bytes) -> bytes:
    """The `kv_transfer_params` object of a first hop's answer, as it stands; b"" where there is none."""
    try:
        told = bytes(_decoder.decode(answer).kv_transfer_params)
    except msgspec.DecodeError:
        return b""
    return told if told.startswith(b"{") and told != b"{}" else b""

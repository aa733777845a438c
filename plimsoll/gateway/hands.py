"""The seam between the HTTP data path and the driver: what they call on each other, and what they hand over.

The data path (`server`, `exchange`, `upstream`, `stream`) knows HTTP and nothing of tenants. The driver knows tenants,
the governor and the journal, and nothing of sockets. Every call is synchronous, on one event loop. Reading order of one
request:

    hands.head_read(request)          only before a large or unsized body, or for `Expect: 100-continue`
    hands.request(exchange)           the request is whole
      exchange.answer(...)            the driver answers by itself: refusals, /healthz …  (the exchange is over), or
      exchange.forward(attempt)       it goes to a replica
        hands.attempt_failed(...)     no byte has reached the client: forward again or answer, now or later
      exchange.hint(fields)           the client is told something before its answer
      exchange.hedge(attempt)         a second replica is tried beside the first, until either shows a token
        hands.hedge_failed(...)       the second came to nothing
        hands.first_token(...)        before that token is passed on
        hands.outgrown(...)           the output passed its reservation, and at each doubling
        hands.ended(...)              once, BEFORE the last bytes are forwarded: settle and journal first
    hands.client_left(exchange, at)   instead of all that follows, while nothing is dispatched

After `ended` or `client_left` nothing more is called for that exchange. After `answer`, `ended` or `client_left` any
`answer`, `forward` or `evict` of the driver is ignored, so that a late decision needs no check.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from plimsoll.governor.events import Endpoint
from plimsoll.slo.outcome import Outcome, Phase, Reason

Clock = Callable[[], float]
"""UTC epoch seconds, never stepping back: the one source of instants for the data path and the driver."""

Headers = Sequence[tuple[bytes, bytes]]
"""Header fields in order; names in any case unless said otherwise."""


class ClientRequest:
    """A client's request. Header names are in lower case."""

    __slots__ = ("arrived_at", "body", "fields", "headers", "method", "peer", "read_at", "target", "version")

    def __init__(self, arrived_at: float, peer: str) -> None:
        self.arrived_at = arrived_at  # first byte of it read
        self.read_at = arrived_at  # last byte of it read
        self.peer = peer  # address of the client, "" where not known
        self.method = b""
        self.target = b""  # path and query as sent
        self.version = b"1.1"
        self.headers: list[tuple[bytes, bytes]] = []  # in order, as often as sent
        self.fields: dict[bytes, bytes] = {}  # name -> value; repeated ones joined by ", "
        self.body: bytes = b""

    def header(self, name: bytes) -> bytes:
        """The value of the header of that lower-case name; b"" where the client sent none."""
        return self.fields.get(name, b"")


class Answer:
    """A whole answer made by us. Date, Content-Length and Connection are added by the data path."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body


class TokenSink(Protocol):
    """What the data path needs of `slo.timing.TokenClock`."""

    @property
    def num_tokens(self) -> int:
        """Tokens counted so far."""

    def tokens(self, at: float, num: int) -> None:
        """`num` output tokens were read from the engine in one event at that instant."""

    def stall(self, seconds: float) -> None:
        """The client took nothing for so long while bytes waited for it."""


class Attempt:
    """One try at one replica: where to, what to send, what to watch for.

    The request's own bytes go out where `target` and `body` are None. Hop-by-hop headers, Host, Content-Length,
    Accept-Encoding and Expect are the data path's; `drop_headers` (lower-case names) and `add_headers` change the rest.
    """

    __slots__ = (
        "add_answer_headers",
        "add_headers",
        "body",
        "drop_answer_headers",
        "drop_headers",
        "endpoint",
        "first_told",
        "hide_usage",
        "prefill",
        "replica",
        "reserved_output_tokens",
        "streaming",
        "target",
        "tokens",
    )

    def __init__(
        self,
        replica: str,
        tokens: TokenSink,
        endpoint: Endpoint = Endpoint.OTHER,
        *,
        streaming: bool = False,
        target: bytes | None = None,
        body: bytes | None = None,
        drop_headers: frozenset[bytes] = frozenset(),
        add_headers: Headers = (),
        drop_answer_headers: frozenset[bytes] = frozenset(),
        add_answer_headers: Headers = (),
        reserved_output_tokens: int = 0,
        hide_usage: bool = False,
        prefill: "Attempt | None" = None,
    ) -> None:
        self.replica = replica  # base URL, e.g. "http://10.0.0.1:8000"; a path in it is put before the target's
        self.tokens = tokens  # may be shared by all attempts of a request: a failed one has produced no token
        self.endpoint = endpoint
        self.streaming = streaming  # the client asked for a stream
        self.target = target
        self.body = body
        self.drop_headers = drop_headers
        self.add_headers = add_headers
        self.drop_answer_headers = drop_answer_headers
        self.add_answer_headers = add_answer_headers
        self.reserved_output_tokens = reserved_output_tokens  # 0: nothing was reserved, `outgrown` is never called
        self.prefill = prefill  # what goes to the engine that computes the prompt first; None: nothing does
        self.first_told: Usage | None = None  # by the engine that computed the prompt: what it had cached is true
        self.hide_usage = hide_usage  # the client did not ask for the stream's usage event: take it out


Path = tuple[float | None, int | None]
"""A connection as the kernel has it when a request ends: round trip in s, segments sent again during the request."""
NO_PATH: Final[Path] = (None, None)


Drafts = tuple[int | None, int | None]
"""Tokens that a draft guessed for an answer, and how many of them were accepted, as the engine told."""
NO_DRAFTS: Final[Drafts] = (None, None)


class Usage:
    """Token counts as the engine told them; None is "did not say", which is not zero."""

    __slots__ = ("cached_tokens", "drafts", "output_tokens", "prompt_tokens")

    def __init__(
        self, prompt_tokens: int | None = None, output_tokens: int | None = None, cached_tokens: int | None = None
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.drafts: Drafts = NO_DRAFTS


class Ended:
    """How a dispatched request ended: completed, failed, aborted or evicted."""

    __slots__ = ("at", "client_path", "engine_path", "outcome", "phase", "reason", "status", "usage")

    def __init__(
        self,
        at: float,
        outcome: Outcome,
        reason: Reason,
        *,
        phase: Phase,
        status: int,
        usage: Usage,
        engine_path: Path = NO_PATH,
        client_path: Path = NO_PATH,
    ) -> None:
        self.at = at
        self.outcome = outcome
        self.reason = reason
        self.phase = phase  # where it struck; NONE for completed
        self.status = status  # the engine's; 0 where no head came
        self.usage = usage
        self.engine_path = engine_path
        self.client_path = client_path


class Exchange(Protocol):
    """One request and its answer, as the driver sees it."""

    request: ClientRequest
    context: object  # the driver's own; the data path only sets it to None when all is over

    @property
    def phase(self) -> Phase:
        """Where the request is now: queue until forwarded, then connect, prefill, decode."""

    @property
    def open(self) -> bool:
        """Whether `answer` or `forward` would still do something."""

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        """Answer it and end the exchange; only while nothing is dispatched."""

    def forward(self, attempt: Attempt) -> None:
        """Send it to a replica; only while no other attempt runs and no byte has reached the client."""

    def hedge(self, attempt: Attempt) -> None:
        """Send it to a second replica beside the first, as long as no byte has reached the client."""

    def hint(self, fields: Headers) -> None:
        """Tell an HTTP/1.1 client that before its answer (103), as long as no byte of that has been sent."""

    def evict(self, reason: Reason) -> None:
        """End it after dispatch: the engine's connection is closed and `ended` is called within this call."""


class Hands(Protocol):
    """What the driver does when the data path reports."""

    def head_read(self, request: ClientRequest) -> Answer | None:
        """May this body be read? An Answer refuses without reading it (unknown key); None goes on. `body` is empty."""

    def request(self, exchange: Exchange) -> None:
        """A whole request; the driver answers or forwards, now or later."""

    def client_left(self, exchange: Exchange, at: float) -> None:
        """The client went away while nothing was dispatched."""

    def first_token(self, exchange: Exchange, at: float, *, hedge: bool = False) -> None:
        """The first output token was read; it is passed on after this returns. Streams only.

        `hedge`: by the second attempt of two. Whichever it was not is over, its connection closed.
        """

    def hedge_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """The second attempt of two is over without a token (`hedged`: it was never sent); the first goes on."""

    def prefill_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """The engine that should compute the prompt did not: the attempt's replica does both."""

    def outgrown(self, exchange: Exchange, tokens: int, at: float) -> None:
        """The output passed its reservation (and again at each doubling)."""

    def attempt_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """The attempt is over, no byte has reached the client. `retry_after` s as the engine asked, 0: it did not."""

    def ended(self, exchange: Exchange, end: Ended) -> None:
        """It is over; the last bytes go to the client after this returns."""

    def refusal(self, request: ClientRequest, reason: Reason, at: float) -> Answer:
        """The data path refuses what never became a whole request (malformed, too large, too slow): count it, word it.

        `request` holds what was understood so far. The connection is closed after the answer.
        """

    def failure(self, exchange: Exchange, reason: Reason) -> Answer:
        """Words for a request that `ended` badly before any byte reached the client (total timeout, evicted)."""

    def failure_event(self, exchange: Exchange, reason: Reason) -> bytes:
        """The error event, in the endpoint's own shape, for a stream that breaks; it ends with a blank line."""

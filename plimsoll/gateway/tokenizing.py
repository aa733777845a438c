"""A prompt's token ids, behind its chat template, asked of an engine that serves its model: vLLM's `POST /tokenize`.

It takes the body of a chat or completion request as it is and passes over what it does not know, so the client's own
bytes go out. `tokenids` reads the answer.
"""

from collections.abc import Callable
from typing import Final

from plimsoll.gateway.hands import Attempt, Headers
from plimsoll.gateway.origin import Origin
from plimsoll.gateway.siderequest import SideRequest
from plimsoll.gateway.tokenids import Tokens, read_tokens
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.slo.outcome import Reason
from plimsoll.slo.timing import TokenClock

PATH: Final = b"/tokenize"
LARGEST_ANSWER: Final = 16 * 1024 * 1024  # bytes; more is no tokens


NO_ATTEMPT: Final = Attempt("", TokenClock(()))


Answered = Callable[[Tokens | None, str], None]
"""(tokens, why there are none)"""


class Question(SideRequest):
    """One prompt's."""

    def __init__(self, origin: Origin, headers: Headers, body: bytes, answered: Answered) -> None:
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        head = (
            b"POST %b%b HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\ncontent-type: application/json\r\n%b"
            b"content-length: %d\r\n\r\n" % (origin.prefix, PATH, origin.host, lines, len(body))
        )
        super().__init__(NO_ATTEMPT, origin, head, body)
        self._told = answered
        self._parts: list[bytes] = []
        self._size = 0

    def answered(self, upstream: UpstreamConnection, body: bytes) -> None:
        """See `SideRequest`."""
        head = upstream.head
        if head is None:
            return
        self._parts.append(body)
        self._size += len(body)
        if self._size > LARGEST_ANSWER:
            self._end(None, f"{self._size} bytes of answer")
        elif upstream.complete:
            self.upstream = None
            upstream.release()
            if head.status == 200:
                tokens = read_tokens(b"".join(self._parts))
                self._end(tokens, "" if tokens is not None else "no list of token ids in its answer")
            else:
                self._end(None, f"status {head.status}")

    def failed(self, reason: Reason, retry_after: float) -> None:
        """See `SideRequest`."""
        self._end(None, reason.value)

    def _end(self, tokens: Tokens | None, why: str) -> None:
        self.drop()
        self._told(tokens, why)

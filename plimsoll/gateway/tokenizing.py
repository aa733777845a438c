"""A prompt's token ids, behind its chat template, asked of an engine that serves its model: vLLM's `POST /tokenize`.

It takes the body of a chat or completion request as it is and passes over what it does not know, so the client's own
bytes go out. Answers are read as far as `MOST_ANSWER`: what is beyond would hold up others' tokens.
"""

from array import array
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.gateway.hands import Attempt, Headers
from plimsoll.gateway.origin import Origin
from plimsoll.gateway.siderequest import SideRequest
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.slo.outcome import Reason
from plimsoll.slo.timing import TokenClock

PATH: Final = b"/tokenize"
MOST_ANSWER: Final = 256 * 1024  # bytes of an answer that are read: some 40,000 tokens, 2 ms
LARGEST_ANSWER: Final = 16 * 1024 * 1024  # bytes; more is no tokens
_TOKENS: Final = b'"tokens":'


class _Answer(Struct):
    count: int
    tokens: list[int]


_whole: Final = msgspec.json.Decoder(_Answer)
_ids: Final = msgspec.json.Decoder(list[int])
NO_ATTEMPT: Final = Attempt("", TokenClock(()))


class Tokens:
    """Of one prompt: how many there are, and the ids of the first of them, or of all."""

    __slots__ = ("count", "ids")

    def __init__(self, count: int, ids: "array[int]") -> None:
        self.count = count
        self.ids = ids


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


def read_tokens(answer: bytes) -> Tokens | None:
    """The token ids in an answer, the first of them where there are many; None where it holds none."""
    try:
        if len(answer) <= MOST_ANSWER:
            told = _whole.decode(answer)
            return Tokens(max(told.count, len(told.tokens)), array("I", told.tokens))
        start = answer.index(_TOKENS) + len(_TOKENS)
        stop = answer.rindex(b",", start, start + MOST_ANSWER)
        if b"]" in answer[start:stop]:
            return None  # the rest is something else: texts of tokens, which nobody asked for
        count = answer.count(b",", start, answer.index(b"]", stop)) + 1
        return Tokens(count, array("I", _ids.decode(answer[start:stop] + b"]")))
    except (msgspec.MsgspecError, OverflowError, ValueError):
        return None

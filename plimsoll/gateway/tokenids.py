"""What an engine answers that was asked for a prompt's tokens: as far as `MOST_ANSWER`, beyond which reading it would
hold up others' tokens."""

from array import array
from typing import Final

import msgspec
from msgspec import Struct

MOST_ANSWER: Final = 256 * 1024  # bytes that are read: some 40,000 tokens, about a millisecond
_TOKENS: Final = b'"tokens":'


class _Answer(Struct):
    count: int
    tokens: list[int]


_whole: Final = msgspec.json.Decoder(_Answer)
_ids: Final = msgspec.json.Decoder(list[int])


class Tokens:
    """Of one prompt: how many there are, and the ids of the first of them, or of all."""

    __slots__ = ("count", "ids")

    def __init__(self, count: int, ids: "array[int]") -> None:
        self.count = count
        self.ids = ids


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

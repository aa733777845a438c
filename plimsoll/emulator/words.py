"""What an emulated engine says: plain words, one a token, the same for the same request."""

from typing import Final

_SENTENCE: Final = (
    "the ship was laden to her marks and the harbour master walked along the quay with his lamp to see that no "
    "line lay under water for in winter on the north atlantic a hull must ride higher than in summer and fresh "
    "water bears less than salt so every mark has its own letter and every captain knows which one holds today"
)
WORDS: Final = tuple(f" {word}" for word in _SENTENCE.split())
"""Each begins with a space, as tokens of byte-pair vocabularies do."""


def word(seed: int, position: int) -> str:
    """The token at `position` of an answer; `seed` makes different answers begin at different words."""
    return WORDS[(seed + position) % len(WORDS)]


def text(seed: int, num: int) -> str:
    """The first `num` tokens of an answer."""
    return "".join(word(seed, position) for position in range(num))

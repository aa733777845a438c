"""How long a prompt is before anybody has tokenised it, and which beginnings it shares with others.

Tokens are estimated from bytes by a ratio that is learnt, model by model, from what engines report afterwards.
Prefixes are hashed over the bytes of the prompt's JSON: engines cache by token, and equal bytes are equal tokens.
"""

import zlib
from typing import Final

from xxhash import xxh3_64

FIRST_RATIO: Final = 4.0  # bytes a token, English text in today's vocabularies; the learnt ratio replaces it
FIRST_WEIGHT: Final = 500.0  # tokens that the first guess is worth
MEMORY: Final = 200_000.0  # tokens after which older ones count half or less
MAX_HASHES: Final = 16
BLOCK_BYTES: Final = 2048  # the smallest block, about 512 tokens
ESCAPE_SAMPLE: Final = 4096  # bytes looked at for \\u escapes
MEDIA_TOKENS: Final = 1024  # an image or sound, before the engine has told
LARGEST_RATIO: Final = 64.0
ENTROPY_SAMPLE: Final = 1024  # bytes of a body
ENTROPY_LEAST: Final = 256


def entropy(body: bytes) -> float | None:
    """Bits a byte that a sample from a body's middle needs once what repeats in it is told once (deflate, RFC 1951).

    Text has 4 to 5, a text that repeats itself below 2. Nothing of the text is kept. None: too short to say.
    """
    if len(body) < ENTROPY_LEAST:
        return None
    start = max(0, (len(body) - ENTROPY_SAMPLE) // 2)
    sample = body[start : start + ENTROPY_SAMPLE]
    packer = zlib.compressobj(1, zlib.DEFLATED, -10, 3)  # a small window: 20 µs where zlib's usual takes 130
    return 8.0 * (len(packer.compress(sample)) + len(packer.flush())) / len(sample)


class TokenRatio:
    """Bytes of prompt JSON a token, learnt for one model: a weighted mean that forgets slowly."""

    __slots__ = ("_bytes", "_tokens")

    def __init__(self) -> None:
        self._bytes = FIRST_RATIO * FIRST_WEIGHT
        self._tokens = FIRST_WEIGHT

    @property
    def bytes_per_token(self) -> float:
        """The ratio as it stands."""
        return self._bytes / self._tokens

    def estimate(self, num_bytes: float) -> int:
        """Tokens of that many bytes, at least one."""
        return int(num_bytes * self._tokens / self._bytes) + 1

    def learn(self, num_bytes: float, tokens: int) -> None:
        """An engine counted `tokens` in a prompt of `num_bytes`."""
        if not tokens <= num_bytes <= LARGEST_RATIO * tokens or tokens <= 0:
            return  # nothing learnt from media, templates around short prompts, caches that count otherwise, nonsense
        keep = max(0.5, 1.0 - tokens / MEMORY)
        self._bytes = self._bytes * keep + num_bytes
        self._tokens = self._tokens * keep + tokens


def text_bytes(data: bytes, start: int, end: int) -> float:
    """UTF-8 bytes that a piece of JSON stands for, nearly: a \\uXXXX escape is six bytes for about three."""
    num = end - start
    sampled = min(num, ESCAPE_SAMPLE)
    if data.find(b"\\u", start, start + sampled) < 0:
        return float(num)
    return num - 3.0 * data.count(b"\\u", start, start + sampled) * (num / sampled)


def prefix_hashes(data: bytes, start: int, end: int) -> tuple[tuple[int, ...], int]:
    """At most 16 chained hashes of the beginnings of data[start:end], and the bytes that each block holds.

    Hash i covers all bytes up to the end of block i. Blocks double in size until 16 cover the prompt; as each hash
    covers everything before it, those of prompts with different block sizes agree wherever their ends do.
    """
    num_bytes = end - start
    if num_bytes < BLOCK_BYTES:
        return (), BLOCK_BYTES
    size = BLOCK_BYTES
    while num_bytes >= (MAX_HASHES + 1) * size:
        size *= 2
    view = memoryview(data)[start:end]
    running, hashes = xxh3_64(), []
    for stop in range(size, num_bytes + 1, size):
        running.update(view[stop - size : stop])
        hashes.append(running.intdigest() >> 1)  # 63 bits: a whole number that every language can hold
    return tuple(hashes), size

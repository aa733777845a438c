"""KV blocks: how many a request needs, and the chained hashes by which prefixes are recognised."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

_MASK = (1 << 64) - 1


def blocks_for(tokens: int, block_size: int) -> int:
    """KV blocks that hold `tokens` tokens."""
    return -(-tokens // block_size)


def blocks_reserved(prompt_tokens: int, output_tokens: int, num_choices: int, block_size: int) -> int:
    """Blocks of a request with `num_choices` outputs of at most `output_tokens`; nothing is taken as shared."""
    return num_choices * blocks_for(prompt_tokens + output_tokens, block_size)


def _mix(value: int) -> int:
    """A 64-bit finaliser (the constants are those of splitmix64): every input bit moves every output bit."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def chain(parent: int, content: int) -> int:
    """The hash of a block whose prefix hashes to `parent`; equal results mean equal prefixes up to here."""
    return _mix(parent ^ _mix(content & _MASK))


def hash_tokens(tokens: Sequence[int], block_tokens: int, seed: int = 0) -> tuple[int, ...]:
    """Chained hashes of the full blocks of a list of token ids; the last, partial block has none."""
    return _chained((tuple(tokens[i : i + block_tokens]) for i in _starts(len(tokens), block_tokens)), seed)


def hash_bytes(text: bytes, block_bytes: int, seed: int = 0) -> tuple[int, ...]:
    """Chained hashes of the full blocks of a text, `block_bytes` at a time; the same on every run and machine."""
    return _chained((text[i : i + block_bytes] for i in _starts(len(text), block_bytes)), seed)


def _starts(length: int, block: int) -> range:
    return range(0, length - block + 1, block)


def _chained(blocks: Iterable[bytes | tuple[int, ...]], seed: int) -> tuple[int, ...]:
    hashes, parent = [], _mix(seed)
    for block in blocks:
        parent = chain(parent, _digest(block))
        hashes.append(parent)
    return tuple(hashes)


def _digest(block: bytes | tuple[int, ...]) -> int:
    data = block if isinstance(block, bytes) else b"".join(token.to_bytes(8, "little", signed=True) for token in block)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def agreement(first: tuple[object, ...], second: tuple[object, ...], low: int, high: int) -> int:
    """Up to where two prompts have the same chained hashes, at least `low`, which is known, and at most `high`.

    By bisection: who agrees at a place agrees before it.
    """
    if low >= high or first is second or first[high - 1] == second[high - 1]:
        return max(low, high)
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        if first[middle - 1] == second[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low

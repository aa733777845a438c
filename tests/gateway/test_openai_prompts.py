"""Prompt sizes and beginnings: hashes agree exactly where bytes agree, ratios follow what engines count."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.prompts import BLOCK_BYTES, MAX_HASHES, TokenRatio, prefix_hashes, text_bytes


@given(st.integers(0, 600_000), st.integers(0, 255))
def test_blocks_cover_the_prompt_and_are_few(size: int, fill: int) -> None:
    hashes, block = prefix_hashes(b"head" + bytes([fill]) * size, 4, 4 + size)
    assert len(hashes) <= MAX_HASHES
    assert len(hashes) == min(len(hashes), size // block)
    assert block == BLOCK_BYTES or len(hashes) >= MAX_HASHES // 2
    assert size - len(hashes) * block < block


@given(st.integers(0, 1 << 32), st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
def test_hashes_agree_exactly_where_bytes_do(seed: int, shared: int, left: int, right: int) -> None:
    make = Random(seed).randbytes
    start = make(shared * BLOCK_BYTES)
    one = start + b"a" + make(left * BLOCK_BYTES)
    two = start + b"b" + make(right * BLOCK_BYTES)
    hashes_one, size_one = prefix_hashes(one, 0, len(one))
    hashes_two, size_two = prefix_hashes(two, 0, len(two))
    common = set(hashes_one) & set(hashes_two)
    step = max(size_one, size_two)
    ends = len(start) // step
    assert len(common) == min(ends, len(hashes_one) * size_one // step, len(hashes_two) * size_two // step)


@given(st.lists(st.tuples(st.integers(100, 100_000), st.floats(1.0, 8.0)), min_size=1, max_size=50))
def test_the_ratio_stays_within_what_was_seen(seen: list[tuple[int, float]]) -> None:
    ratio = TokenRatio()
    for tokens, bytes_per_token in seen:
        ratio.learn(tokens * bytes_per_token, tokens)
    bounds = [4.0, *(b for _, b in seen)]
    assert min(bounds) - 1e-6 <= ratio.bytes_per_token <= max(bounds) + 1e-6


def test_a_steady_ratio_is_learnt_and_nonsense_is_not() -> None:
    ratio = TokenRatio()
    for _ in range(200):
        ratio.learn(3000, 1000)
    assert abs(ratio.estimate(30_000) - 10_000) < 150
    before = ratio.bytes_per_token
    ratio.learn(1_000_000, 10)
    ratio.learn(1000, 0)
    ratio.learn(1000, 1001)  # a token is a byte at least
    ratio.learn(1000, -1)
    assert ratio.bytes_per_token == before


def test_escapes_count_as_what_they_stand_for() -> None:
    plain = "你好世界" * 100
    escaped = plain.encode("ascii", "backslashreplace")
    assert abs(text_bytes(escaped, 0, len(escaped)) - len(plain.encode())) < 0.05 * len(escaped)
    assert text_bytes(b"plain", 1, 5) == 4

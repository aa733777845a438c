"""Chained hashes: equal at i exactly when the prefixes up to block i are equal."""

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.engine.blocks import blocks_for, blocks_reserved, hash_bytes, hash_tokens

tokens = st.lists(st.integers(0, 3), max_size=40)


@given(tokens, tokens, st.integers(1, 5))
def test_equal_hashes_mean_equal_prefixes(left: list[int], right: list[int], block: int) -> None:
    ours, theirs = hash_tokens(left, block), hash_tokens(right, block)
    assert len(ours) == len(left) // block
    for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        end = (i + 1) * block
        assert (a == b) == (left[:end] == right[:end])


@given(st.binary(max_size=60), st.integers(1, 7))
def test_text_hashes_like_its_full_blocks(text: bytes, block: int) -> None:
    whole = hash_bytes(text, block)
    assert hash_bytes(text[: len(whole) * block], block) == whole
    assert all(0 <= value < 1 << 64 for value in whole)


def test_hashes_are_the_same_on_every_machine() -> None:
    assert hash_tokens([1, 2, 3, 4], 2) == hash_tokens((1, 2, 3, 4, 5), 2)
    assert hash_bytes(b"plimsoll", 4) == (17974237772810490094, 1272892073201438811)


def test_block_counts() -> None:
    assert [blocks_for(n, 16) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert blocks_reserved(prompt_tokens=30, output_tokens=3, num_choices=2, block_size=16) == 6

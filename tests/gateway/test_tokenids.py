"""An engine's word on a prompt's tokens: whole where it is short, its beginning where it is long, nothing otherwise."""

import json

import pytest

from plimsoll.gateway.tokenids import MOST_ANSWER, read_tokens


def answer(*tokens: int, **more: object) -> bytes:
    return json.dumps(
        {"count": len(tokens), "max_model_len": 8192, "tokens": tokens, "token_strs": None, **more}
    ).encode()


def test_a_short_answer_is_read_whole() -> None:
    told = read_tokens(answer(1, 22, 128_000))
    assert told is not None
    assert (told.count, told.ids.tolist()) == (3, [1, 22, 128_000])


@pytest.mark.parametrize("last", ["token_strs", "tokens"])
def test_of_a_long_one_the_beginning_is_read(last: str) -> None:
    tokens = [number * 7919 % 128_000 for number in range(100_000)]
    body = answer(*tokens)
    if last == "tokens":
        body = json.dumps({"max_model_len": 1, "count": len(tokens), "tokens": tokens}, separators=(",", ":")).encode()
    told = read_tokens(body)
    assert told is not None
    assert told.count == len(tokens)
    assert told.ids.tolist() == tokens[: len(told.ids)]
    assert 30_000 < len(told.ids) < 60_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", answer(-1), answer(1 << 40), b'{"count":1,"tokens":["a"]}', b'{"count":2,"tokens":null}',
        answer(1, 2, token_strs=["x" * MOST_ANSWER]), b" " * (MOST_ANSWER + 1), b'"tokens":' + b"1" * (MOST_ANSWER + 9),
        b'{"tokens":[' + b"x," * MOST_ANSWER + b"]}", b'{"tokens":[' + b"1," * MOST_ANSWER,
    ],
)  # fmt: skip
def test_anything_else_is_none(body: bytes) -> None:
    assert read_tokens(body) is None

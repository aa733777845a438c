"""The reader of events sees the same whatever the pieces are that a stream comes in."""

import itertools

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.load.events import EventReader, error_code
from tests.shared_data import data

STREAM = (
    b": comment\n\n"
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"a\\n\\n"}}]}\n\n'
    b'data: {"choices":[{"delta":{"reasoning_content":"b"}}]}\r\n\r\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    reader = EventReader()
    bounds = [0, *sorted(cuts), len(STREAM)]
    for at, (start, end) in enumerate(itertools.pairwise(bounds)):
        reader.feed(STREAM[start:end], float(at))
    assert len(reader.token_at) == 3
    assert list(reader.token_at) == sorted(reader.token_at)
    assert (reader.prompt_tokens, reader.output_tokens, reader.done, reader.error) == (7, 3, True, None)


def test_errors_in_a_stream() -> None:
    reader = EventReader()
    reader.feed(b'data: {"error":{"message":"m","type":"server_error","code":"connection_lost"}}\n\n', 1.0)
    assert (reader.error, reader.done) == ("connection_lost", False)
    assert error_code(b'{"error":{"message":"m","type":"server_error","code":null}}') == "server_error"
    assert error_code(b"<html>") == error_code(b"[]") == error_code(b'{"error":"text"}') == "error"


class _Body:
    """Takes the body out of a recorded answer."""

    def __init__(self, answer: bytes) -> None:
        self.pieces: list[bytes] = []
        httptools.HttpResponseParser(self).feed_data(answer)

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)


@pytest.mark.parametrize("engine", ["llamacpp", "vllm-cpu"])
@pytest.mark.parametrize(("api", "num_tokens"), [("chat", 12), ("completions", 8)])
def test_recorded_streams_of_real_engines(engine: str, api: str, num_tokens: int) -> None:
    reader = EventReader()
    for piece in _Body((data() / "engine-streams" / f"{engine}-{api}-stream.http").read_bytes()).pieces:
        reader.feed(piece, 1.0)
    assert (len(reader.token_at), reader.output_tokens, reader.done) == (num_tokens, num_tokens, True)


def test_recorded_errors_of_real_engines() -> None:
    body = b"".join(_Body((data() / "engine-streams" / "llamacpp-error-too-long.http").read_bytes()).pieces)
    assert error_code(body) == "exceed_context_size_error"

"""Reading request bodies: what decides is found, faults name their place, estimates are sane."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.openai import BadBody, Body, read_body
from plimsoll.governor.events import Endpoint

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)


def chat(**members: Any) -> Body:
    return read_body(Endpoint.CHAT, json.dumps(CHAT | members).encode())


@given(
    content=TEXT,
    stream=st.sampled_from([None, True, False]),
    cap=st.integers(0, 10**12),
    n=st.integers(1, 64),
    ascii_only=st.booleans(),
)
def test_what_was_written_is_read(content: str, stream: bool | None, cap: int, n: int, ascii_only: bool) -> None:
    members = {"messages": [{"role": "user", "content": content}], "stream": stream, "max_tokens": cap, "n": n}
    body = read_body(Endpoint.CHAT, json.dumps(CHAT | members, ensure_ascii=ascii_only).encode())
    assert body.model == "m"
    assert body.streaming is (stream is True)
    assert body.max_output_tokens == min(cap, 1_000_000_000)
    assert body.num_choices == n
    assert body.prompt.num_bytes >= len(content)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for endpoint in Endpoint:
        try:
            body = read_body(endpoint, data)
        except BadBody as error:
            assert str(error)  # noqa: PT017 - either outcome is fine, a third is not
        else:
            assert body.num_choices >= 1


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=300))
def test_token_ids_are_counted_exactly(ids: list[int]) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        data = json.dumps({"model": "m", "prompt": ids}, separators=separators).encode()
        prompt = read_body(Endpoint.COMPLETIONS, data).prompt
        assert (prompt.exact_tokens, prompt.num_bytes) == (len(ids), 0)
        if prompt.hashes:
            assert len(prompt.hashes) * prompt.block_tokens <= len(ids)


def test_lists_of_prompts_multiply_choices() -> None:
    data = json.dumps({"model": "m", "prompt": [[1, 2, 3], [4]], "n": 2, "best_of": 3}).encode()
    body = read_body(Endpoint.COMPLETIONS, data)
    assert (body.prompt.exact_tokens, body.num_choices) == (4, 6)
    assert read_body(Endpoint.COMPLETIONS, b'{"model":"m","prompt":["a","b"]}').num_choices == 2


@pytest.mark.parametrize(
    ("endpoint", "data", "says", "param"),
    [
        (Endpoint.CHAT, b'{"model": "m", "messages": [}', "(byte 28)", ""),
        (Endpoint.CHAT, b'{"model": "m"', "(byte 13)", ""),
        (Endpoint.CHAT, b"", "empty", ""),
        (Endpoint.CHAT, b"[]", "Expected `object`", ""),
        (Endpoint.CHAT, b'{"messages": []}', "missing required field `model`", ""),
        (Endpoint.CHAT, b'{"model": 7, "messages": []}', "`$.model`", "model"),
        (Endpoint.CHAT, b'{"model": "m", "messages": "hi"}', "`$.messages`", "messages"),
        (Endpoint.CHAT, b'{"model": "m", "messages": [{"role": 1}]}', "`$.messages[0].role`", "messages[0].role"),
        (Endpoint.CHAT, b'{"model": "m", "messages": [], "stream": "yes"}', "`$.stream`", "stream"),
        (Endpoint.CHAT, b'{"model": "m", "messages": [], "max_tokens": "5"}', "`$.max_tokens`", "max_tokens"),
        (Endpoint.CHAT, b'{"model": "m", "messages": [], "max_tokens": 1.5}', "`$.max_tokens`", "max_tokens"),
        (Endpoint.CHAT, b'{"model": "m", "messages": [], "stream_options": 1}', "`$.stream_options`", "stream_options"),
        (Endpoint.COMPLETIONS, b'{"model": "m"}', "`prompt`", "prompt"),
        (Endpoint.COMPLETIONS, b'{"model": "m", "prompt": {}}', "`$.prompt`", "prompt"),
        (Endpoint.EMBEDDINGS, b'{"model": "m", "input": true}', "`$.input`", "input"),
        (Endpoint.RESPONSES, b'{"model": "m", "input": 3}', "`$.input`", "input"),
        (Endpoint.CHAT, b'{"model":"m","messages":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "", ""),
        (Endpoint.CHAT, rb'{"model":"m","messages":[],"user":"a\ud83d b"}', r"\ud83d is half of a surrogate pair", ""),
        (Endpoint.CHAT, rb'{"model":"m","messages":[],"user":"a\ud83d b"}', "(byte 36)", ""),
        (Endpoint.CHAT, rb'{"model":"m","messages":[],"user":"\ud83d\ude00\uDE00"}', r"\uDE00 is half", ""),
        (Endpoint.CHAT, rb'{"model":"m","messages":[],"user":"\ud83d\ude00\uDE00"}', "(byte 47)", ""),
        (Endpoint.CHAT, rb'{"model":"m","messages":[],"user":"\\ud83d","n":}', "(byte 48)", ""),
        (Endpoint.EMBEDDINGS, rb'{"model":"m","input":"\ud83d"}', r"\ud83d is half of a surrogate pair", ""),
        (
            Endpoint.CHAT,
            b'{"model":"\xc3\xa9\xff","messages":[]}',
            "0xff belongs to no character (byte 12)",
            "",
        ),
        (Endpoint.OTHER, b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nested too deeply", ""),
    ],
)
def test_faults_name_their_place(endpoint: Endpoint, data: bytes, says: str, param: str) -> None:
    with pytest.raises(BadBody) as caught:
        read_body(endpoint, data)
    assert says in str(caught.value)
    assert caught.value.param.startswith(param)


def test_the_newer_cap_wins_and_is_named() -> None:
    body = chat(max_tokens=5, max_completion_tokens=7)
    assert (body.max_output_tokens, body.cap_name) == (7, "max_completion_tokens")
    assert chat(max_tokens=5).cap_name == "max_tokens"
    assert chat(max_tokens=5.0).max_output_tokens == 5
    assert chat(max_tokens=-5).max_output_tokens == 0


@pytest.mark.parametrize(
    ("options", "wants", "says"),
    [
        (None, False, True),
        ({}, False, True),
        ({"include_usage": False}, False, True),
        ({"include_usage": True}, True, True),
    ],
)
def test_who_asked_for_usage_is_known(options: object, wants: bool, says: bool) -> None:
    body = chat(stream_options=options)
    assert (body.wants_usage, body.says_stream_options) == (wants, says)
    assert (chat().wants_usage, chat().says_stream_options) == (False, False)


def test_media_are_not_measured_in_bytes() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    body = chat(messages=[{"role": "user", "content": [{"type": "text", "text": "what is this?"}, image]}])
    assert body.prompt.num_bytes < 500
    assert 0 < body.prompt.exact_tokens < 10_000
    source = {"type": "image", "source": {"type": "base64", "data": "A" * 1_000_000}}
    result = [{"role": "user", "content": [{"type": "tool_result", "content": [source]}]}]
    inner = read_body(Endpoint.MESSAGES, json.dumps({"model": "m", "max_tokens": 9, "messages": result}).encode())
    assert inner.prompt.num_bytes < 500
    assert inner.max_output_tokens == 9


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.MESSAGES, Endpoint.RESPONSES])
def test_a_large_body_is_read_like_a_small_one(endpoint: Endpoint) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1000}}
    parts = [{"type": "text", "text": "look"}, image]
    name = "input" if endpoint is Endpoint.RESPONSES else "messages"

    def body(words: int) -> Body:
        messages = [{"role": "user", "content": parts}, {"role": "user", "content": "word " * words}]
        return read_body(endpoint, json.dumps({"model": "m", name: messages, "stream": True}).encode())

    small, large = body(1000), body(100_000)
    assert large.prompt.num_bytes - small.prompt.num_bytes == 99_000 * 5
    assert large._replace(prompt=small.prompt) == small
    assert large.prompt.exact_tokens == small.prompt.exact_tokens == 1024
    with pytest.raises(BadBody, match=r"`\$\.messages\[0\]\.role`|Expected"):
        read_body(endpoint, json.dumps({"model": "m", name: [{"role": 3}, {"role": 1}, "x" * 300_000]}).encode())


def test_pass_through_finds_the_model_where_it_can() -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--x--\r\n'
    assert read_body(Endpoint.OTHER, form).model == "whisper"
    assert read_body(Endpoint.OTHER, b'{"model": "m", "stream": true}').streaming
    assert read_body(Endpoint.OTHER, b"").model == ""
    assert not read_body(Endpoint.OTHER, b"\x00\x01").is_json

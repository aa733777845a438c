"""Streams are looked at without changing a byte, wherever reads cut them; tokens are counted, the end is held back."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.stream import MAX_EVENT, EventScanner
from plimsoll.governor.events import Endpoint

STREAMS = Path(os.environ.get("PLIMSOLL_DATA", "/nonexistent")) / "engine-streams"
needs_recordings = pytest.mark.skipif(
    not STREAMS.is_dir() and "CI" not in os.environ, reason="PLIMSOLL_DATA names the recordings of real engines"
)


def scan(scanner: EventScanner, parts: list[bytes]) -> tuple[bytes, bytes]:
    """What was passed before the end, and what was kept until it."""
    passed = b"".join(scanner.feed(part) for part in parts)
    return passed, scanner.finish()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Split at these places."""
    places = sorted({place % (len(data) + 1) for place in at})
    return [data[i:j] for i, j in zip([0, *places], [*places, len(data)], strict=True)]


def chat(delta: dict[str, object], **more: object) -> str:
    return json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta}], **more}, separators=(",", ":"))


tricky_text = st.lists(
    st.sampled_from([*'ab"\\{}[]: \n\ré…', '"content":"', '"usage":{', '"choices":[]', "data: [DONE]", "\n\n"]),
    max_size=6,
).map("".join)
deltas = st.one_of(
    tricky_text.map(lambda text: ({"content": text}, bool(text))),
    tricky_text.map(lambda text: ({"reasoning_content": text}, bool(text))),
    tricky_text.map(lambda text: ({"refusal": text}, bool(text))),
    tricky_text.map(lambda text: ({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}, bool(text))),
    st.just(({"role": "assistant", "content": ""}, False)),
    st.just(({"role": "assistant", "content": None}, False)),
    st.just(({}, False)),
)
spacing = st.sampled_from([(",", ":"), (", ", ": ")])


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], int, bytes]:
    """(events before the usage, usage event and after, tokens, the usage event): a chat stream of any engine."""
    separators, end = draw(spacing), draw(st.sampled_from(["\n\n", "\r\n\r\n"]))
    events, num = [], 0
    for delta, is_token in draw(st.lists(deltas, max_size=8)):
        if draw(st.booleans()):
            events.append(f": ping{end}".encode())
        chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None}
        events.append(f"data: {json.dumps(chunk, separators=separators)}{end}".encode())
        num += is_token
    final = {"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 99, "total_tokens": 106}}
    usage = f"data: {json.dumps(final, separators=separators)}{end}".encode()
    return events, [usage, f"data: [DONE]{end}".encode()], num, usage


@given(streams(), st.lists(st.integers(0, 4000), max_size=12), st.booleans())
def test_any_cut_gives_the_same_bytes_tokens_and_usage(
    stream: tuple[list[bytes], list[bytes], int, bytes], at: list[int], hide: bool
) -> None:
    events, end, num, usage = stream
    data = b"".join(events + end)
    scanner = EventScanner(Endpoint.CHAT, hide_usage=hide)
    passed, held = scan(scanner, cut(data, at))
    shown = [event for event in events + end if not (hide and event == usage)]
    assert passed + held == b"".join(shown)
    assert held == end[1], "the final event waits for the books"
    assert scanner.num_tokens == num
    assert scanner.usage().output_tokens == 99
    assert scanner.usage().prompt_tokens == 7
    assert scanner.error is None


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_pass_unchanged(data: bytes, at: list[int]) -> None:
    passed, held = scan(EventScanner(Endpoint.OTHER), cut(data, at))
    assert passed + held == data


@given(streams(), st.integers(0, 4000))
def test_a_stream_breaks_between_events(stream: tuple[list[bytes], list[bytes], int, bytes], at: int) -> None:
    data = b"".join(stream[0] + stream[1])
    passed = EventScanner(Endpoint.CHAT).feed(data[: at % (len(data) + 1)])
    whole, ends = b"", [b""]
    for event in stream[0] + stream[1]:
        whole += event
        ends.append(whole)
    assert passed in ends


def body_of(recording: bytes) -> tuple[bytes, list[bytes]]:
    """The body of a recorded answer, whole and as the chunks in which it came."""
    head, _, rest = recording.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return rest, [rest]
    chunks = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        chunks.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(chunks), [chunk for chunk in chunks if chunk]


@needs_recordings
@pytest.mark.parametrize("name", ["llamacpp", "vllm-cpu"])
@pytest.mark.parametrize(
    ("kind", "endpoint", "tokens"), [("chat", Endpoint.CHAT, 12), ("completions", Endpoint.COMPLETIONS, 8)]
)
def test_real_engines(name: str, kind: str, endpoint: Endpoint, tokens: int) -> None:
    body, chunks = body_of((STREAMS / f"{name}-{kind}-stream.http").read_bytes())
    for parts in (
        chunks,
        [body],
        [body[i : i + 1] for i in range(len(body))],
        [body[i : i + 97] for i in range(0, len(body), 97)],
    ):
        scanner = EventScanner(endpoint, hide_usage=True)
        passed, held = scan(scanner, parts)
        events = [event for event in re.split(rb"(?<=\n\n)", body) if event]
        assert passed + held == b"".join(event for event in events if b'"choices":[]' not in event)
        assert held == b"data: [DONE]\n\n"
        usage = scanner.usage()
        assert usage.output_tokens == tokens
        assert usage.prompt_tokens is not None
        assert usage.prompt_tokens > 0
        assert scanner.num_tokens == tokens, "one event a token, less those without content"


def named(*payloads: str) -> list[str]:
    """Events with their names, as Anthropic's messages and OpenAI's responses send them."""
    return [f"event: {json.loads(payload)['type']}\ndata: {payload}\n\n" for payload in payloads]


MESSAGES = named(
    '{"type":"message_start","message":{"id":"m","content":[],"usage":'
    '{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":1}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type": "ping"}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}',
    '{"type":"message_stop"}',
)
RESPONSES = named(
    '{"type":"response.created","response":{"id":"r","status":"in_progress","usage":null}}',
    '{"type":"response.output_text.delta","delta":"Hi","logprobs":[]}',
    '{"type":"response.reasoning_text.delta","delta":"so"}',
    '{"type":"response.function_call_arguments.delta","delta":"{"}',
    '{"type":"response.output_text.done","text":"Hi"}',
    '{"type":"response.completed","response":{"id":"r","usage":'
    '{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":3}}}',
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("endpoint", "events", "usage"),
    [(Endpoint.MESSAGES, MESSAGES, (125, 15, 100)), (Endpoint.RESPONSES, RESPONSES, (11, 3, 4))],
)
def test_other_dialects(endpoint: Endpoint, events: list[str], usage: tuple[int, int, int], size: int) -> None:
    data = "".join(events).encode()
    scanner = EventScanner(endpoint, hide_usage=True)
    passed, held = scan(scanner, [data[i : i + size] for i in range(0, len(data), size)])
    assert passed + held == data, "only chat and completions have an event with nothing but usage"
    assert held == events[-1].encode()
    assert scanner.num_tokens == 3
    told = scanner.usage()
    assert (told.prompt_tokens, told.output_tokens, told.cached_tokens) == usage


def test_several_tokens_in_one_event_are_counted_where_it_says_so() -> None:
    ids = EventScanner(Endpoint.CHAT)
    ids.feed(b'data: {"choices":[{"delta":{"content":"abc"},"token_ids":[1,2,3]}]}\n\n')
    assert ids.new_tokens == 3
    ids.feed(b'data: {"choices":[{"delta":{"content":"d"},"token_ids":[4]}]}\n\n')
    assert ids.new_tokens == 1
    running = EventScanner(Endpoint.CHAT)
    for total in (1, 4, 5):
        running.feed(f"data: {chat({'content': 'x'}, usage={'completion_tokens': total})}\n\n".encode())
    assert [running.num_tokens, running.new_tokens] == [5, 1]


def test_a_prompt_echoed_as_token_ids_is_not_output() -> None:
    scanner = EventScanner(Endpoint.CHAT)
    scanner.feed(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[1,2,3]}\n\n')
    assert scanner.num_tokens == 0


def test_two_choices_in_one_event_are_two_tokens() -> None:
    scanner = EventScanner(Endpoint.CHAT)
    scanner.feed(b'data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}\n\n')
    assert scanner.num_tokens == 2


def test_events_of_several_data_lines_are_joined() -> None:
    scanner = EventScanner(Endpoint.CHAT)
    scanner.feed(b'data: {"choices":[{"delta":\ndata: {"content":"a"}}],\ndata: "x":1}\n\n')
    assert scanner.num_tokens == 1


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (b'data: {"error":{"message":"dead","code":500}}\n\n', 500),
        (b'data: {"error": {"message":"bad","code":400}}\n\n', 400),
        (b'data: {"error":"gone"}\n\n', 0),
        (b'error: {"code":500,"message":"slot"}\n\n', 500),
        (b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n', 0),
    ],
)
def test_an_error_inside_a_stream_is_seen(event: bytes, code: int) -> None:
    scanner = EventScanner(Endpoint.CHAT)
    assert scanner.feed(event) == event
    assert scanner.error == code
    assert scanner.num_tokens == 0


def test_usage_beside_choices_is_read_but_not_hidden() -> None:
    scanner = EventScanner(Endpoint.COMPLETIONS, hide_usage=True)
    event = b'data: {"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":9}}\n\n'
    assert scanner.feed(event) == event
    assert scanner.usage().output_tokens == 9


def test_a_last_event_without_a_blank_line_counts() -> None:
    scanner = EventScanner(Endpoint.CHAT)
    data = f"data: {chat({'content': 'a'})}\n\ndata: [DONE]".encode()
    passed, held = scan(scanner, [data])
    assert (passed + held, held, scanner.saw_final) == (data, b"data: [DONE]", True)


def test_a_huge_event_is_not_held_for_ever() -> None:
    scanner = EventScanner(Endpoint.CHAT)
    part = b"x" * 65536
    passed = sum(len(scanner.feed(part)) for _ in range(64))
    assert passed >= 64 * 65536 - MAX_EVENT - 65536
    assert passed + len(scanner.finish()) == 64 * 65536


WILD = ["-1", "1e400", "99999999999999999999999999", "9" * 5000, "1.5", '"5"', "[1]", "9223372036854775807"]


@pytest.mark.parametrize("number", WILD)
def test_wild_counts_are_unknown(number: str) -> None:
    """Not zero, not believed, and no fault of ours."""
    scanner = EventScanner(Endpoint.CHAT)
    usage = f'"usage":{{"prompt_tokens":{number},"completion_tokens":{number}}}'
    scanner.feed(f'data: {{"choices":[{{"delta":{{"content":"a"}}}}],{usage}}}\n\n'.encode())
    scanner.feed(f'data: {{"choices":[],{usage}}}\n\ndata: [DONE]\n\n'.encode())
    scanner.finish()
    told = scanner.usage()
    assert (told.prompt_tokens, told.output_tokens, scanner.num_tokens) == (None, None, 1)

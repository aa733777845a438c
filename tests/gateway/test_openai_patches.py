"""Patches: the member changes, every other byte stays."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.patches import append, ask_for_usage, member_span, put

NAMES = st.sampled_from(["model", "max_tokens", "stream_options", "messages", "a", "mod\\u0065l", 'q"', "ü", ""])
OURS = st.sampled_from(["model", "max_tokens", "stream_options", "priority"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, JSON, min_size=1, max_size=6)
LAYOUTS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])


@given(OBJECTS, LAYOUTS, OURS, st.integers())
def test_put_changes_one_member_and_no_other_byte(
    document: dict[str, Any], layout: dict[str, Any], name: str, value: int
) -> None:
    body = b" \n" + json.dumps(document, **layout).encode() + b"\n "
    changed = put(body, name, b"%d" % value)
    assert json.loads(changed) == document | {name: value}
    span = member_span(body, name)
    start, end = span if span else (body.rindex(b"}"), body.rindex(b"}"))
    assert changed.startswith(body[:start])
    assert changed.endswith(body[end:])
    assert len(changed) - len(body) < 60 + len(name) * 6 if not span else True


@given(st.lists(st.tuples(NAMES, JSON), min_size=1, max_size=6), OURS)
def test_of_a_repeated_member_the_last_counts(members: list[tuple[str, Any]], name: str) -> None:
    text = "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in members) + "}"
    assert json.loads(put(text.encode(), name, b"7")) == dict(members) | {name: 7}


@given(OBJECTS, LAYOUTS, st.sampled_from([None, {}, {"include_usage": False}, {"x": [1, {"include_usage": 0}]}]))
def test_usage_is_asked_for_whatever_was_there(document: dict[str, Any], layout: dict[str, Any], options: Any) -> None:
    document = {"model": "m"} | document | {"stream_options": options}
    changed = json.loads(ask_for_usage(json.dumps(document, **layout).encode(), says_stream_options=True))
    assert changed == document | {"stream_options": (options or {}) | {"include_usage": True}}


def test_the_usual_case_touches_nothing_else() -> None:
    body = b'{"model":"m","stream":true}\n'
    assert ask_for_usage(body, says_stream_options=False) == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}\n'
    )
    assert append(b"{ }", b'"a":1') == b'{ "a":1}'


def test_an_escaped_name_is_found() -> None:
    assert (
        put(b'{"mod\\u0065l": "x", "n": {"model": "x"}}', "model", b'"y"')
        == b'{"mod\\u0065l": "y", "n": {"model": "x"}}'
    )

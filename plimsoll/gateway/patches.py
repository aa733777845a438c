"""Changing a member of a JSON body without touching any other byte of it.

Members that are missing are put before the closing brace; members that are there get a new value in their place. The
bytes must have been read by `openai.read_body` before: this takes them to be a JSON object.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw

_OPENING: Final = 0x7B  # {
LARGE: Final = 1024 * 1024  # bytes; smaller ones are joined faster by adding them up
_members = msgspec.json.Decoder(dict[str, Raw])
_SPACE = re.compile(rb"[ \t\r\n]*")
_COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
_COMMA = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]', re.DOTALL)
_NOT_OF_ONE_TOKEN: Final = ("stream_options", "min_tokens")
_KEEP_CACHE: Final = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,'
    b'"remote_host":null,"remote_port":null}'
)
_USAGE: Final = b'{"include_usage":true}'


def put(body: bytes, name: str, value: bytes) -> bytes:
    """The body with that member set to `value` (JSON). A repeated member is changed where it counts: the last."""
    span = member_span(body, name)
    if span is not None:
        return _joined(body, span[0], value, span[1])
    return append(body, b'"%s":%s' % (name.encode(), value))


def append(body: bytes, members: bytes) -> bytes:
    """The body with further members (`"a":1,"b":2`) before its closing brace; none of them may be there already."""
    end = body.rindex(b"}")
    last = end - 1
    while body[last] in b" \t\r\n":
        last -= 1
    empty = body[last] == _OPENING
    return _joined(body, end, members if empty else b"," + members, end)


def ask_for_usage(body: bytes, *, says_stream_options: bool) -> bytes:
    """The body with `stream_options.include_usage` true."""
    if not says_stream_options:
        end = body.rindex(b"}")  # never empty: a model is in it
        return _joined(body, end, b',"stream_options":' + _USAGE, end)
    span = member_span(body, "stream_options")
    if span is None:
        return append(body, b'"stream_options":' + _USAGE)
    options = body[span[0] : span[1]]
    changed = put(options, "include_usage", b"true") if options.startswith(b"{") else _USAGE
    return _joined(body, span[0], changed, span[1])


def for_prefill(body: bytes) -> bytes:
    """The body as vLLM wants it from who will have another engine decode: one token, no stream, the cache kept.

    See `twohop`. Members are written anew in their order, their values stay byte for byte.
    """
    members = _members.decode(body)
    for name in _NOT_OF_ONE_TOKEN:
        members.pop(name, None)
    members["stream"], members["max_tokens"] = Raw(b"false"), Raw(b"1")
    if "max_completion_tokens" in members:
        members["max_completion_tokens"] = Raw(b"1")
    members["kv_transfer_params"] = Raw(_KEEP_CACHE)
    return msgspec.json.encode(members)


def _joined(body: bytes, end: int, middle: bytes, start: int) -> bytes:
    """body[:end] + middle + body[start:]; a large one is copied once instead of three times."""
    if len(body) < LARGE:
        return body[:end] + middle + body[start:]
    view = memoryview(body)
    return b"".join((view[:end], middle, view[start:]))


def member_span(body: bytes, name: str) -> tuple[int, int] | None:
    """Start and end of the value of an object's own member (the last of that name); None where there is none."""
    members = _members.decode(body)
    if name not in members:
        return None
    return _walk(body, members, name) or _scan(body, name)


def _walk(body: bytes, members: dict[str, Raw], name: str) -> tuple[int, int] | None:
    """Step from member to member by the lengths of their values; None where a name is repeated or escaped."""
    found = None
    place = body.index(b"{") + 1
    for key, raw in members.items():
        start = _end(_SPACE, body, place)
        literal = b'"%s"' % key.encode()
        colon = _COLON.match(body, start + len(literal))
        if not body.startswith(literal, start) or colon is None:
            return None
        place = colon.end() + len(memoryview(raw))
        if key == name:
            found = (colon.end(), place)
        place = _end(_COMMA, body, place)
    return found if body.startswith(b"}", place) else None


def _scan(body: bytes, name: str) -> tuple[int, int] | None:
    """Token by token: the plain way, for bodies that repeat or escape a name."""
    found: tuple[int, int] | None = None
    depth = value_at = 0
    key: object = None
    last = b""
    for token in _TOKEN.finditer(body):
        sign = token[0]
        if depth == 1 and sign == b":" and not value_at:
            key = msgspec.json.decode(last)
            value_at = _end(_SPACE, body, token.end())
        elif depth == 1 and value_at and sign in (b",", b"}"):
            if key == name:
                found = (value_at, len(body[: token.start()].rstrip()))
            value_at = 0
        if sign in (b"{", b"["):
            depth += 1
        elif sign in (b"}", b"]"):
            depth -= 1
        last = sign
    return found


def _end(pattern: re.Pattern[bytes], body: bytes, place: int) -> int:
    match = pattern.match(body, place)
    return match.end() if match else place

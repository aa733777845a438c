"""A stream of server-sent events, looked at without decoding it: tokens counted, usage found, the end held back.

Whole events are passed on as they come; of an event that is cut by a read, nothing is passed on before its rest has
come, so that a stream that breaks breaks between events, and a hidden event leaves no trace. What follows the final
event (`data: [DONE]` or its like) is kept until `finish`, so that the books can be closed before the client knows.

Events end at a blank line, LF or CRLF (WHATWG HTML, "Server-sent events"). Streams of bare CR, which the standard
allows and no engine sends, pass whole when they end or outgrow MAX_EVENT, uncounted.
"""

import re
from typing import Final, NamedTuple

from plimsoll.gateway.hands import Usage
from plimsoll.gateway.usage import last_usage, read_drafts, read_usage
from plimsoll.governor.events import Endpoint

MAX_EVENT: Final = 1024 * 1024  # bytes of one event that are held; what is longer passes as it comes

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_DATA_LINE: Final = re.compile(rb"(?:^|\n)data:[ ]?([^\r\n]*)")
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_COMPLETION_TOKENS: Final = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,8})(?![\d.eE])')  # no more is meant
_TOKEN_IDS: Final = re.compile(rb'"token_ids"\s*:\s*\[([^\]]+)\]')
_ERROR: Final = re.compile(rb'^\s*\{\s*"error"\s*:\s*[{"]|"type"\s*:\s*"(?:error|response\.failed)"')
_ERROR_CODE: Final = re.compile(rb'"code"\s*:\s*"?([1-5]\d\d)\b')


class Dialect(NamedTuple):
    """How one API says "a token" and "the end"."""

    token: re.Pattern[bytes]  # group 1 is the text up to the value's opening quote; the value must not be empty
    final: re.Pattern[bytes]  # searched in an event's data


def _non_empty(*keys: str) -> re.Pattern[bytes]:
    return re.compile(rb'("(?:%b)"\s*:\s*")[^"]' % "|".join(keys).encode())


_CHAT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal", "arguments", "name")
_DONE: Final = re.compile(rb"^\[DONE\]")
_RESPONSES_END: Final = re.compile(rb'"type"\s*:\s*"response\.(?:completed|incomplete|failed|cancelled)"')

DIALECTS: Final[dict[Endpoint, Dialect]] = {
    Endpoint.CHAT: Dialect(_non_empty(*_CHAT_KEYS), _DONE),
    Endpoint.COMPLETIONS: Dialect(_non_empty("text", "content"), _DONE),
    Endpoint.RESPONSES: Dialect(_non_empty("delta"), _RESPONSES_END),
    Endpoint.MESSAGES: Dialect(
        _non_empty("text", "thinking", "partial_json"), re.compile(rb'"type"\s*:\s*"message_stop"')
    ),
    Endpoint.EMBEDDINGS: Dialect(_non_empty("text"), _DONE),
    Endpoint.OTHER: Dialect(_non_empty("text", *_CHAT_KEYS), _DONE),
}


class EventScanner:
    """One stream. `feed` returns what to pass on now and sets `new_tokens`; `finish` returns the rest."""

    __slots__ = (
        "_drafts",
        "_final",
        "_first_usage",
        "_hide_usage",
        "_last_usage",
        "_marker",
        "_marker_empty",
        "_spelling",
        "_tail",
        "_tail_size",
        "_token",
        "error",
        "held",
        "new_tokens",
        "num_tokens",
        "saw_final",
    )

    def __init__(self, endpoint: Endpoint, *, hide_usage: bool = False) -> None:
        dialect = DIALECTS[endpoint]
        self._token = dialect.token
        self._final = dialect.final
        self._hide_usage = hide_usage
        self._spelling = b""  # of the last token: its key, up to the opening quote of its value
        self._marker = b""  # the same where counting it is enough; b"" matches nothing
        self._marker_empty = b""
        self._tail: list[bytes] = []  # an event not yet whole
        self._tail_size = 0
        self._first_usage = b""
        self._last_usage = b""
        self._drafts = b""  # the last event that tells usage, where it tells of drafts too
        self.held: list[bytes] = []  # the final event and what follows it
        self.saw_final = False
        self.error: int | None = None  # the engine put an error into the stream: its code, 0 where it gave none
        self.new_tokens = 0  # by the last `feed`
        self.num_tokens = 0

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the body; returns the whole events to pass on now."""
        if self._tail:
            joined = self._rejoin(data)
            if joined is None:
                return b""
            data = joined
        if not data.endswith(b"\n\n"):
            data = self._cut(data)
        num = data.count(self._marker)
        if (  # the common case: nothing but tokens, each spelt as the one before
            num
            and num == data.count(b"\n\n")
            and data.find(self._marker_empty) < 0  # bytes' `in` raises and drops a TypeError inside (CPython 3.11)
            and data.find(b'_tokens"') < 0
            and not self.saw_final
        ):
            self.new_tokens = num
            self.num_tokens += num
            return data
        self.new_tokens = 0
        return self._each(data) if data else data

    def finish(self) -> bytes:
        """The body is over: returns all that was kept, less a hidden event."""
        self.new_tokens = 0
        rest = b"".join(self._tail)
        self._tail.clear()
        last = self._each(rest) if rest else b""  # an event without a blank line at the end of the body
        return last + b"".join(self.held)

    def usage(self) -> Usage:
        """What the stream said of its token counts so far."""
        usage = read_usage(self._first_usage, self._last_usage)
        if self._drafts:
            read_drafts(usage, self._drafts)
        return usage

    def _rejoin(self, data: bytes) -> bytes | None:
        """What was kept with what came, where an event may have ended; None while it surely goes on."""
        self._tail.append(data)
        self._tail_size += len(data)
        if b"\n" not in data and self._tail_size <= MAX_EVENT:
            self.new_tokens = 0
            return None
        joined = b"".join(self._tail)
        self._tail.clear()
        return joined

    def _cut(self, data: bytes) -> bytes:
        """Keep the event that is not whole; return what comes before it."""
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if end < 3 and not data.startswith(b"\n\n"):  # neither was found
            end = 0
        if len(data) - end > MAX_EVENT:
            return data
        if end < len(data):
            self._tail.append(data[end:])
            self._tail_size = len(data) - end
        return data[:end]

    def _each(self, data: bytes) -> bytes:
        """Look at every event; returns those that pass now."""
        passed, start, size = [], 0, len(data)
        while start < size:
            blank = _BLANK_LINE.search(data, start)
            end = blank.end() if blank else size
            event = data[start:end]
            start = end
            shown = self._look(event)
            if self.saw_final:
                if shown:
                    self.held.append(event)
            elif shown:
                passed.append(event)
        return b"".join(passed)

    def _look(self, event: bytes) -> bool:
        """Count one event; returns whether the client may see it."""
        if event.startswith(b"data: ") and b"\ndata:" not in event:
            payload = event[6:]
        else:
            lines = _DATA_LINE.findall(event)
            if not lines:
                if event.startswith(b"error:"):  # older llama.cpp
                    self._note_error(event)
                return True  # comments, pings, event names alone
            payload = lines[0] if len(lines) == 1 else b"\n".join(lines)
        if self._final.search(payload):
            self.saw_final = True
        if (b'error"' in payload or b"failed" in payload) and _ERROR.search(payload):
            self._note_error(payload)
            return True
        num = self._count(payload)
        if b'"usage"' in payload and self._note_usage(payload, num):
            return not self._hide_usage
        self.new_tokens += num
        self.num_tokens += num
        return True

    def _count(self, payload: bytes) -> int:
        """Tokens of one event: non-empty values, or more where the event tells token ids or a running count."""
        marker: bytes = self._spelling
        num: int = payload.count(marker) - payload.count(marker + b'"') if marker else 0
        if not num:
            match = self._token.search(payload)
            if match is None:
                return 0
            marker = self._spelling = match.group(1)
            num = payload.count(marker) - payload.count(marker + b'"')
        if b'_tokens"' not in payload and b'"token_ids"' not in payload:
            self._marker = marker
            self._marker_empty = marker + b'"'
            return num
        self._marker = b""  # this engine says more in each event: look at every one
        ids: int = sum(found.count(b",") + 1 for found in _TOKEN_IDS.findall(payload))
        told = _COMPLETION_TOKENS.search(payload)
        running = int(told.group(1)) - self.num_tokens if told else 0
        return max(num, ids, running)

    def _note_usage(self, payload: bytes, num: int) -> bool:
        """Keep the usage for the end; returns whether the event holds nothing else."""
        found = last_usage(payload)
        if not found:
            return False
        self._first_usage = self._first_usage or found
        self._last_usage = found
        if payload.find(b"draft_") >= 0:
            self._drafts = payload
        return num == 0 and _NO_CHOICES.search(payload) is not None

    def _note_error(self, payload: bytes) -> None:
        code = _ERROR_CODE.search(payload)
        self.error = int(code.group(1)) if code else 0

"""Server-sent events of an answer, looked through for tokens, usage, errors and the end.

Events are found by byte search; only errors are parsed as JSON. OpenAI's chat, completions and responses shapes.
"""

import re
from array import array
from typing import Final

import msgspec

# A key whose value is a text that is not empty. Keys of deltas in the APIs: content, text, reasoning (two spellings),
# refusal, arguments of a tool call, and `delta` of a responses event.
_TOKEN: Final = re.compile(
    rb'"(?:content|text|reasoning|reasoning_content|refusal|arguments|delta|partial_json|thinking)"\s*:\s*"(?!")'
)
_USED: Final = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d+)')
_PROMPTED: Final = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d+)')
_DONE: Final = (b"[DONE]", b'{"type":"response.completed"', b'{"type":"message_stop"')


class EventReader:
    """Fed with pieces of a body as they come, each with its instant."""

    def __init__(self) -> None:
        self._rest = b""
        self.token_at: array[float] = array("d")  # instants of events that carried tokens, s
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.error: str | None = None  # the code of an error event
        self.done = False

    def feed(self, piece: bytes, at: float) -> None:
        """Take in bytes that were read at `at`."""
        data = self._rest + piece if self._rest else piece
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        for event in events:
            self._event(event, at)

    def _event(self, event: bytes, at: float) -> None:
        start = event.find(b"data:")
        if start < 0:
            return  # a comment or a bare event name
        if _TOKEN.search(event, start) is not None:
            self.token_at.append(at)
        if b"_tokens" in event:
            self.usage(event)
        payload = event[start + 5 :].lstrip()
        if payload.startswith(_DONE):
            self.done = True
        elif payload.startswith(b'{"error"') or b"event: error" in event[:start]:
            self.error = error_code(payload)

    def usage(self, text: bytes) -> None:
        """Take the token counts that a text with a usage object tells."""
        if found := _USED.search(text):
            self.output_tokens = int(found.group(1))
        if found := _PROMPTED.search(text):
            self.prompt_tokens = int(found.group(1))


def error_code(body: bytes) -> str:
    """The code of an OpenAI-shaped error where that is a word, else its type; "error" for any other body."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "error"
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return "error"
    names = (name for name in (error.get("code"), error.get("type")) if isinstance(name, str) and name)
    return next(names, "error")

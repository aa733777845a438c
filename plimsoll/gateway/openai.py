"""Reading a request's JSON: only what decides about it; everything else is passed over and passed on.

One strict, typed decode of the body gives model, streaming, the output cap, choices and the prompt's size. Faults name
the byte or the path. A prompt's size is told in bytes here; `prompts.TokenRatio` makes tokens of them.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from plimsoll.gateway import bodies
from plimsoll.gateway.bodies import NO_RAW, Item, LargeItem, LargeMessage, Message, Number, Part, StreamOptions
from plimsoll.gateway.prompts import BLOCK_BYTES, MEDIA_TOKENS, prefix_hashes, text_bytes
from plimsoll.governor.events import Endpoint

LARGE_BODY: Final = 256 * 1024  # bytes; reading more on the event loop would hold up other streams
MOST: Final = 1_000_000_000  # tokens; a cap beyond is none
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_SURROGATE: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*\\u(?:[dD][89abAB]..\\u[dD][c-fC-F]..|([dD][89a-fA-F][0-9a-fA-F]{2}))"
)
MULTIPART_MODEL: Final = re.compile(rb'name="?model"?\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,256})\r\n')


class BadBody(ValueError):
    """The body cannot be taken; `param` is the field at fault, "" where it is none's."""

    def __init__(self, message: str, param: str = "") -> None:
        self.param = param
        super().__init__(message)


class Prompt(NamedTuple):
    """How large a prompt is and how it begins."""

    num_bytes: float = 0.0  # text whose tokens must be estimated
    exact_tokens: int = 0  # token ids, counted, and a guess for each image or sound
    hashes: tuple[int, ...] = ()
    block_bytes: int = BLOCK_BYTES
    num_prompts: int = 1
    block_tokens: int = 0  # tokens of a block, where they are known exactly; 0: as the bytes are


class Body(NamedTuple):
    """What a request's body says."""

    model: str
    prompt: Prompt = Prompt()
    streaming: bool = False
    wants_usage: bool = False  # the client itself asked for the stream's usage event
    says_stream_options: bool = False  # the member is there, whatever it holds
    max_output_tokens: int = 0  # 0: not said
    num_choices: int = 1
    cap_name: str = ""  # the member that caps the output, there or not; "": this endpoint has none
    is_json: bool = True


AnyMessage = Message | LargeMessage | Item | LargeItem
_chat = msgspec.json.Decoder(bodies.ChatBody[Message])
_large_chat = msgspec.json.Decoder(bodies.ChatBody[LargeMessage])
_completions = msgspec.json.Decoder(bodies.CompletionsBody)
_responses = msgspec.json.Decoder(bodies.ResponsesBody[Item])
_large_responses = msgspec.json.Decoder(bodies.ResponsesBody[LargeItem])
_messages = msgspec.json.Decoder(bodies.MessagesBody[Message])
_large_messages = msgspec.json.Decoder(bodies.MessagesBody[LargeMessage])
_parts = msgspec.json.Decoder(list[Part])
_embeddings = msgspec.json.Decoder(bodies.EmbeddingsBody)
_other = msgspec.json.Decoder(bodies.OtherBody)
_elements = msgspec.json.Decoder(list[Raw])


def read_body(endpoint: Endpoint, data: bytes) -> Body:
    """Read the body of a request to that endpoint. Raises BadBody."""
    try:
        return _READERS[endpoint](data)
    except msgspec.ValidationError as error:
        text = str(error)
        raise BadBody(text, text.rpartition("`$.")[2].rstrip("`") if "`$." in text else "") from None
    except msgspec.DecodeError as error:
        raise BadBody(_located(str(error), data)) from None
    except RecursionError:
        raise BadBody("the JSON is nested too deeply") from None


def _read_chat(data: bytes) -> Body:
    body = (_chat if len(data) <= LARGE_BODY else _large_chat).decode(data)
    capped = body.max_completion_tokens is not None
    return Body(
        body.model,
        _prompt(data, b'"messages"', b'"tools"', body.messages),
        body.stream is True,
        _wants_usage(body.stream_options),
        body.stream_options is not UNSET,
        _count(body.max_completion_tokens, "max_completion_tokens")
        if capped
        else _count(body.max_tokens, "max_tokens"),
        _count(body.n, "n") or 1,
        "max_completion_tokens" if capped else "max_tokens",
    )


def _read_completions(data: bytes) -> Body:
    body = _completions.decode(data)
    prompt = _input(body.prompt, "prompt")
    return Body(
        body.model,
        prompt,
        body.stream is True,
        _wants_usage(body.stream_options),
        body.stream_options is not UNSET,
        _count(body.max_tokens, "max_tokens"),
        max(_count(body.n, "n"), _count(body.best_of, "best_of"), 1) * prompt.num_prompts,
        "max_tokens",
    )


def _read_responses(data: bytes) -> Body:
    body = (_responses if len(data) <= LARGE_BODY else _large_responses).decode(data)
    items = body.input if isinstance(body.input, list) else ()
    cap = _count(body.max_output_tokens, "max_output_tokens")
    prompt = _prompt(data, b'"input"', b'"instructions"', items)
    return Body(body.model, prompt, body.stream is True, max_output_tokens=cap, cap_name="max_output_tokens")


def _read_messages(data: bytes) -> Body:
    body = (_messages if len(data) <= LARGE_BODY else _large_messages).decode(data)
    cap = _count(body.max_tokens, "max_tokens")
    prompt = _prompt(data, b'"messages"', b'"system"', body.messages)
    return Body(body.model, prompt, body.stream is True, max_output_tokens=cap, cap_name="max_tokens")


def _read_embeddings(data: bytes) -> Body:
    body = _embeddings.decode(data)
    return Body(body.model, _input(body.input, "input"))


def _read_other(data: bytes) -> Body:
    """JSON with a model, a form with a model, or anything else: the engine will know."""
    start = data[:64].lstrip()
    if start.startswith(b"{"):
        body = _other.decode(data)
        return Body(body.model or "", Prompt(text_bytes(data, 0, len(data))), body.stream is True)
    form = MULTIPART_MODEL.search(data, 0, 64 * 1024) if start.startswith(b"--") else None
    return Body(form[1].decode("utf-8", "replace") if form else "", is_json=False)


_READERS: Final = {
    Endpoint.CHAT: _read_chat,
    Endpoint.COMPLETIONS: _read_completions,
    Endpoint.RESPONSES: _read_responses,
    Endpoint.MESSAGES: _read_messages,
    Endpoint.EMBEDDINGS: _read_embeddings,
    Endpoint.OTHER: _read_other,
}


def _wants_usage(options: StreamOptions | UnsetType | None) -> bool:
    return isinstance(options, StreamOptions) and options.include_usage is True


def _count(number: Number, name: str) -> int:
    """A token or choice count; negative ones are left for the engine to refuse. 5.0 is 5, as engines see it."""
    if number is None:
        return 0
    if isinstance(number, float) and not number.is_integer():
        raise BadBody(f"Expected `int`, got `float` - at `$.{name}`", name)
    return max(0, int(min(number, MOST)))


def _prompt(
    data: bytes, name: bytes, earlier: bytes, messages: Iterable[Message | LargeMessage | Item | LargeItem]
) -> Prompt:
    """The prompt reaches from its first member to the end of the body; what follows it in there is little."""
    start = max(0, data.find(name))
    before = data.find(earlier, 0, start)
    if before >= 0:
        start = before
    end = len(data)
    num_media = media_bytes = 0
    for message in messages:
        content = message.content
        if content.__class__ is Raw:
            content = _parts.decode(content) if bytes(memoryview(content)[:1]) == b"[" else ""
        if content.__class__ is list:
            num, size = _media(content)
            num_media += num
            media_bytes += size
    hashes, block_bytes = prefix_hashes(data, start, end)
    num_bytes = text_bytes(data, start, end) - media_bytes
    return Prompt(max(0.0, num_bytes), num_media * MEDIA_TOKENS, hashes, block_bytes)


def _media(parts: list[Part]) -> tuple[int, int]:
    """How many images and sounds there are and how many bytes they take."""
    num = size = 0
    for part in parts:
        media = part.media()
        if media is not NO_RAW:
            num += 1
            size += len(memoryview(media))
        elif isinstance(part.content, list):
            inner_num, inner_size = _media(part.content)
            num += inner_num
            size += inner_size
    return num, size


def _input(raw: Raw, name: str) -> Prompt:
    """A `prompt` or `input`: a text, texts, token ids, or lists of token ids, which are counted exactly."""
    if raw is NO_RAW:
        raise BadBody(f"Object missing required field `{name}`", name)
    text = bytes(memoryview(raw))
    start = text[:256].translate(None, b" \t\r\n")[:2]
    if start[:1] not in (b'"', b"["):
        kind = {b"{": "object", b"n": "null", b"t": "bool", b"f": "bool"}.get(start[:1], "number")
        raise BadBody(f"Expected `str | array`, got `{kind}` - at `$.{name}`", name)
    hashes = prefix_hashes(text, 0, len(text))
    num_prompts = max(1, len(_elements.decode(raw))) if start in (b'["', b"[[") else 1
    if start[:1] == b'"' or start == b'["':
        return Prompt(text_bytes(text, 0, len(text)), 0, *hashes, num_prompts)
    tokens = text.count(b",") + (start != b"[]")
    return Prompt(0.0, tokens, *hashes, num_prompts, hashes[1] * tokens // len(text))


def _located(message: str, data: bytes) -> str:
    """Every fault in the JSON names a byte; where the parser does not say, it is the end."""
    if not data:
        return "the body is empty, expected JSON"
    if "UTF-8" in message:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return f"the body is not UTF-8: byte 0x{data[error.start]:02x} belongs to no character (byte {error.start})"
    at = _BYTE.search(message)
    if at is None:
        return _lone_surrogate(data, len(data)) or f"{message} (byte {len(data)})"
    return _lone_surrogate(data, int(at[1])) or message


def _lone_surrogate(data: bytes, near: int) -> str:
    """Half a character, as \\uD83D without the \\uDE00 that completes it; parsers call that truncated, or malformed."""
    for escape in _SURROGATE.finditer(data, max(0, near - 64), near + 12):
        if escape[1] is not None and escape.end() >= near - 12:
            text = escape[1].decode()
            return f"\\u{text} is half of a surrogate pair and stands for no character (byte {escape.end() - 6})"
    return ""

"""Reads a request body as vLLM would: what is asked for, or why it cannot be."""

from array import array
from dataclasses import dataclass
from hashlib import blake2b
from sys import byteorder
from typing import Any

import msgspec

from plimsoll.engine.blocks import hash_bytes, hash_tokens
from plimsoll.engine.profile import EngineProfile

HASH_TOKENS = 64  # grain of the prefix cache: coarser than vLLM's 16, a quarter of the work on long prompts
BYTES_PER_TOKEN = 4


class Refused(Exception):
    """A request that vLLM would refuse; carries the answer."""

    def __init__(self, status: int, message: str, type_: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        body = {"error": {"message": message, "type": type_, "param": param, "code": status}}
        self.body = msgspec.json.encode(body)


@dataclass
class Prompt:
    """One prompt: its length in tokens, their ids, and the chained hashes of its stretches of HASH_TOKENS tokens."""

    tokens: int
    hashes: tuple[int, ...]
    digest: int
    ids: bytes  # of its tokens, 4 bytes each: of a text, these four themselves


@dataclass
class Ask:
    """What a request asks for."""

    prompts: list[Prompt]
    num_choices: int
    output_tokens: int  # of each choice
    finish_reason: str
    streaming: bool
    include_usage: bool
    priority: int
    encoding: str = "float"


def read(body: bytes, model: str, profile: EngineProfile, mean_output: int, embeddings: bool = False) -> Ask:
    """The request in `body`; raises Refused."""
    data = _decode(body)
    _check_model(data, model)
    prompts = _prompts(data, embeddings)
    longest = max(prompt.tokens for prompt in prompts)
    context = min(profile.max_context, profile.num_blocks * profile.block_size)
    if longest + (not embeddings) > context:
        raise Refused(400, _too_long(context, longest), param="input_tokens")
    limit = 0 if embeddings else _limit(data, context, longest)
    length = limit if data.get("ignore_eos") or embeddings else _length(prompts[0].digest, mean_output)
    options = data.get("stream_options") or {}
    return Ask(
        prompts=prompts,
        num_choices=_integer(data, "n", 1, least=1),
        output_tokens=min(limit, max(length, min(limit, _integer(data, "min_tokens", 0)))),
        finish_reason="length" if length >= limit else "stop",
        streaming=data.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        priority=_integer(data, "priority", 0, least=-(1 << 31)),
        encoding=str(data.get("encoding_format", "float")),
    )


def tokenize(body: bytes, model: str) -> list[int]:
    """The token ids of the one prompt in `body`, behind the chat template; raises Refused."""
    data = _decode(body)
    _check_model(data, model)
    prompts = _prompts(data, False)
    if len(prompts) > 1:
        raise Refused(400, "1 validation error:\n  prompt: one text", "Bad Request", "prompt")
    return array("I", prompts[0].ids).tolist()


def _check_model(data: dict[str, Any], model: str) -> None:
    asked = data.get("model", model)
    if asked != model:
        raise Refused(404, f"The model `{asked}` does not exist.", "NotFoundError", "model")


def _decode(body: bytes) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Refused(400, f"JSON decode error: {error}", "Bad Request") from error
    if not isinstance(data, dict):
        raise Refused(400, "1 validation error:\n  the body is not an object", "Bad Request", "body")
    return data


def _too_long(context: int, tokens: int) -> str:
    return (
        f"This model's maximum context length is {context} tokens. However, your prompt contains {tokens} input tokens,"
        " which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
        f" (parameter=input_tokens, value={tokens})"
    )


def _integer(data: dict[str, Any], name: str, default: int, least: int = 0) -> int:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Refused(400, f"1 validation error:\n  {name} must be an integer of at least {least}", "Bad Request", name)
    return value


def _limit(data: dict[str, Any], context: int, prompt_tokens: int) -> int:
    room = context - prompt_tokens
    name = "max_completion_tokens" if data.get("max_completion_tokens") is not None else "max_tokens"
    default = 16 if "prompt" in data else room
    limit = _integer(data, name, min(default, room), least=1)
    if limit > room:
        message = (
            f"This model's maximum context length is {context} tokens. However, you requested {limit} output tokens and"
            f" your prompt contains at least {prompt_tokens} input tokens, for a total of at least"
            f" {limit + prompt_tokens} tokens. Please reduce the length of the input prompt or the number of requested"
            f" output tokens. (parameter=input_tokens, value={prompt_tokens})"
        )
        raise Refused(400, message, param=name)
    return limit


def _length(digest: int, mean: int) -> int:
    """An answer's length where the client leaves it to the model: between a quarter and thrice the mean, by content."""
    spread = (digest % 1024 / 1024) ** 2
    return max(1, round(mean * (0.25 + 2.25 * spread)))


def _prompts(data: dict[str, Any], embeddings: bool) -> list[Prompt]:
    if "messages" in data and not embeddings:
        if not isinstance(data["messages"], list) or not data["messages"]:
            detail = "{'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list'}"
            message = f"1 validation error:\n  {detail}"
            raise Refused(400, message, "Bad Request", "body.messages")
        return [_of_text(_conversation(data["messages"]))]
    name = "input" if embeddings else "prompt"
    given = data.get(name)
    if isinstance(given, str):
        return [_of_text(given.encode())]
    if isinstance(given, list) and given:
        if all(isinstance(item, int) for item in given):
            return [_of_tokens(given)]
        if all(isinstance(item, str) and item for item in given):
            return [_of_text(item.encode()) for item in given]
        if all(isinstance(item, list) and item and all(isinstance(token, int) for token in item) for item in given):
            return [_of_tokens(item) for item in given]
    raise Refused(400, f"1 validation error:\n  {name}: text, token ids, or a list of these", "Bad Request", name)


def _conversation(messages: list[Any]) -> bytes:
    """The text of a conversation, in order, so that a later turn begins like the one before."""
    parts: list[bytes] = []
    for message in messages:
        if not isinstance(message, dict):
            raise Refused(400, "1 validation error:\n  a message is not an object", "Bad Request", "body.messages")
        content = message.get("content")
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        parts.append(f"<|{message.get('role')}|>{text}".encode())
    return b"".join(parts)


def _of_text(text: bytes) -> Prompt:
    hashes = hash_bytes(text, HASH_TOKENS * BYTES_PER_TOKEN)
    tokens = max(1, len(text) // BYTES_PER_TOKEN)
    return Prompt(tokens, hashes, _digest(text), text[: tokens * BYTES_PER_TOKEN].ljust(BYTES_PER_TOKEN, b"\0"))


def _of_tokens(tokens: list[int]) -> Prompt:
    hashes = hash_tokens(tokens, HASH_TOKENS)
    digest = _digest(repr(tokens[-HASH_TOKENS:]).encode()) ^ (hashes[-1] if hashes else 0)
    ids = b"".join((token & 0xFFFFFFFF).to_bytes(BYTES_PER_TOKEN, byteorder) for token in tokens)
    return Prompt(len(tokens), hashes, digest, ids)


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")

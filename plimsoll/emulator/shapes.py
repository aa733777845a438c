"""The JSON that vLLM answers with, as bytes cut so that a token is one small join."""

from base64 import b64encode
from struct import pack
from typing import Any

import msgspec

from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.job import Job

encode = msgspec.json.encode
_DIMENSIONS = 16


def usage(prompt_tokens: int, output_tokens: int, cached_tokens: int) -> dict[str, Any]:
    """The `usage` object; vLLM names cached tokens where started with --enable-prompt-tokens-details."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


class ChatShape:
    """Of /v1/chat/completions."""

    prefix = "chatcmpl-"

    @staticmethod
    def opening(head: bytes, index: int) -> bytes:
        """The event before the first token: the role."""
        choice = (
            b'"choices":[{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}'
        )
        return head + choice % index

    @staticmethod
    def around(index: int) -> tuple[bytes, bytes]:
        """What stands before and after a token's text."""
        return b'"choices":[{"index":%d,"delta":{"content":"' % index, b'"},"logprobs":null,"finish_reason":null}]}'

    @staticmethod
    def object_name(streaming: bool) -> str:
        """The `object` field."""
        return "chat.completion.chunk" if streaming else "chat.completion"

    @staticmethod
    def choice(index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """One choice of a whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "tool_calls": []}
        reason = {"finish_reason": finish_reason, "stop_reason": None}
        return {"index": index, "message": message, "logprobs": None, **reason}


class CompletionShape:
    """Of /v1/completions."""

    prefix = "cmpl-"

    @staticmethod
    def opening(head: bytes, index: int) -> bytes:
        """Completions have no such event."""
        return b""

    @staticmethod
    def around(index: int) -> tuple[bytes, bytes]:
        """What stands before and after a token's text."""
        return (
            b'"choices":[{"index":%d,"text":"' % index,
            b'","logprobs":null,"finish_reason":null,"stop_reason":null}]}',
        )

    @staticmethod
    def object_name(streaming: bool) -> str:
        """The `object` field."""
        return "text_completion"

    @staticmethod
    def choice(index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """One choice of a whole answer."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}


Shape = type[ChatShape] | type[CompletionShape]


def tokens(ids: list[int], profile: EngineProfile) -> bytes:
    """The answer of /tokenize."""
    longest = min(profile.max_context, profile.num_blocks * profile.block_size)
    return encode({"count": len(ids), "max_model_len": longest, "tokens": ids, "token_strs": None})


def models(model: str, profile: EngineProfile, created: int) -> bytes:
    """The answer of /v1/models."""
    card = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": model,
        "parent": None,
        "max_model_len": min(profile.max_context, profile.num_blocks * profile.block_size),
        "permission": [],
    }
    return encode({"object": "list", "data": [card]})


def embeddings(model: str, jobs: list[Job], digests: list[int], base64: bool) -> bytes:
    """The answer of /v1/embeddings: unit vectors that depend on the content alone."""
    vectors = [_vector(digest) for digest in digests]
    data = [
        {"object": "embedding", "index": i, "embedding": _packed(v) if base64 else v} for i, v in enumerate(vectors)
    ]
    tokens = sum(job.prompt_tokens for job in jobs)
    used = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    return encode({"object": "list", "data": data, "model": model, "usage": used})


def _vector(digest: int) -> list[float]:
    raw = [((digest >> (4 * i)) & 15) - 7.5 for i in range(_DIMENSIONS)]
    norm = sum(x * x for x in raw) ** 0.5
    return [x / norm for x in raw]


def _packed(vector: list[float]) -> str:
    return b64encode(pack(f"<{len(vector)}f", *vector)).decode()

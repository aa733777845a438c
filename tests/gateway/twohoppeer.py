"""Two engines as vLLM's KV connectors make them: one computes prompts and keeps the cache, one takes it over.

Both look at every field of the protocol (vLLM, tests/v1/kv_connector/nixl_integration/toy_proxy_server.py, and
NixlConnector's `request_finished` and `get_num_new_matched_tokens`) and note what is wrong in `faults`.
"""

import asyncio
import json
from typing import Any

from tests.gateway.tinyengine import Engine, _raw, _Request, _usage, _whole

ASKED = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class Pair:
    """What both know of transfers: caches that wait to be taken over, by request id."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.caches: dict[bytes, dict[str, Any]] = {}
        self.num_transferred = 0

    def must(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(what)


class PrefillEngine(Engine):
    """`misbehave`: "" | "busy" | "error" | "nothing" (no parameters) | "garbage" | "slow"."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.misbehave = ""
        self.num_prompts = 0
        self.cached: int | None = None  # prompt tokens that it had already, as it tells; None: it does not

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        if request.method == b"GET":
            await self._page(request, writer)
            return
        body, must = json.loads(request.body), self.pair.must
        request_id = request.headers.get(b"x-request-id", b"")
        must(body.get("stream") is False, "prefill: stream must be false")
        must(body.get("max_tokens") == 1, "prefill: max_tokens must be 1")
        must(body.get("max_completion_tokens", 1) == 1, "prefill: max_completion_tokens must be 1")
        must("stream_options" not in body, "prefill: stream_options without a stream")
        must("min_tokens" not in body, "prefill: min_tokens forbids an answer of one token")
        must(body.get("kv_transfer_params") == ASKED, f"prefill: {body.get('kv_transfer_params')}")
        must(request_id.startswith(b"req-"), "prefill: no X-Request-Id")
        must(b"authorization" not in request.headers, "prefill: the client's key")
        self.num_prompts += 1
        await asyncio.sleep(self.gap)
        if self.misbehave == "slow":
            await asyncio.sleep(60)
        if self.misbehave in {"busy", "error"}:
            _whole(writer, 503 if self.misbehave == "busy" else 500, {"error": {"message": "no"}})
        elif self.misbehave == "garbage":
            _raw(writer, 200, b"application/json", b'{"kv_transfer_params": {"do_remote')
        else:
            _whole(writer, 200, self._told(body, request_id))
        await writer.drain()

    def _told(self, body: dict[str, Any], request_id: bytes) -> dict[str, Any]:
        """One token, and where the cache lies; nothing where the answer was over with that token."""
        params = None
        if self.misbehave != "nothing":
            params = {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_engine_id": "engine-7f3a",
                "remote_block_ids": [[3, 1, 4, 1, 5]],
                "remote_request_id": request_id.decode(),
                "remote_host": "10.0.0.7",
                "remote_port": 5600,
                "tp_size": 4,
            }
            self.pair.caches[request_id] = params
        choice = {"index": 0, "message": {"role": "assistant", "content": "w"}, "finish_reason": "length"}
        usage = _usage(body) | {"prompt_tokens_details": {"cached_tokens": self.cached}}
        return {
            "id": "x",
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage,
            "kv_transfer_params": params,
        }


class DecodeEngine(Engine):
    """`lose`: so many transfers fail with 500, as `kv_load_failure_policy: fail` does."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.lose = 0
        self.num_mixed = 0

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        if request.method == b"GET":
            await self._page(request, writer)
            return
        body = json.loads(request.body)
        params = body.get("kv_transfer_params")
        request_id = request.headers.get(b"x-request-id", b"")
        if params is None:
            self.num_mixed += 1
        else:
            cache = self.pair.caches.pop(request_id, None)
            self.pair.must(cache is not None, f"decode: no cache is kept for {request_id!r}")
            self.pair.must(params == cache, f"decode: {params} instead of {cache}")
            if self.lose:
                self.lose -= 1
                _whole(writer, 500, {"error": {"message": "KV load failed"}})
                await writer.drain()
                return
            self.pair.num_transferred += 1
        await super()._answer(request, writer)

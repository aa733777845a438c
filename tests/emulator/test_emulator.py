"""The emulated replica as clients meet it: shapes, counts, timing, refusals, cancellation, prefix hits."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from plimsoll.engine.steptime import unloaded_e2e, unloaded_ttft

PROFILE = profiles.load("h100-llama70b-tp4")


def served(
    test: Callable[[Emulator, httpx.AsyncClient], Awaitable[None]], profile: str = "", speed: float = 1.0
) -> None:
    """Run a test against an emulated replica on a free port."""

    async def run() -> None:
        emulator = Emulator(profiles.load(profile) if profile else PROFILE, speed=speed)
        port = await emulator.start()
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
                await test(emulator, client)
        finally:
            await emulator.close()

    asyncio.run(run())


async def events(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[tuple[float, str]]:
    """The events of a stream with their instants."""
    clock = asyncio.get_running_loop().time
    async with client.stream("POST", path, json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return [(clock(), line.removeprefix("data: ")) async for line in response.aiter_lines() if line]


def test_a_chat_stream_has_one_token_an_event_and_true_usage() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        body = {"messages": [{"role": "user", "content": "x" * 400}], "max_tokens": 7, "ignore_eos": True}
        told = await events(client, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
        assert told[-1][1] == "[DONE]"
        chunks = [json.loads(text) for _, text in told[:-1]]
        deltas = [chunk["choices"][0] for chunk in chunks[:-1]]
        assert deltas[0]["delta"] == {"role": "assistant", "content": ""}
        assert all(choice["delta"]["content"].startswith(" ") for choice in deltas[1:])
        assert [choice["finish_reason"] for choice in deltas] == [None] * 7 + ["length"]
        assert chunks[-1]["choices"] == []
        usage = chunks[-1]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len("<|user|>" + "x" * 400) // 4, 7)
        assert len({chunk["id"] for chunk in chunks}) == 1

    served(test)


def test_tokens_come_when_the_model_says() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        await client.get("/health")  # the connection is made
        clock = asyncio.get_running_loop().time
        began = clock()
        told = await events(client, "/v1/completions", {"prompt": [7] * 2000, "max_tokens": 11, "ignore_eos": True})
        first, last = told[0][0] - began, told[-2][0] - began
        assert unloaded_ttft(PROFILE, 2000) <= first < unloaded_ttft(PROFILE, 2000) + 0.1  # never early
        assert unloaded_e2e(PROFILE, 2000, 11) <= last < unloaded_e2e(PROFILE, 2000, 11) + 0.1

    served(test)


def test_whole_answers_choices_and_token_prompts() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        body = {"prompt": [[1, 2, 3], [4, 5]], "n": 2, "max_tokens": 4, "ignore_eos": True}
        answer = (await client.post("/v1/completions", json=body)).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert all(choice["text"].count(" ") == 4 for choice in answer["choices"])
        assert answer["usage"]["prompt_tokens"] == 5
        assert answer["usage"]["completion_tokens"] == 16
        same = (await client.post("/v1/completions", json=body)).json()
        assert [c["text"] for c in same["choices"]] == [c["text"] for c in answer["choices"]]

    served(test, speed=50)


def test_models_may_end_by_themselves() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        body = {"messages": [{"role": "user", "content": "short, please"}], "max_tokens": 100_000}
        choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert 50 <= choice["message"]["content"].count(" ") <= 500

    served(test, speed=200)


def test_a_client_that_leaves_frees_its_slot_at_once() -> None:
    async def test(emulator: Emulator, client: httpx.AsyncClient) -> None:
        body = {"prompt": "x" * 4000, "max_tokens": 5000, "ignore_eos": True, "stream": True}
        async with client.stream("POST", "/v1/completions", json=body) as response:
            await anext(response.aiter_lines())
            assert emulator.engine.report().running == 1
        for _ in range(100):
            if emulator.engine.report().running == 0:
                break
            await asyncio.sleep(0.002)
        assert emulator.engine.report().running == 0
        assert emulator.engine.report().kv_usage == 0.0

    served(test)


def test_shared_beginnings_hit_the_prefix_cache() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        system = {"role": "system", "content": "You are a harbour master. " * 40}
        for question in ("May I load more?", "Which mark holds in winter?"):
            body = {"messages": [system, {"role": "user", "content": question}], "max_tokens": 2}
            usage = (await client.post("/v1/chat/completions", json=body)).json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= 192
        text = (await client.get("/metrics")).text
        assert float(re.findall(r"vllm:prefix_cache_hits_total{.*} (\S+)", text)[0]) >= 192

    served(test, speed=20)


def test_metrics_tell_what_the_engine_knows() -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        from prometheus_client.parser import text_string_to_metric_families

        body = {"prompt": "x" * 4000, "max_tokens": 5000, "ignore_eos": True, "stream": True}
        async with client.stream("POST", "/v1/completions", json=body) as response:
            await anext(response.aiter_lines())
            families = {f.name: f for f in text_string_to_metric_families((await client.get("/metrics")).text)}
        assert families["vllm:num_requests_running"].samples[0].value == 1
        assert 0 < families["vllm:kv_cache_usage_perc"].samples[0].value < 0.01
        assert families["vllm:cache_config_info"].samples[0].labels["num_gpu_blocks"] == "26000"
        assert families["vllm:num_preemptions"].type == "counter"

    served(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/v1/completions", b"{", 400, "JSON decode error"),
        ("/v1/completions", b"[]", 400, "not an object"),
        ("/v1/completions", b'{"prompt": 3}', 400, "prompt: text, token ids"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": -5}', 400, "max_tokens must be an integer of at least 1"),
        ("/v1/completions", b'{"prompt": "a", "n": 0}', 400, "n must be"),
        ("/v1/chat/completions", b'{"messages": "x"}', 400, "Input should be a valid list"),
        ("/v1/completions", b'{"model": "other", "prompt": "a"}', 404, "The model `other` does not exist."),
        ("/v1/completions", json.dumps({"prompt": [1] * 200_000}).encode(), 400, "maximum context length is 131072"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 200000}', 400, "you requested 200000 output tokens"),
        ("/v1/nothing", b"{}", 404, "Not Found"),
    ],
)
def test_refusals_as_vllm_words_them(path: str, body: bytes, status: int, told: str) -> None:
    async def test(_: Emulator, client: httpx.AsyncClient) -> None:
        response = await client.post(path, content=body)
        assert response.status_code == status
        assert told in response.text
        if path != "/v1/nothing":
            assert response.json()["error"]["code"] == status

    served(test)


def test_the_official_client_reads_it() -> None:
    async def test(emulator: Emulator, _: httpx.AsyncClient) -> None:
        from openai import AsyncOpenAI

        async with AsyncOpenAI(base_url=f"http://127.0.0.1:{emulator.port}/v1", api_key="none") as client:
            (model,) = (await client.models.list()).data
            stream = await client.chat.completions.create(
                model=model.id, messages=[{"role": "user", "content": "hello"}], max_tokens=5, stream=True
            )
            assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]).count(" ") == 5
            embedded = await client.embeddings.create(model=model.id, input=["a", "b"])
            assert len(embedded.data) == 2
            assert sum(x * x for x in embedded.data[0].embedding) == pytest.approx(1.0, rel=1e-3)

    served(test, speed=20)


def test_pipelined_and_chunked_requests_and_expect() -> None:
    async def test(emulator: Emulator, _: httpx.AsyncClient) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.port)
        body = b'{"prompt":"a","max_tokens":2}'
        plain = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        chunked = (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
        )
        writer.write(plain + chunked)
        assert (await reader.readuntil(b"}}}")).count(b"HTTP/1.1 200") == 1
        assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert b'"completion_tokens":2' in await reader.readuntil(b"}}}")
        writer.write(b"nonsense\r\n\r\n")
        assert b"400" in await reader.read()
        writer.close()
        await writer.wait_closed()

    served(test, speed=50)

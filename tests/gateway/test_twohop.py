"""Prefill and decode on engines apart, through a whole gateway, before a peer that checks every field."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.gateway.app import App
from plimsoll.governor.snapshot import PoolState
from plimsoll.policy.policy import GatewayRules, Timeouts
from tests.gateway.liveapp import CHAT, policy_for, records, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import until
from tests.gateway.twohoppeer import DecodeEngine, Pair, PrefillEngine

STREAM = CHAT | {"stream": True}


class Service:
    """The gateway, its client, and the engines behind it."""

    def __init__(self, app: App, client: httpx.AsyncClient, prefill: list[PrefillEngine], decode: DecodeEngine) -> None:
        self.app, self.client, self.prefill, self.decode = app, client, prefill, decode
        self.pair = decode.pair

    async def ask(self, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
        return await self.client.post(path, json=body)

    @property
    def pool(self) -> PoolState:
        return self.app.governor.snapshot(self.app.clock()).pools[0]


@asynccontextmanager
async def service(directory: Path, *, num_prefill: int = 1, prefill_from: int = 0) -> AsyncIterator[Service]:
    pair = Pair()
    prefill = [await PrefillEngine(pair).start() for _ in range(num_prefill)]
    decode = await DecodeEngine(pair).start()
    policy = policy_for(decode.url)
    (pool,) = policy.pools
    pool = replace(pool, prefill=tuple(each.url for each in prefill), prefill_from=prefill_from)
    rules = GatewayRules(probe_every=0.1, timeouts=Timeouts(first_byte=0.7, total=10.0))
    policy = replace(policy, pools=(pool,), gateway=rules)
    try:
        async with running(policy, directory) as (app, client):
            yield Service(app, client, prefill, decode)
            assert pair.faults == []
            assert all(each.pending_prompt == 0 for each in app.governor.snapshot(app.clock()).pools[0].prefillers)
            assert all(each.pending_prompt == 0 for each in app.governor.snapshot(app.clock()).pools[0].replicas)
    finally:
        for engine in (*prefill, decode):
            await engine.stop()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", STREAM),
        ("/v1/chat/completions", STREAM | {"stream_options": {"include_usage": True}, "min_tokens": 2}),
        ("/v1/chat/completions", {"model": "m", "messages": CHAT["messages"], "max_completion_tokens": 3}),
        ("/v1/completions", {"model": "m", "prompt": "hello", "max_tokens": 3, "stream": True}),
        ("/v1/chat/completions", STREAM | {"kv_transfer_params": {"do_remote_decode": False}}),
    ],
)
def test_the_prompt_is_computed_there_and_the_cache_taken_over(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as it:
            answer = await it.ask(body, path)
            assert answer.status_code == 200
            assert "kv_transfer_params" not in answer.text, "what engines tell each other is not the client's"
            assert (it.prefill[0].num_prompts, it.pair.num_transferred, it.decode.num_mixed) == (1, 1, 0)
            told = json.loads(it.decode.bodies[0])
            for name in body.keys() - {"kv_transfer_params", "stream_options"}:
                assert told[name] == body[name], "the second hop is as the client sent it"
        (record,) = records(tmp_path)
        assert record.outcome == "completed"
        assert record.prefill == it.prefill[0].url
        assert record.replica == it.decode.url

    run(scenario)


@pytest.mark.parametrize("cached", [4, 0, None])
@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
def test_a_cache_that_was_taken_over_is_none_that_was_hit(
    tmp_path: Path, body: dict[str, Any], cached: int | None
) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as it:
            it.prefill[0].cached = cached
            await it.ask(body)
            assert it.pair.num_transferred == 1
        (record,) = records(tmp_path)
        assert (record.prompt_tokens, record.cached_tokens) == (9, cached)

    run(scenario)


@pytest.mark.parametrize("fault", ["busy", "error", "nothing", "garbage", "slow", "gone"])
def test_where_the_first_hop_fails_one_engine_does_both(tmp_path: Path, fault: str) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as it:
            if fault == "gone":
                await it.prefill[0].stop()
            else:
                it.prefill[0].misbehave = fault
            answer = await it.ask(STREAM)
            assert answer.text.count("word ") == 3
            assert (it.pair.num_transferred, it.decode.num_mixed) == (0, 1)
            sent = it.pool.prefillers[0].sent  # none where a probe saw that it is gone before we did
            assert it.pool.prefillers[0].failed == sent >= (fault != "gone")
            assert not it.pool.prefillers[0].routable, "it is left alone for a while"
            await it.ask(STREAM)
            assert it.pool.prefillers[0].sent == sent
        assert [record.prefill for record in records(tmp_path)] == ["", ""]
        assert [record.attempts for record in records(tmp_path)] == [1, 1]

    run(scenario)


def test_where_the_transfer_fails_the_same_engine_computes_the_prompt(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as it:
            it.decode.lose = 1
            answer = await it.ask(STREAM)
            assert answer.text.count("word ") == 3
            assert (it.pair.num_transferred, it.decode.num_mixed) == (0, 1)
        (record,) = records(tmp_path)
        assert (record.attempts, record.prefill, record.outcome) == (2, "", "completed")

    run(scenario)


def test_prompts_are_shared_out_and_what_cannot_be_handed_over_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path, num_prefill=2, prefill_from=20) as it:
            long = {"model": "m", "messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 3}
            for each in it.prefill:
                each.gap = 0.2
            await asyncio.gather(*[it.ask(long) for _ in range(4)])
            assert [each.num_prompts for each in it.prefill] == [2, 2]
            await it.ask(CHAT)
            await it.ask(long | {"n": 2})
            assert it.decode.num_mixed == 2, "too short, and two answers from one cache"

    run(scenario)


def test_a_client_that_leaves_during_the_first_hop_ends_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as it:
            it.prefill[0].misbehave = "slow"
            asking = asyncio.create_task(it.ask(STREAM))
            await until(lambda: it.prefill[0].num_prompts)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await until(lambda: not it.pool.in_flight)
            assert not it.decode.bodies
        (record,) = records(tmp_path)
        assert record.outcome == "aborted"

    run(scenario)

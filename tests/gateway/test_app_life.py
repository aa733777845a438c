"""A gateway's life on real sockets: serve, reload without a dropped request, drain, refuse with the right words."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.errors import UsageError
from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import wall_clock
from plimsoll.policy.policy import GatewayRules
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage.journal import Journal
from tests.gateway.liveapp import CHAT, policy_for, records, renamed, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import engines, until

STREAM = CHAT | {"stream": True}


def endings(directory: Path) -> list[tuple[Outcome, Reason]]:
    return [(record.outcome, record.reason) for record in records(directory)]


def routable(app: App) -> list[bool]:
    return [replica.routable for pool in app.governor.snapshot(app.clock()).pools for replica in pool.replicas]


async def chat(client: httpx.AsyncClient, **members: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=CHAT | members)


def test_a_request_and_a_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), running(policy_for(engine.url), tmp_path) as (app, client):
            assert app.unready() == []
            answer = await chat(client)
            assert answer.status_code == 200
            assert answer.json()["usage"]["completion_tokens"] == 3
            assert answer.headers["x-plimsoll-request-id"].startswith("req-")
            streamed = await client.post("/v1/chat/completions", json=STREAM, headers={"x-request-id": "mine"})
            assert streamed.headers["x-request-id"] == "mine"
            assert streamed.text.endswith("data: [DONE]\n\n")
            assert "usage" not in streamed.text, "the client did not ask for it"
            assert json.loads(engine.bodies[-1])["stream_options"] == {"include_usage": True}
            assert b"authorization" not in engine.headers[-1]
            assert app.driver.num_open == 0

    run(scenario)
    assert endings(tmp_path) == [(Outcome.COMPLETED, Reason.DONE)] * 2


def test_refusals_reach_the_client_and_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), running(policy_for(engine.url), tmp_path) as (_, client):
            unknown = await chat(client, model="gpt-9")
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
            assert "known: m" in unknown.json()["error"]["message"]
            long = await chat(client, messages=[{"role": "user", "content": "word " * 20_000}])
            assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
            assert "4096" in long.json()["error"]["message"]
            bad = await client.post("/v1/chat/completions", content=b'{"model": "m", "messages": [}')
            assert (bad.status_code, bad.json()["plimsoll"]["reason"]) == (400, "bad_request")
            assert "(byte 28)" in bad.json()["error"]["message"]
            stranger = await client.get("/v1/models", headers={"authorization": "Bearer no"})
            assert stranger.status_code == 401

    run(scenario)
    reasons = [reason for _, reason in endings(tmp_path)]
    assert reasons == [Reason.UNKNOWN_MODEL, Reason.PROMPT_TOO_LONG, Reason.BAD_REQUEST]


def test_a_body_over_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            policy = replace(policy_for(engine.url), gateway=GatewayRules(max_body=1000, probe_every=0.1))
            async with running(policy, tmp_path) as (_, client):
                answer = await chat(client, messages=[{"role": "user", "content": "x" * 2000}])
                assert answer.status_code == 413
                assert "1000" in answer.json()["error"]["message"]

    run(scenario)
    assert endings(tmp_path) == [(Outcome.REJECTED, Reason.BODY_TOO_LARGE)]


def test_a_reload_drops_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines(2) as (one, two), running(policy_for(one.url), tmp_path) as (app, client):
            one.gap = 0.05
            open_stream = asyncio.create_task(client.post("/v1/chat/completions", json=STREAM | {"max_tokens": 10}))
            await until(lambda: one.num_running)
            await app.change_policy(Promise(renamed(policy_for(two.url), "sk-new"), {}))
            assert (await chat(client)).status_code == 401
            client.headers["authorization"] = "Bearer sk-new"
            assert (await chat(client)).status_code == 200
            assert len(two.bodies) == 1
            assert (await open_stream).text.endswith("data: [DONE]\n\n")

    run(scenario)
    assert endings(tmp_path) == [(Outcome.COMPLETED, Reason.DONE)] * 2


def test_a_drain_lets_open_requests_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), running(policy_for(engine.url), tmp_path) as (app, client):
            engine.gap = 0.05
            open_stream = asyncio.create_task(client.post("/v1/chat/completions", json=STREAM | {"max_tokens": 10}))
            await until(lambda: engine.num_running)
            await app.drain()
            assert app.unready()
            assert (await open_stream).text.endswith("data: [DONE]\n\n")
            with pytest.raises(httpx.ConnectError):
                await chat(client)

    run(scenario)
    assert endings(tmp_path) == [(Outcome.COMPLETED, Reason.DONE)]


def test_a_drain_ends_what_takes_too_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), running(policy_for(engine.url, drain=0.3), tmp_path) as (app, client):
            engine.gap = 0.1
            open_stream = asyncio.create_task(client.post("/v1/chat/completions", json=STREAM | {"max_tokens": 100}))
            await until(lambda: engine.num_running)
            await app.drain()
            try:
                text = (await open_stream).text
            except httpx.RemoteProtocolError:
                text = "drain_timeout"
            assert "drain_timeout" in text

    run(scenario)
    assert endings(tmp_path) == [(Outcome.EVICTED, Reason.DRAIN_TIMEOUT)]


def test_an_engine_that_dies_is_left_alone_and_one_that_comes_back_is_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines(2) as (one, two), running(policy_for(one.url, two.url), tmp_path) as (app, client):
            await one.stop()
            for _ in range(6):
                assert (await chat(client)).status_code == 200
            await two.stop()
            await until(lambda: not any(routable(app)))
            assert len(app.unready()) == 3
            refused = await chat(client)
            assert (refused.status_code, refused.json()["plimsoll"]["reason"]) == (503, "no_replica")
            await one.start()
            await until(lambda: any(routable(app)))
            assert (await chat(client)).status_code == 200

    run(scenario)
    assert len(endings(tmp_path)) == 8


def test_a_huge_prompt_does_not_hold_up_a_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), running(policy_for(engine.url), tmp_path) as (_, client):
            engine.gap = 0.02
            gaps: list[float] = []
            huge = json.dumps(CHAT | {"messages": [{"role": "user", "content": "word " * 800_000}]}).encode()
            async with client.stream("POST", "/v1/chat/completions", json=STREAM | {"max_tokens": 60}) as stream:
                posts = [asyncio.create_task(client.post("/v1/chat/completions", content=huge)) for _ in range(3)]
                last = asyncio.get_running_loop().time()
                async for _ in stream.aiter_raw():
                    now = asyncio.get_running_loop().time()
                    gaps.append(now - last)
                    last = now
                assert {(await post).status_code for post in posts} == {400}
            assert sorted(gaps)[len(gaps) // 2] < 0.2

    run(scenario)


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            clock = wall_clock()
            app = App(Promise(policy_for(engine.url), {}), Journal.open(tmp_path, clock=clock), clock)
            try:
                with pytest.raises(UsageError, match=f"port {engine.port} .* in use .* --port"):
                    await app.listen("127.0.0.1", engine.port)
            finally:
                await app.close()

    run(scenario)

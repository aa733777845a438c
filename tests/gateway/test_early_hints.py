"""103 Early Hints through a whole gateway: for clients that ask, in the order of the wire, and for nobody else."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import httpx
import openai
import pytest
from msgspec.structs import replace

from plimsoll.gateway.app import App
from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.governor.events import BudgetsReported, BudgetState, RequestArrived
from plimsoll.policy.policy import Degradation, Policy, Trigger
from plimsoll.slo.outcome import Reason
from tests.gateway.doubles import RawClient
from tests.gateway.drivenworld import World
from tests.gateway.liveapp import CHAT, KEY, policy_for, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import Engine, engines, until

ASK = b"X-Plimsoll-Early-Hints: 1\r\n"
DEGRADABLE = b"X-Plimsoll-Criticality: default\r\n"
STREAM = CHAT | {"stream": True}
NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="no curl here")


def post(extra: bytes = b"", body: dict[str, Any] = CHAT, version: bytes = b"1.1") -> bytes:
    data = json.dumps(body).encode()
    head = b"POST /v1/chat/completions HTTP/%b\r\nHost: g\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n%b\r\n"
    return head % (version, KEY.encode(), len(data), extra) + data


def policy(url: str) -> Policy:
    """One request at a time, and a ladder whose first level takes what is not core."""
    made = policy_for(url)
    ladder = Degradation(Trigger("ttft", 9.0, 60.0), ("drop_plugins",))
    return replace(made, pools=(replace(made.pools[0], max_concurrency=1),), degradation=ladder)


@asynccontextmanager
async def service(directory: Path) -> AsyncIterator[tuple[App, Engine, int, httpx.AsyncClient]]:
    async with engines() as (engine,), running(policy(engine.url), directory) as (app, client):
        yield app, engine, client.base_url.port or 0, client


async def connect(port: int) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", port))


def spend(app: App) -> None:
    """The tenant's budget is spent: what is not critical of it is degraded."""
    app.reported(BudgetsReported(app.clock(), (BudgetState("acme", "availability", 0.96, degrade=True),)))


@asynccontextmanager
async def busy(engine: Engine, client: httpx.AsyncClient, gap: float = 0.2) -> AsyncIterator[None]:
    """While another request holds the only place; it ends by itself."""
    engine.gap = gap
    other = asyncio.create_task(client.post("/v1/chat/completions", json=STREAM))
    await until(lambda: engine.num_running == 1)
    yield
    assert (await other).status_code == 200


def test_who_asks_hears_that_it_waits_then_gets_its_answer_and_may_ask_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (_, engine, port, client):
            raw = await connect(port)
            async with busy(engine, client):
                await raw.send(post(ASK))
                assert await raw.head() == b"HTTP/1.1 103 Early Hints\r\nx-plimsoll-queued: pool_full\r\n\r\n"
                head, body = await raw.answer()
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert json.loads(body)["object"] == "chat.completion"
            await raw.send(post(ASK, STREAM))
            head, body = await raw.answer()
            assert head.startswith(b"HTTP/1.1 200 OK\r\n"), "nobody waits now: no hint, and the connection is as before"
            assert body.endswith(b"data: [DONE]\n\n")
            assert b"x-plimsoll-early-hints" not in engine.headers[-1], "it is between the client and us"
            await raw.close()

    run(scenario)


@pytest.mark.parametrize(
    "request_bytes",
    [post(), post(b"X-Plimsoll-Early-Hints: 0\r\n"), post(ASK, version=b"1.0")],
    ids=["did not ask", "asked for none", "HTTP/1.0 has none"],
)
def test_nobody_else_hears_of_it(tmp_path: Path, request_bytes: bytes) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (app, engine, port, client):
            spend(app)
            raw = await connect(port)
            async with busy(engine, client):
                await raw.send(request_bytes.replace(b"Host: g\r\n", b"Host: g\r\n" + DEGRADABLE))
                head, _ = await raw.answer()
                assert head.startswith(b"HTTP/1.1 200 ")
                assert b"x-plimsoll-degraded: drop_plugins\r\n" in head
            await raw.close()

    run(scenario)


def test_what_is_taken_is_told_before_the_answer_and_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (app, engine, port, client):
            spend(app)
            raw = await connect(port)
            await raw.send(post(ASK + DEGRADABLE))
            assert await raw.head() == b"HTTP/1.1 103 Early Hints\r\nx-plimsoll-degraded: drop_plugins\r\n\r\n"
            head, _ = await raw.answer()
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"x-plimsoll-degraded: drop_plugins\r\n" in head
            async with busy(engine, client):
                await raw.send(post(ASK + DEGRADABLE))
                told = await raw.head()
                assert b"x-plimsoll-queued: pool_full\r\nx-plimsoll-degraded: drop_plugins\r\n" in told
                head, _ = await raw.answer()
                assert head.startswith(b"HTTP/1.1 200 "), "what was told while it waited is not told again"
            await raw.close()

    run(scenario)


def test_pipelined_requests_have_their_hints_in_their_own_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (app, _, port, _client):
            spend(app)
            raw = await connect(port)
            await raw.send(post(ASK + DEGRADABLE) + post() + post(ASK + DEGRADABLE))
            statuses = [(await raw.head())[9:12]]
            statuses += [(await raw.answer())[0][9:12] for _ in range(2)]
            statuses += [(await raw.head())[9:12], (await raw.answer())[0][9:12]]
            assert statuses == [b"103", b"200", b"200", b"103", b"200"]
            await raw.close()

    run(scenario)


def test_a_strict_client_takes_it_for_what_it_is(tmp_path: Path) -> None:
    """h11 raises at whatever a client may not accept."""

    async def scenario() -> None:
        async with service(tmp_path) as (app, engine, port, client):
            spend(app)
            strict = h11.Connection(h11.CLIENT)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for round_number in range(2):
                data = json.dumps(STREAM).encode()
                asked = [
                    ("Host", "g"), ("Authorization", f"Bearer {KEY}"), ("Content-Length", str(len(data))),
                    ("X-Plimsoll-Early-Hints", "1"), ("X-Plimsoll-Criticality", "default"),
                ]  # fmt: skip
                async with busy(engine, client):
                    request = h11.Request(method="POST", target="/v1/chat/completions", headers=asked)
                    writer.write(
                        (strict.send(request) or b"")
                        + (strict.send(h11.Data(data=data)) or b"")
                        + (strict.send(h11.EndOfMessage()) or b"")
                    )
                    events: list[Any] = []
                    while not events or not isinstance(events[-1], h11.EndOfMessage):
                        event = strict.next_event()
                        if event is h11.NEED_DATA:
                            strict.receive_data(await reader.read(65536))
                        else:
                            events.append(event)
                kinds = [type(event) for event in events if not isinstance(event, h11.Data)]
                assert kinds == [h11.InformationalResponse, h11.Response, h11.EndOfMessage], round_number
                assert (events[0].status_code, events[1].status_code) == (103, 200)
                assert dict(events[0].headers)[b"x-plimsoll-degraded"] == b"drop_plugins"
                strict.start_next_cycle()
            writer.close()

    run(scenario)


async def curl(port: int, body: dict[str, Any], num: int) -> tuple[bytes, bytes]:
    """What it gets and what it says of it, asking so many times, one after the other."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    fields = [f"Authorization: Bearer {KEY}", "X-Plimsoll-Early-Hints: 1", "X-Plimsoll-Criticality: default"]
    line = [*(word for field in fields for word in ("-H", field)), "-d", json.dumps(body), *[url] * num]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        shutil.which("curl") or "curl", "-q", "-sv", *line, stdout=pipe, stderr=pipe
    )
    out, err = await process.communicate()
    assert process.returncode == 0
    return out, err


@NEEDS_CURL
def test_curl_shows_it_and_uses_the_connection_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (app, _, port, _client):
            spend(app)
            out, err = await curl(port, CHAT, num=2)
            assert re.findall(rb"< HTTP/1.1 (\d+)", err) == [b"103", b"200", b"103", b"200"]
            assert b"Re-using existing connection" in err
            assert out.count(b'"chat.completion"') == 2

    run(scenario)


def test_the_official_client_goes_on_when_a_level_comes_and_goes_in_mid_traffic(tmp_path: Path) -> None:
    fields = {"X-Plimsoll-Early-Hints": "1", "X-Plimsoll-Criticality": "default"}

    async def scenario() -> None:
        async with service(tmp_path) as (app, engine, port, _):
            url = f"http://127.0.0.1:{port}/v1"
            client = openai.AsyncOpenAI(base_url=url, api_key=KEY, default_headers=fields, max_retries=0)

            async def degraded(num: int, *, stream: bool) -> str:
                """What was taken from an answer that came whole; "": nothing."""
                raw = client.chat.completions.with_raw_response
                messages: Any = CHAT["messages"]
                answer = await raw.create(model="m", messages=messages, max_tokens=num, stream=stream)
                told = answer.parse()
                if isinstance(told, openai.AsyncStream):
                    words = [chunk.choices[0].delta.content async for chunk in told if chunk.choices]
                    assert words == ["word "] * num
                return answer.headers.get("x-plimsoll-degraded", "")

            async with client:
                engine.gap = 0.05
                before = asyncio.create_task(degraded(12, stream=True))
                await until(lambda: engine.num_running == 1)
                spend(app)
                waited = [asyncio.create_task(degraded(3, stream=number > 0)) for number in range(3)]
                assert await before == "", "what had begun goes on as it began"
                assert await asyncio.gather(*waited) == ["drop_plugins"] * 3, "after a hint that it waits, too"
                app.reported(BudgetsReported(app.clock(), ()))
                assert await degraded(3, stream=True) == ""

    run(scenario)


@NEEDS_CURL
def test_curl_goes_on_when_a_level_comes_in_mid_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (app, engine, port, _):
            engine.gap = 0.05
            asking = asyncio.create_task(curl(port, STREAM | {"max_tokens": 12}, num=2))
            await until(lambda: engine.num_running == 1)
            spend(app)
            out, err = await asking
            assert re.findall(rb"< HTTP/1.1 (\d+)", err) == [b"200", b"103", b"200"]
            assert err.count(b"< x-plimsoll-degraded: drop_plugins") == 2, "by the hint and the answer of the second"
            assert (out.count(b"word "), out.count(b"[DONE]")) == (24, 2)

    run(scenario)


def test_a_hint_that_is_no_flag_is_a_fault(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with service(tmp_path) as (_, _engine, port, _client):
            raw = await connect(port)
            await raw.send(post(b"X-Plimsoll-Early-Hints: yes\r\n"))
            head, body = await raw.answer()
            assert head.startswith(b"HTTP/1.1 400 ")
            assert "x-plimsoll-early-hints: expected 1 or 0, got 'yes'" in json.loads(body)["error"]["message"]
            await raw.close()

    run(scenario)


def test_each_thing_is_told_once() -> None:
    """By a scripted governor: a wait, a first attempt, a second one, another level meanwhile."""
    world = World()
    world.governor.script = {RequestArrived: lambda event: [Enqueue(event.request_id, "gold", Reason.SATURATED, "x")]}
    exchange = world.send(x_plimsoll_early_hints=b"1")
    request_id = world.arrival.request_id

    def sent(degraded: str, attempt: int = 1) -> Dispatch:
        return Dispatch(request_id, "chat", "http://r1", "gold", Reason.RANK, 64, degraded=degraded, attempt=attempt)

    queued = {b"x-plimsoll-queued": b"saturated", b"x-plimsoll-degraded": b"x"}
    assert exchange.hints == [queued]
    world.driver.carrier.carry_out([sent("x")])
    assert exchange.hints == [queued]
    world.driver.carrier.carry_out([sent("x,y", 2)])
    assert exchange.hints == [queued, {b"x-plimsoll-degraded": b"x,y"}]
    world.driver.carrier.carry_out([sent("x,y", 3)])
    assert len(exchange.hints) == 2

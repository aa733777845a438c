"""Who waits for whom, and how long: timeouts, slow clients, bounded memory, limits, draining."""

import asyncio
import time

import pytest

from plimsoll.gateway.connection import ClientConnection
from plimsoll.policy.policy import GatewayRules, Timeouts
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.doubles import RawClient, Recorder, Served, post, serving
from tests.gateway.scripted import END, STREAM_HEAD, Script, ScriptedEngine, Step, chunk, json_answer, run, sse, token

pytestmark = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
FIRST = chunk(sse(token("a")))
SHORT = 0.15


@pytest.mark.parametrize(
    ("steps", "reason", "phase"),
    [
        (["hold"], Reason.FIRST_BYTE_TIMEOUT, Phase.PREFILL),
        ([STREAM_HEAD, "hold"], Reason.FIRST_BYTE_TIMEOUT, Phase.PREFILL),
        ([STREAM_HEAD, chunk(b"data: {"), "hold"], Reason.IDLE_TIMEOUT, Phase.PREFILL),
    ],
)
def test_an_engine_that_does_not_begin(loop: str, steps: list[Step], reason: Reason, phase: Phase) -> None:
    rules = GatewayRules(timeouts=Timeouts(first_byte=SHORT, idle=SHORT))

    async def test() -> None:
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url]), rules) as served:
            client = await served.client()
            began = time.monotonic()
            await client.send(post())
            assert (await client.answer())[0].startswith(b"HTTP/1.1 503 "), "the driver's answer: no other replica"
            assert time.monotonic() - began >= SHORT
            assert served.hands.log[1] == ("attempt_failed", (reason, 0.0, phase))
            await asyncio.wait_for(engine.gone.wait(), 5)

    run(test, loop)


def test_a_dial_that_hangs_is_given_up(loop: str) -> None:
    async def test() -> None:
        rules = GatewayRules(timeouts=Timeouts(connect=SHORT))
        async with serving(Recorder(["http://192.0.2.1:9"]), rules) as served:  # RFC 5737: nobody is there
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[0].startswith(b"HTTP/1.1 503 ")
            assert served.hands.log[1] == ("attempt_failed", (Reason.CONNECT_FAILED, 0.0, Phase.CONNECT))

    run(test, loop)


@pytest.mark.parametrize("started", [False, True])
def test_the_total_timeout_allows_no_other_attempt(loop: str, started: bool) -> None:
    rules = GatewayRules(timeouts=Timeouts(total=SHORT))
    steps: list[Step] = [STREAM_HEAD, FIRST, "hold"] if started else ["hold"]

    async def test() -> None:
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url] * 2), rules) as served:
            client = await served.client()
            await client.send(post())
            got = await client.until_close() if started else b"".join(await client.answer())
            assert b"total_timeout" in got
            assert started or got.startswith(b"HTTP/1.1 504 ")
            phase = Phase.DECODE if started else Phase.PREFILL
            assert served.hands.log[-1] == ("ended", (Outcome.FAILED, Reason.TOTAL_TIMEOUT, phase))
            assert len(engine.seen) == 1

    run(test, loop)


def test_a_stream_may_last_longer_than_every_pause_in_it(loop: str) -> None:
    rules = GatewayRules(timeouts=Timeouts(first_byte=1.5, idle=1.5))
    steps: list[Step] = [STREAM_HEAD]
    for _ in range(10):
        steps += [FIRST, 0.2]

    async def test() -> None:
        script = Script([*steps, chunk(sse("[DONE]")), END])
        async with ScriptedEngine([script]) as engine, serving(Recorder([engine.url]), rules) as served:
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[1] == sse(*[token("a")] * 10, "[DONE]")

    run(test, loop)


@pytest.mark.parametrize("part", [b"POST /v1/x HT", b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc"])
def test_a_client_that_does_not_finish_its_request(loop: str, part: bytes) -> None:
    rules = GatewayRules(timeouts=Timeouts(request=SHORT))

    async def test() -> None:
        async with serving(Recorder([]), rules) as served:
            client = await served.client()
            await client.send(part)
            assert (await client.until_close()).startswith(b"HTTP/1.1 408 ")
            assert served.hands.log == [("refusal", Reason.REQUEST_TIMEOUT)]

    run(test, loop)


def test_a_late_request_is_not_taken_for_the_one_before(loop: str) -> None:
    rules = GatewayRules(timeouts=Timeouts(request=SHORT))

    async def test() -> None:
        async with serving(Recorder([]), rules) as served:
            client = await served.client()
            await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"content-length: 31" in await client.head()
            await client.send(b"GET / HT")
            head, _, body = (await client.until_close()).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ")
            assert body == b'{"error":{"code":"request_timeout"}}', "the answer to a GET has a body"

    run(test, loop)


def test_an_idle_client_is_closed_without_a_word(loop: str) -> None:
    rules = GatewayRules(timeouts=Timeouts(keep_alive=SHORT))

    async def test() -> None:
        async with serving(Recorder([]), rules) as served:
            client = await served.client()
            await client.send(post())
            await client.answer()
            assert await client.until_close() == b""
            assert served.hands.words() == ["request"]

    run(test, loop)


# --- slow clients ---


def connection_of(served: Served) -> ClientConnection:
    (connection,) = served.server.connections
    return connection


async def slow(served: Served) -> RawClient:
    """A client that reads nothing by itself."""
    client = await served.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return client


def test_a_slow_client_holds_back_its_engine_and_nothing_is_lost(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.gateway.origin.IDLE_LIMIT", 60.0)  # reading 34 MB takes long on a busy machine
    event = sse(token("x" * 1000))
    num = 30_000  # 34 MB, more than all kernel buffers between
    buffer = 64 * 1024

    async def test() -> None:
        script = Script([STREAM_HEAD, *[chunk(event * 100)] * (num // 100), chunk(sse("[DONE]")), END])
        async with (
            ScriptedEngine([script, Script([json_answer(b"{}")])]) as engine,
            serving(Recorder([engine.url]), GatewayRules(stream_buffer=buffer)) as served,
        ):
            client = await slow(served)
            await client.send(post())
            await served.until(lambda: connection_of(served).paused)
            await asyncio.sleep(0.3)
            transport = connection_of(served)._transport
            assert transport is not None
            assert transport.get_write_buffer_size() <= buffer + 2 * 1024 * 1024, "one read beyond the limit at most"
            counted = served.hands.tokens[0].num_tokens
            assert counted < num
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            _, body = await client.answer()
            assert body == event * num + sse("[DONE]")
            assert served.hands.tokens[0].num_tokens == num
            assert served.hands.tokens[0].stalled > 0.25
            await client.send(post())
            assert (await client.answer())[1] == b"{}", "the engine's connection reads again, back in the pool"
            assert engine.num_connections == 1

    run(test, loop)


def test_a_client_that_reads_nothing_at_all_is_given_up(loop: str) -> None:
    event = chunk(sse(token("x" * 1000)) * 100)
    rules = GatewayRules(stream_buffer=64 * 1024, timeouts=Timeouts(client_stall=SHORT))

    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, *[event] * 1000, "hold"])]) as engine,
            serving(Recorder([engine.url]), rules) as served,
        ):
            client = await slow(served)
            await client.send(post())
            await served.settled()
            assert served.hands.log[-1] == ("ended", (Outcome.ABORTED, Reason.SLOW_CLIENT, Phase.DECODE))
            assert served.hands.tokens[0].stalled >= SHORT
            await asyncio.wait_for(engine.gone.wait(), 5)
            assert not served.server.connections

    run(test, loop)


def test_one_slow_client_does_not_hold_up_another(loop: str) -> None:
    event = chunk(sse(token("x" * 1000)) * 100)

    async def test() -> None:
        scripts = [Script([STREAM_HEAD, *[event] * 1000, "hold"]), Script([json_answer(b"{}")])]
        async with ScriptedEngine(scripts) as engine, serving(Recorder([engine.url])) as served:
            stuck = await slow(served)
            await stuck.send(post())
            await served.until(lambda: connection_of(served).paused)
            other = await served.client()
            await other.send(post())
            assert (await asyncio.wait_for(other.answer(), 10))[1] == b"{}"

    run(test, loop)


# --- limits ---


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n" + b"x" * 50_000, b"413"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", b"400"),
        (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00", b"400"),
    ],
)
def test_refusals_reach_the_client_although_it_is_still_sending(loop: str, request_bytes: bytes, status: bytes) -> None:
    async def test() -> None:
        async with serving(Recorder([]), GatewayRules(max_body=1000)) as served:
            client = await served.client()
            await client.send(request_bytes)
            got = await client.until_close()
            assert got.startswith(b"HTTP/1.1 " + status)
            assert b"connection: close" in got
            assert served.hands.words() == ["refusal"]
            client.writer.close()
            await served.until(lambda: not served.server.connections)

    run(test, loop)


def test_who_keeps_sending_after_a_refusal_is_cut_off(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.gateway.connection.LINGER", 0.1)

    async def test() -> None:
        async with serving(Recorder([]), GatewayRules(max_body=1000, timeouts=Timeouts(request=0.4))) as served:
            client = await served.client()

            async def keep_sending() -> None:
                await client.send(b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n")
                for _ in range(300):
                    await client.send(b"x" * 10_000)
                    await asyncio.sleep(0.01)

            with pytest.raises(ConnectionError):
                await keep_sending()

    run(test, loop)


def test_too_many_connections(loop: str) -> None:
    async def test() -> None:
        async with serving(Recorder([]), GatewayRules(max_connections=2)) as served:
            first, second = await served.client(), await served.client()
            for client in (first, second):
                await client.send(post())
                await client.answer()
            third = await served.client()
            assert (await third.until_close()).startswith(b"HTTP/1.1 503 ")
            assert served.hands.log[-1] == ("refusal", Reason.TOO_MANY_CONNECTIONS)
            first.writer.close()
            third.writer.close()
            await served.until(lambda: len(served.server.connections) == 1)
            fourth = await served.client()
            await fourth.send(post())
            assert (await fourth.answer())[1] == b'{"error":{"code":"no_replica"}}'

    run(test, loop)


def test_a_forbidden_body_is_not_read(loop: str) -> None:
    async def test() -> None:
        async with serving(Recorder([])) as served:
            served.hands.forbid = lambda _request: True
            client = await served.client()
            await client.send(b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
            assert (await client.until_close()).startswith(b"HTTP/1.1 401 ")
            assert served.hands.words() == ["head_read"]

    run(test, loop)


# --- draining ---


def test_draining_ends_what_runs_and_takes_nothing_new(loop: str) -> None:
    async def test() -> None:
        script = Script([STREAM_HEAD, FIRST, "gate", chunk(sse("[DONE]")), END])
        async with ScriptedEngine([script]) as engine, serving(Recorder([engine.url])) as served:
            idle, busy, partial = [await served.client() for _ in range(3)]
            await busy.send(post())
            await busy.head()
            await partial.send(post()[:40])
            await served.until(
                lambda: any(c._reader.started_at and c.exchange is None for c in served.server.connections)
            )
            served.server.drain()
            assert await idle.until_close() == b""
            with pytest.raises(OSError, match=r"."):
                await served.client()
            waiting = asyncio.ensure_future(served.server.drained())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            engine.gate.set()
            assert (await busy.until_close()).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            await partial.send(post()[40:])
            assert b"connection: close" in (await partial.until_close()).lower()
            await asyncio.wait_for(waiting, 10)

    run(test, loop)


def test_new_rules_hold_at_once(loop: str) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script(["hold"])]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await served.phase(Phase.PREFILL)
            served.server.rules = GatewayRules(timeouts=Timeouts(first_byte=SHORT))
            assert (await client.answer())[0].startswith(b"HTTP/1.1 503 ")

    run(test, loop)

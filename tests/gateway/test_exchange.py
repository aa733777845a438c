"""Requests and answers through real sockets, on both event loops: framing, order, what the driver is told and when."""

import asyncio
import gc
import sys
from functools import partial

import pytest

from plimsoll.gateway.hands import Exchange
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.doubles import Recorder, Served, post, serving
from tests.gateway.scripted import END, STREAM_HEAD, USAGE, Script, ScriptedEngine, chunk, json_answer, run, sse, token

pytestmark = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
DONE = (Outcome.COMPLETED, Reason.DONE, Phase.NONE)
BODY = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}'


def stream(*parts: bytes) -> list[bytes | float | str]:
    """A whole stream, one chunk a read."""
    steps: list[bytes | float | str] = [STREAM_HEAD]
    for part in parts:
        steps += [chunk(part), 0.01]
    return [*steps, END]


def test_a_plain_answer_passes_unchanged(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([json_answer(BODY, extra=b"x-engine: 1\r\n")])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            for _ in range(5):
                await client.send(post(b'{"model": "m"}'))
                head, body = await client.answer()
                assert body == BODY
                assert b"\r\nx-engine: 1\r\n" in head
                assert b"\r\ndate: " in head
            assert engine.num_connections == 1, "the engine's connection is kept"
            assert [seen.body for seen in engine.seen] == [b'{"model": "m"}'] * 5
            assert served.hands.ends[-1].usage.output_tokens == 3
            assert served.hands.ends[-1].status == 200
            assert served.hands.words() == ["request", "ended"] * 5

    run(test, loop)


def test_a_stream_passes_as_it_comes_and_is_settled_before_its_end(loop: str) -> None:
    async def test() -> None:
        script = Script([STREAM_HEAD, chunk(sse(token("a"))), "gate", chunk(sse(token("b"), "[DONE]")), END])
        async with ScriptedEngine([script]) as engine, serving(Recorder([engine.url])) as served:
            seen_at_end: list[bytes] = []
            client = await served.client()

            def on_end(_exchange: Exchange) -> None:
                seen_at_end.append(bytes(client.reader._buffer))  # type: ignore[attr-defined]

            served.hands.on_end = on_end
            await client.send(post())
            head = await client.head()
            assert b"transfer-encoding: chunked" in head
            first = sse(token("a"))
            assert await client.reader.readexactly(len(chunk(first))) == chunk(first)
            assert served.hands.words() == ["request", "first_token"]
            engine.gate.set()
            rest = await client._chunks()
            assert rest == sse(token("b"), "[DONE]")
            assert seen_at_end == [b""], "the books are closed before the client has the last bytes"
            assert served.hands.log[-1] == ("ended", DONE)
            assert [num for _, num in served.hands.tokens[0].calls] == [1, 1]

    run(test, loop)


def test_usage_is_hidden_and_read(loop: str) -> None:
    async def test() -> None:
        events = [sse(token("a")), sse(token("b")) + sse(USAGE), sse("[DONE]")]
        async with (
            ScriptedEngine([Script(stream(*events))]) as engine,
            serving(Recorder([engine.url], hide_usage=True)) as served,
        ):
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[1] == sse(token("a"), token("b"), "[DONE]")
            assert served.hands.ends[0].usage.output_tokens == 3

    run(test, loop)


def has_counted(served: Served, num: int) -> bool:
    return bool(served.hands.tokens) and served.hands.tokens[0].num_tokens == num


def test_outgrown_reservations_are_told_at_each_doubling(loop: str) -> None:
    async def test() -> None:
        steps: list[bytes | float | str] = [STREAM_HEAD]
        for _ in range(9):
            steps += [chunk(sse(token("a"))), "turn"]
        async with (
            ScriptedEngine([Script([*steps, chunk(sse("[DONE]")), END])]) as engine,
            serving(Recorder([engine.url], reserved=2)) as served,
        ):
            client = await served.client()
            await client.send(post())
            for num in range(1, 10):
                await served.until(partial(has_counted, served, num))
                engine.turns.release()
            await client.answer()
            assert [what for word, what in served.hands.log if word == "outgrown"] == [3, 5, 9]

    run(test, loop)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_every_framing_to_every_client(loop: str, version: bytes, framing: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    steps: list[bytes | float | str] = {
        "length": [head + b"content-length: 6\r\n\r\nabc", 0.01, b"def"],
        "chunked": [head + b"transfer-encoding: chunked\r\n\r\n" + chunk(b"abc"), 0.01, chunk(b"def") + END],
        "close": [head + b"\r\nabc", 0.01, b"def", "close"],
    }[framing]  # type: ignore[assignment]

    async def test() -> None:
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(b"GET /v1/x HTTP/%b\r\nHost: a\r\n\r\n" % version)
            if version == b"1.1":
                got, body = await client.answer()
                await client.send(b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await client.answer())[1] == b"abcdef", "the connection lives on"
            else:
                got, _, body = (await client.until_close()).partition(b"\r\n\r\n")
                assert b"chunked" not in got
                assert b"connection: close" in got + b"\r\n"
            assert body == b"abcdef"
            assert served.hands.log[-1] == ("ended", DONE)

    run(test, loop)


@pytest.mark.parametrize(
    ("request_line", "answer"),
    [
        (b"HEAD /v1/models HTTP/1.1", b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n"),
        (b"GET /v1/models HTTP/1.1", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET /v1/models HTTP/1.1", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 1234\r\n\r\n"),
        (b"GET /v1/models HTTP/1.1", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ],
)
def test_answers_without_a_body(loop: str, request_line: bytes, answer: bytes) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script([answer])]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            for _ in range(3):
                await client.send(request_line + b"\r\nHost: a\r\n\r\n")
                head = await client.head()
                assert head.split(b"\r\n")[0] == answer.split(b"\r\n")[0]
                assert (b"content-length: 1234" in head) == (b"1234" in answer)
                assert b"chunked" not in head
                assert b"content-length" not in engine.seen[-1].head, "a request without a body says nothing of one"
            assert served.hands.words().count("ended") == 3

    run(test, loop)


def test_interim_answers(loop: str) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"

    async def test() -> None:
        async with (
            ScriptedEngine([Script([interim + json_answer(b"{}")])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            early = await client.head()
            assert early.startswith(b"HTTP/1.1 103 Early Hints\r\n")
            assert b"link: </x>" in early
            assert (await client.answer())[0].startswith(b"HTTP/1.1 200 OK")
            old = await served.client()
            await old.send(b"GET /v1/x HTTP/1.0\r\nHost: a\r\n\r\n")
            assert (await old.until_close()).startswith(b"HTTP/1.1 200 OK"), "1.0 knows no interim answers"

    run(test, loop)


def test_hop_by_hop_fields_stay_on_their_hop(loop: str) -> None:
    extra = (
        b"Connection: close, X-Private\r\nX-Private: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        b"Proxy-Authorization: x\r\nProxy-Connection: y\r\nAccept-Encoding: gzip, br\r\nX-Kept: 1\r\n"
        b"Accept: text/event-stream\r\n"
    )
    answer = json_answer(
        b"{}",
        extra=b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authenticate: z\r\nX-Stays: 1\r\n",
    )

    async def test() -> None:
        async with ScriptedEngine([Script([answer])]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(post(extra=extra))
            head, _ = await client.answer()
            sent = engine.seen[0].head.lower()
            for gone in (b"x-private", b"keep-alive", b"te:", b"upgrade", b"proxy-", b"connection"):
                assert b"\r\n" + gone not in sent
            assert b"gzip" not in sent
            assert b"\r\nx-kept: 1\r\n" in sent
            assert b"\r\naccept-encoding: identity\r\n" in sent
            assert b"\r\nvia: 1.1 plimsoll\r\n" in sent
            assert engine.seen[0].header(b"host") == f"127.0.0.1:{engine.port}".encode()
            lower = head.lower()
            assert b"\r\nx-stays: 1\r\n" in lower
            for gone in (b"x-hop", b"keep-alive", b"proxy-authenticate"):
                assert gone not in lower
            assert b"\r\nconnection: close\r\n" in lower, "as the client asked"

    run(test, loop)


def test_pipelined_requests_are_answered_in_order(loop: str) -> None:
    async def test() -> None:
        scripts = [Script([0.05, json_answer(b'"first"')]), Script([json_answer(b'"second"')])]
        async with (
            ScriptedEngine([*scripts, Script([json_answer(b'"third"')])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post() + post())
            await client.send(post())
            assert [(await client.answer())[1] for _ in range(3)] == [b'"first"', b'"second"', b'"third"']

    run(test, loop)


def test_pipelining_is_bounded(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script(["gate", json_answer(b"{}")])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            client.writer.transport.set_write_buffer_limits(high=1 << 16)
            one = post(b"x" * 100_000)
            sending = asyncio.ensure_future(client.send(one * 150))
            await asyncio.sleep(0.2)
            (connection,) = served.server.connections
            assert connection._reader.buffered < 1 << 20
            assert not sending.done()
            engine.gate.set()
            for _ in range(150):
                assert (await client.answer())[1] == b"{}"
            await sending

    run(test, loop)


def test_an_answer_of_our_own(loop: str) -> None:
    async def test() -> None:
        async with serving(Recorder([])) as served:
            client = await served.client()
            for _ in range(2):
                await client.send(post() * 2)
                for _ in range(2):
                    head, body = await client.answer()
                    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\ndate: ")
                    assert body == b'{"error":{"code":"no_replica"}}'
            await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            head, _, body = (await client.until_close()).partition(b"\r\n\r\n")
            assert body == b""
            assert b"content-length: 31" in head

    run(test, loop)


def test_large_bodies_both_ways(loop: str) -> None:
    body = bytes(range(256)) * 20_000  # 5 MB

    async def test() -> None:
        async with ScriptedEngine([Script([json_answer(body)])]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            sending = asyncio.ensure_future(client.send(post(body)))
            assert (await client.answer())[1] == body
            await sending
            assert engine.seen[0].body == body

    run(test, loop)


@pytest.mark.parametrize(("trailers", "outcome"), [(1, Outcome.COMPLETED), (40_000, Outcome.FAILED)])
def test_trailers_are_bounded_by_themselves(loop: str, trailers: int, outcome: Outcome) -> None:
    """However long the body before them was."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    body: list[bytes | float | str] = [chunk(b" " * 30_000), 0.01] * 5

    async def test() -> None:
        script = Script([head, *body, b"0\r\n" + b"x-sum: 1\r\n" * trailers + b"\r\n"])
        async with ScriptedEngine([script]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await served.until(lambda: bool(served.hands.ends))
            assert served.hands.ends[0].outcome is outcome

    run(test, loop)


def test_a_chunked_request_reaches_the_engine_whole(loop: str) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script([json_answer(b"{}")])]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (b"abc", b"\r\n\r\n", b"def"):
                await client.send(chunk(part))
            await client.send(b"0\r\nX-Trailer: 1\r\n\r\n")
            assert (await client.answer())[1] == b"{}"
            assert engine.seen[0].body == b"abc\r\n\r\ndef"
            assert engine.seen[0].header(b"content-length") == b"10"
            assert engine.seen[0].header(b"transfer-encoding") is None

    run(test, loop)


def test_expect_continue(loop: str) -> None:
    ask = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nAuthorization: %b\r\nContent-Length: 3\r\n\r\n"

    async def test() -> None:
        async with ScriptedEngine([Script([json_answer(b"{}")])]) as engine, serving(Recorder([engine.url])) as served:
            served.hands.forbid = lambda request: request.header(b"authorization") != b"good"
            client = await served.client()
            await client.send(ask % b"good")
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"abc")
            assert (await client.answer())[1] == b"{}"
            assert engine.seen[0].header(b"expect") is None
            await client.send(ask % b"bad")
            assert (await client.until_close()).startswith(b"HTTP/1.1 401 ")
            assert len(engine.seen) == 1

    run(test, loop)


def test_a_content_coded_stream_passes_unseen(loop: str) -> None:
    async def test() -> None:
        head = STREAM_HEAD[:-2] + b"content-encoding: gzip\r\n\r\n"
        body = sse(token("a"), USAGE, "[DONE]")
        async with (
            ScriptedEngine([Script([head, chunk(body), END])]) as engine,
            serving(Recorder([engine.url], hide_usage=True)) as served,
        ):
            client = await served.client()
            await client.send(post())
            got, passed = await client.answer()
            assert passed == body
            assert b"content-encoding: gzip" in got
            assert served.hands.tokens[0].num_tokens == 0
            assert served.hands.ends[0].usage.output_tokens is None

    run(test, loop)


class Held:
    """What a driver hangs on an exchange: it points back, as the real one does."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange


class Holder(Recorder):
    """A recorder that does so."""

    def request(self, exchange: Exchange) -> None:
        exchange.context = Held(exchange)
        super().request(exchange)


@pytest.mark.parametrize("how", ["whole", "stream", "left"])
def test_a_finished_exchange_is_freed_at_once(loop: str, how: str) -> None:
    """Bodies in cycles would wait for the collector: a hundred megabytes of them under long prompts."""
    scripts = {
        "whole": Script([json_answer(BODY)]),
        "stream": Script(stream(sse(token("a")), sse("[DONE]"))),
        "left": Script(["hold"]),
    }

    async def test() -> None:
        async with ScriptedEngine([scripts[how]]) as engine, serving(Holder([engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await (client.answer() if how != "left" else served.phase(Phase.PREFILL))
            if how == "left":
                client.writer.close()
                await served.settled()
            exchange = served.hands.exchanges.pop()
            await asyncio.sleep(0.05)
            assert sys.getrefcount(exchange) <= 2, "somebody but this test still holds it"

    gc.disable()
    try:
        run(test, loop)
    finally:
        gc.enable()

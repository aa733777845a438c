"""What goes wrong, when, and what client and driver see of it."""

import asyncio
import socket

import pytest

from plimsoll.gateway.hands import Exchange
from plimsoll.policy.policy import GatewayRules, Timeouts
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.doubles import Recorder, post, serving
from tests.gateway.scripted import END, STREAM_HEAD, Script, ScriptedEngine, Step, chunk, json_answer, run, sse, token
from tests.real.parts import free_port

pytestmark = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
FIRST = chunk(sse(token("a")))


BEFORE_THE_HEAD: dict[str, tuple[list[Step], Reason]] = {
    "closed": (["close"], Reason.CONNECTION_LOST),
    "reset": (["reset"], Reason.CONNECTION_LOST),
    "half a head": ([b"HTTP/1.1 200 OK\r\ncontent-le", "close"], Reason.CONNECTION_LOST),
    "not HTTP": ([b"SSH-2.0-OpenSSH\r\n", "hold"], Reason.BAD_UPSTREAM),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na", "hold"],
        Reason.BAD_UPSTREAM,
    ),
    "both lengths": (
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\na", "hold"],
        Reason.BAD_UPSTREAM,
    ),
    "unknown coding": ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\na", "hold"], Reason.BAD_UPSTREAM),
    "chunked twice": ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n", "hold"], Reason.BAD_UPSTREAM),
    "folded field": ([b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n", "hold"], Reason.BAD_UPSTREAM),
    "endless head": ([b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 20_000, "hold"], Reason.BAD_UPSTREAM),
    "an upgrade": (
        [b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "hold"],
        Reason.BAD_UPSTREAM,
    ),
    "bad chunk at once": ([STREAM_HEAD + b"zz\r\n", "hold"], Reason.BAD_UPSTREAM),
    "status 000": ([b"HTTP/1.1 000 Odd\r\ncontent-length: 0\r\n\r\n", "hold"], Reason.BAD_UPSTREAM),
    "another protocol": ([b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n", "hold"], Reason.BAD_UPSTREAM),
    "a redirect": ([json_answer(b"{}", b"307 Away", b"location: http://10.0.0.1/\r\n")], Reason.ENGINE_ERROR),
    "error 500": ([json_answer(b"{}", b"500 Oh")], Reason.ENGINE_ERROR),
    "error 502 unfinished": ([b"HTTP/1.1 502 Oh\r\ncontent-length: 99\r\n\r\na", "hold"], Reason.ENGINE_ERROR),
    "busy 503": ([json_answer(b"{}", b"503 Busy")], Reason.ENGINE_BUSY),
    "busy 429": ([json_answer(b"{}", b"429 Busy", b"retry-after: 7\r\n")], Reason.ENGINE_BUSY),
    "head, then gone": ([STREAM_HEAD, 0.02, "close"], Reason.CONNECTION_LOST),
    "half an event, then gone": ([STREAM_HEAD, chunk(b"data: {"), 0.02, "reset"], Reason.CONNECTION_LOST),
    "error event first": (
        [STREAM_HEAD, chunk(sse('{"error":{"message":"dead","code":500}}')), "hold"],
        Reason.ENGINE_ERROR,
    ),
    "a token and an error in one read": (
        [STREAM_HEAD + FIRST + chunk(sse('{"error":{"message":"dead","code":500}}')), "hold"],
        Reason.ENGINE_ERROR,
    ),
    "a whole stream with an error in one read": (
        [STREAM_HEAD + FIRST + chunk(sse('{"error":{"message":"dead","code":500}}', "[DONE]")) + END, "hold"],
        Reason.ENGINE_ERROR,
    ),
    "half a token's event, then gone": (
        [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + sse(token("a"), end=""), "close"],
        Reason.CONNECTION_LOST,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE_THE_HEAD)
def test_before_a_byte_reached_the_client_another_replica_answers(loop: str, name: str) -> None:
    steps, reason = BEFORE_THE_HEAD[name]

    async def test() -> None:
        async with (
            ScriptedEngine([Script(steps)]) as bad,
            ScriptedEngine([Script([json_answer(b'"ok"')])]) as good,
            serving(Recorder([bad.url, good.url])) as served,
        ):
            client = await served.client()
            await client.send(post(b'{"b":2}'))
            head, body = await client.answer()
            assert (head[:15], body) == (b"HTTP/1.1 200 OK", b'"ok"')
            assert served.hands.words() == ["request", "attempt_failed", "ended"]
            failed = served.hands.log[1][1]
            assert failed == (reason, 7.0 if name == "busy 429" else 0.0, Phase.PREFILL)
            assert good.seen[0].body == b'{"b":2}'
            await client.send(post())
            await client.answer()

    run(test, loop)


def test_no_connection(loop: str) -> None:
    async def test() -> None:
        async with serving(Recorder([f"http://127.0.0.1:{free_port()}"])) as served:
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[0].startswith(b"HTTP/1.1 503")
            assert served.hands.log[1] == ("attempt_failed", (Reason.CONNECT_FAILED, 0.0, Phase.CONNECT))

    run(test, loop)


MID_STREAM: dict[str, tuple[list[Step], Reason]] = {
    "closed": (["close"], Reason.CONNECTION_LOST),
    "reset": (["reset"], Reason.CONNECTION_LOST),
    "half an event": ([chunk(b'data: {"choi'), "close"], Reason.CONNECTION_LOST),
    "half a chunk": ([b"20\r\ndata: ", "close"], Reason.CONNECTION_LOST),
    "bad chunk": ([b"zz\r\n", "hold"], Reason.BAD_UPSTREAM),
    "silence": (["hold"], Reason.IDLE_TIMEOUT),
}


@pytest.mark.parametrize("name", MID_STREAM)
def test_a_stream_that_breaks_says_so_and_does_not_end(loop: str, name: str) -> None:
    steps, reason = MID_STREAM[name]

    async def test() -> None:
        rules = GatewayRules(timeouts=Timeouts(idle=0.2 if name == "silence" else 60.0))
        async with (
            ScriptedEngine([Script([STREAM_HEAD, FIRST, 0.02, *steps])]) as engine,
            serving(Recorder([engine.url, engine.url]), rules) as served,
        ):
            client = await served.client()
            await client.send(post())
            got = await client.until_close()
            event = b'data: {"error":{"code":"%b"}}\n\n' % reason.value.encode()
            assert got.endswith(FIRST + chunk(event)), "no terminal chunk, no half event before the error"
            assert served.hands.words() == ["request", "first_token", "ended"]
            assert served.hands.log[-1] == ("ended", (Outcome.FAILED, reason, Phase.DECODE))

    run(test, loop)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_body_of_known_length_that_breaks_is_cut(loop: str, version: bytes) -> None:
    async def test() -> None:
        steps: list[Step] = [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", 0.05, "close"]
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(b"GET /v1/x HTTP/%b\r\nHost: a\r\n\r\n" % version)
            got = await client.until_close()
            assert got.endswith(b"\r\n\r\nabc")
            assert b"content-length: 10" in got
            assert served.hands.log[-1] == ("ended", (Outcome.FAILED, Reason.CONNECTION_LOST, Phase.PREFILL))

    run(test, loop)


def test_a_body_ended_by_closing_is_reset_when_it_breaks(loop: str) -> None:
    """An orderly close would look like its end to an HTTP/1.0 client."""

    async def test() -> None:
        steps: list[Step] = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"abc"), 0.05, "close"]
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(b"GET /v1/x HTTP/1.0\r\nHost: a\r\n\r\n")
            assert (await client.reader.readuntil(b"abc")).endswith(b"abc")
            with pytest.raises(ConnectionResetError):
                await client.until_close()

    run(test, loop)


def test_an_error_inside_a_running_stream_fails_it(loop: str) -> None:
    async def test() -> None:
        error = sse('{"error":{"message":"dead","code":500}}', "[DONE]")
        async with (
            ScriptedEngine([Script([STREAM_HEAD, FIRST, 0.02, chunk(error), END])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[1] == sse(token("a")) + error
            assert served.hands.log[-1] == ("ended", (Outcome.FAILED, Reason.ENGINE_ERROR, Phase.DECODE))

    run(test, loop)


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"422 Unprocessable", b"501 Not Implemented"])
def test_what_the_engine_refuses_passes_unchanged(loop: str, status: bytes) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([json_answer(b'{"error":1}', status)])]) as engine,
            serving(Recorder([engine.url, engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            head, body = await client.answer()
            assert head.split(b" ")[1] == status.split(b" ")[0]
            assert body == b'{"error":1}'
            assert served.hands.log[-1] == ("ended", (Outcome.FAILED, Reason.ENGINE_REFUSED, Phase.PREFILL))

    run(test, loop)


def test_a_finished_stream_needs_no_terminal_chunk(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, FIRST, chunk(sse("[DONE]")), 0.05, "reset"])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[1] == sse(token("a"), "[DONE]")
            assert served.hands.ends[0].outcome is Outcome.COMPLETED

    run(test, loop)


def test_a_finished_stream_does_not_wait_for_its_terminal_chunk(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the idle timeout make a failure of it."""
    monkeypatch.setattr("plimsoll.gateway.patience.FRAMING_GRACE", 0.05)

    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, FIRST, chunk(sse("[DONE]")), "hold"])]) as engine,
            serving(Recorder([engine.url]), GatewayRules(timeouts=Timeouts(idle=0.4))) as served,
        ):
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[1] == sse(token("a"), "[DONE]")
            assert served.hands.ends[0].outcome is Outcome.COMPLETED
            await asyncio.wait_for(engine.gone.wait(), 5)  # a connection in mid-answer cannot be kept

    run(test, loop)


@pytest.mark.parametrize("final", [True, False])
def test_a_stream_ended_by_closing_must_have_said_that_it_is_done(loop: str, final: bool) -> None:
    async def test() -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        end = [sse("[DONE]")] if final else []
        async with (
            ScriptedEngine([Script([head, sse(token("a")), 0.02, *end, "close"])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            if final:
                assert (await client.answer())[1] == sse(token("a"), "[DONE]")
            else:
                assert b"connection_lost" in await client.until_close()
            assert served.hands.ends[0].outcome is (Outcome.COMPLETED if final else Outcome.FAILED)

    run(test, loop)


def test_a_fault_in_the_books_does_not_keep_the_answer_from_the_client(loop: str) -> None:
    async def test() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context["exception"]))
        async with ScriptedEngine([Script([json_answer(b"{}")])]) as engine, serving(Recorder([engine.url])) as served:

            def fail(_exchange: Exchange) -> None:
                raise ZeroDivisionError

            served.hands.on_end = fail
            client = await served.client()
            for _ in range(2):
                await client.send(post())
                assert (await client.answer())[1] == b"{}"
            await served.until(lambda: len(faults) == 2)
            assert [type(fault) for fault in faults] == [ZeroDivisionError] * 2

    run(test, loop)


# --- keep-alive ---


def test_a_connection_closed_while_idle_is_replaced_silently(loop: str) -> None:
    async def test() -> None:
        scripts = [Script([json_answer(b'"1"')]), Script(["close"]), Script([json_answer(b'"2"')])]
        async with ScriptedEngine(scripts) as engine, serving(Recorder([engine.url, engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await client.answer()
            await client.send(post())  # the engine reads it on the kept connection, and closes without a word
            assert (await client.answer())[1] == b'"2"'
            assert served.hands.words() == ["request", "ended"] * 2
            assert engine.num_connections == 2

    run(test, loop)


def test_a_fresh_connection_that_closes_is_a_failure(loop: str) -> None:
    async def test() -> None:
        scripts = [Script([json_answer(b'"1"')]), Script(["close"]), Script(["close"]), Script([json_answer(b'"2"')])]
        async with ScriptedEngine(scripts) as engine, serving(Recorder([engine.url, engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await client.answer()
            await client.send(post())
            assert (await client.answer())[1] == b'"2"'
            assert served.hands.words() == ["request", "ended", "request", "attempt_failed", "ended"]

    run(test, loop)


@pytest.mark.parametrize(
    "last",
    [
        [json_answer(b"{}", extra=b"Connection: close\r\n"), "hold"],
        [json_answer(b"{}") + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "hold"],
        [json_answer(b"{}") + b"trailing rubbish", "hold"],
        [b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", "hold"],
    ],
)
def test_connections_that_cannot_be_kept_are_not(loop: str, last: list[Step]) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script(last)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            for _ in range(3):
                await client.send(post())
                assert (await client.answer())[1] == b"{}"
            assert engine.num_connections == 3

    run(test, loop)


def test_idle_engine_connections_are_closed_in_time(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.gateway.origin.IDLE_LIMIT", 0.1)

    async def test() -> None:
        async with (
            ScriptedEngine([Script([json_answer(b"{}")])]) as engine,
            serving(Recorder([engine.url]), GatewayRules(timeouts=Timeouts(connect=0.2))) as served,
        ):
            client = await served.client()
            await client.send(post())
            await client.answer()
            await asyncio.wait_for(engine.gone.wait(), 5)

    run(test, loop)


# --- clients that leave ---


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_a_client_that_leaves_the_queue(loop: str, how: str) -> None:
    async def test() -> None:
        async with serving(Recorder([], wait=True)) as served:
            client = await served.client()
            await client.send(post())
            await served.until(lambda: served.hands.exchanges)
            leave(client.writer, how)
            await served.settled()
            assert served.hands.words() == ["request", "client_left"]
            served.hands.exchanges[0].answer(200, (), b"late")  # a decision that was already on its way
            assert not served.hands.exchanges[0].open

    run(test, loop)


def leave(writer: asyncio.StreamWriter, how: str) -> None:
    """Close orderly, close one side only, or reset."""
    if how == "half":
        writer.write_eof()
    elif how == "reset":
        writer.transport.abort()
    else:
        writer.close()


@pytest.mark.parametrize("how", ["close", "half", "reset"])
@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        (["hold"], Phase.PREFILL),
        ([STREAM_HEAD, "hold"], Phase.PREFILL),
        ([STREAM_HEAD, FIRST, "hold"], Phase.DECODE),
    ],
)
def test_a_client_that_leaves_stops_the_engine(loop: str, how: str, steps: list[Step], phase: Phase) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await served.phase(phase)
            leave(client.writer, how)
            await asyncio.wait_for(engine.gone.wait(), 5)
            await served.settled()
            assert served.hands.log[-1] == ("ended", (Outcome.ABORTED, Reason.CLIENT_LEFT, phase))

    run(test, loop)


def test_a_client_that_leaves_while_we_dial(loop: str) -> None:
    async def test() -> None:
        with socket.socket() as silent:  # its accept queue is full: connecting hangs
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            fillers = [socket.socket() for _ in range(8)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(silent.getsockname())
            async with serving(Recorder([url])) as served:
                client = await served.client()
                await client.send(post())
                await served.phase(Phase.CONNECT)
                leave(client.writer, "close")
                await served.settled()
                assert served.hands.log[-1] == ("ended", (Outcome.ABORTED, Reason.CLIENT_LEFT, Phase.CONNECT))
            for filler in fillers:
                filler.close()

    run(test, loop)


# --- evicting ---


@pytest.mark.parametrize(("steps", "phase"), [(["hold"], Phase.PREFILL), ([STREAM_HEAD, FIRST, "hold"], Phase.DECODE)])
def test_evicting(loop: str, steps: list[Step], phase: Phase) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script(steps)]) as engine, serving(Recorder([engine.url])) as served:
            client = await served.client()
            await client.send(post())
            await served.phase(phase)
            served.hands.exchanges[0].evict(Reason.DRAIN_TIMEOUT)
            assert served.hands.log[-1] == ("ended", (Outcome.EVICTED, Reason.DRAIN_TIMEOUT, phase))
            await asyncio.wait_for(engine.gone.wait(), 5)
            if phase is Phase.PREFILL:
                assert (await client.answer())[0].startswith(b"HTTP/1.1 503 ")
            else:
                assert (await client.until_close()).endswith(chunk(b'data: {"error":{"code":"drain_timeout"}}\n\n'))

    run(test, loop)


def test_evicted_by_the_call_that_reports_its_first_token(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, FIRST, "hold"])]) as engine,
            serving(Recorder([engine.url])) as served,
        ):

            def evict(exchange: Exchange) -> None:
                exchange.evict(Reason.OVERLOAD)

            served.hands.on_first = evict
            client = await served.client()
            await client.send(post())
            assert (await client.answer())[0].startswith(b"HTTP/1.1 503 ")
            assert served.hands.words() == ["request", "first_token", "ended"]

    run(test, loop)

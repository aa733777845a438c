"""Two replicas asked at once, through real sockets: the first token of either wins, the loser is closed."""

import asyncio

import pytest

from plimsoll.gateway.hands import Exchange
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.doubles import Recorder, Served, post, serving
from tests.gateway.scripted import END, STREAM_HEAD, Script, ScriptedEngine, Step, chunk, json_answer, run, sse, token

pytestmark = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
DONE = (Outcome.COMPLETED, Reason.DONE, Phase.NONE)
ROLE = chunk(sse('{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'))


def answer(word: str) -> list[Step]:
    return [STREAM_HEAD, chunk(sse(token(word))), 0.01, chunk(sse(token("!"), "[DONE]")), END]


async def raced(served: Served, second: ScriptedEngine, *, hedges: int = 1) -> bytes:
    """Send one request, hedge it when its first attempt is with the engine, and read the answer."""
    client = await served.client()
    await client.send(post())
    await served.phase(Phase.PREFILL)
    for _ in range(hedges):
        served.hands.hedge(served.hands.exchanges[0], second.url)
    _, body = await client.answer()
    await served.settled()
    return body


def endings(served: Served) -> list[tuple[Outcome, Reason, Phase]]:
    return [(end.outcome, end.reason, end.phase) for end in served.hands.ends]


def test_the_second_wins_where_the_first_stays_silent(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, "hold"])]) as slow,
            ScriptedEngine([Script(answer("quick"))]) as quick,
            serving(Recorder([slow.url])) as served,
        ):
            body = await raced(served, quick)
            assert b"quick" in body
            assert body.count(b"data: [DONE]") == 1
            assert served.hands.words() == ["request", "first_token by hedge", "ended"]
            assert endings(served) == [DONE]
            assert sum(tokens.num_tokens for tokens in served.hands.tokens) == 2
            await served.until(lambda: slow.num_closed_by_gateway == 1)
            assert quick.seen[0].body == slow.seen[0].body

    run(test, loop)


def test_the_first_wins_and_the_second_is_closed(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script(["gate", *answer("first")])]) as first,
            ScriptedEngine([Script([STREAM_HEAD, ROLE, "hold"])]) as second,
            serving(Recorder([first.url])) as served,
        ):
            race = asyncio.create_task(raced(served, second))
            await served.until(lambda: second.seen)
            await asyncio.sleep(0.05)
            first.gate.set()
            body = await race
            assert b"first" in body
            assert b"assistant" not in body, "nothing of the loser is passed on"
            assert served.hands.words() == ["request", "first_token", "ended"]
            await served.until(lambda: second.num_closed_by_gateway == 1)

    run(test, loop)


def test_once_a_byte_has_reached_the_client_no_other_can_win(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, ROLE, "gate", *answer("first")[1:]])]) as first,
            ScriptedEngine([Script(answer("second"))]) as second,
            serving(Recorder([first.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            await client.reader.readuntil(b"assistant")
            served.hands.hedge(served.hands.exchanges[0], second.url)
            assert served.hands.log[-1] == ("hedge_failed", (Reason.HEDGED, 0.0))
            first.gate.set()
            await served.settled()
            assert not second.seen
            assert endings(served) == [DONE]

    run(test, loop)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([json_answer(b"{}", b"503 Busy", b"retry-after: 7\r\n")], Reason.ENGINE_BUSY),
        ([json_answer(b"{}", b"400 Bad")], Reason.ENGINE_ERROR),
        ([STREAM_HEAD, "reset"], Reason.CONNECTION_LOST),
        ([STREAM_HEAD, chunk(sse("[DONE]")), END], Reason.BAD_UPSTREAM),
        ([STREAM_HEAD, chunk(sse('{"error":{"message":"dead","code":500}}')), "hold"], Reason.ENGINE_ERROR),
    ],
)
def test_a_second_that_fails_leaves_the_first_alone(loop: str, script: list[Step], reason: Reason) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script(["gate", *answer("first")])]) as first,
            ScriptedEngine([Script(script)]) as second,
            serving(Recorder([first.url])) as served,
        ):
            race = asyncio.create_task(raced(served, second))
            await served.until(lambda: "hedge_failed" in served.hands.words())
            first.gate.set()
            assert b"first" in await race
            failed = [told for word, told in served.hands.log if word == "hedge_failed"]
            assert failed == [(reason, 7.0 if reason is Reason.ENGINE_BUSY else 0.0)]
            assert served.hands.words() == ["request", "hedge_failed", "first_token", "ended"]

    run(test, loop)


def test_a_second_that_nobody_listens_for_leaves_the_first_alone(loop: str) -> None:
    async def test() -> None:
        async with ScriptedEngine([Script(["gate", *answer("first")])]) as first, ScriptedEngine([]) as gone:
            await gone.__aexit__()
            async with serving(Recorder([first.url])) as served:
                race = asyncio.create_task(raced(served, gone))
                await served.until(lambda: "hedge_failed" in served.hands.words())
                first.gate.set()
                assert b"first" in await race
                assert served.hands.log[1] == ("hedge_failed", (Reason.CONNECT_FAILED, 0.0))

    run(test, loop)


def test_where_the_first_fails_the_second_takes_its_place(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script(["gate", "reset"])]) as first,
            ScriptedEngine([Script([STREAM_HEAD, ROLE, "gate", *answer("second")[1:]])]) as second,
            serving(Recorder([first.url])) as served,
        ):
            race = asyncio.create_task(raced(served, second))
            await served.until(lambda: second.seen)
            await asyncio.sleep(0.05)
            first.gate.set()
            await served.until(lambda: "attempt_failed" in served.hands.words())
            second.gate.set()
            body = await race
            assert b"assistant" in body
            assert b"second" in body
            assert served.hands.words() == ["request", "attempt_failed", "first_token", "ended"]
            assert endings(served) == [DONE]

    run(test, loop)


def test_a_client_that_leaves_ends_both(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, "hold"])]) as first,
            ScriptedEngine([Script([STREAM_HEAD, "hold"])]) as second,
            serving(Recorder([first.url])) as served,
        ):
            client = await served.client()
            await client.send(post())
            await served.phase(Phase.PREFILL)
            served.hands.hedge(served.hands.exchanges[0], second.url)
            await served.until(lambda: second.seen)
            client.writer.close()
            await served.settled()
            await served.until(lambda: first.num_closed_by_gateway == second.num_closed_by_gateway == 1)
            assert endings(served) == [(Outcome.ABORTED, Reason.CLIENT_LEFT, Phase.PREFILL)]

    run(test, loop)


def test_a_second_hedge_is_not_sent_and_an_eviction_within_the_first_token_ends_all(loop: str) -> None:
    async def test() -> None:
        async with (
            ScriptedEngine([Script([STREAM_HEAD, "hold"])]) as first,
            ScriptedEngine([Script(answer("second"))]) as second,
            serving(Recorder([first.url])) as served,
        ):

            def evict(exchange: Exchange) -> None:
                exchange.evict(Reason.DRAIN_TIMEOUT)

            served.hands.on_first = evict
            body = await raced(served, second, hedges=2)
            assert b"drain_timeout" in body
            assert served.hands.words() == ["request", "hedge_failed", "first_token by hedge", "ended"]
            assert endings(served) == [(Outcome.EVICTED, Reason.DRAIN_TIMEOUT, Phase.DECODE)]

    run(test, loop)

"""The open loop against a small real engine: what was sent, when, and what the client says it saw."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from plimsoll.load.client import Client, Manner, clock
from plimsoll.load.connection import target
from plimsoll.load.plan import Planned
from plimsoll.load.result import Result, Seen
from plimsoll.load.tenants import Sender
from tests.load.pacedengine import PacedEngine, running

SENDERS = tuple(Sender(name, f"sk-{name}", model=name) for name in ("paced", "refuse", "cut", "error", "mute"))


@pytest.fixture
def engine() -> Iterator[PacedEngine]:
    with running(PacedEngine()) as paced:
        yield paced


def manner(engine: PacedEngine, endpoint: str = "completions", streaming: bool = True, timeout: float = 0.0) -> Manner:
    where = target(f"http://127.0.0.1:{engine.port}/v1")
    return Manner(where, "run", "paced", endpoint=endpoint, streaming=streaming, timeout=timeout)


def send(planned: list[Planned], how: Manner, stop_after: float = 0.0) -> dict[int, Result]:
    seen: list[Result] = []

    async def main() -> None:
        client = Client(SENDERS, how, seen.append)
        if stop_after:
            asyncio.get_running_loop().call_later(stop_after, client.stop)
        await client.send(planned, clock() + 0.05)

    asyncio.run(main())
    assert sorted(result.index for result in seen) == [one.index for one in planned], "each request told once"
    return {result.index: result for result in seen}


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_tokens_instants_and_usage(engine: PacedEngine, endpoint: str) -> None:
    one = Planned(4, 0.0, 0, 37, 12, session="s 1", cause="nightly\r\nX-Evil: 1")
    result = send([one], manner(engine, endpoint))[4]
    assert (result.outcome, result.status, result.reason) == (Seen.COMPLETED, 200, "")
    assert (result.prompt_tokens, result.output_tokens, result.num_events) == (37, 12, 12)
    assert len(result.gaps) == 11
    assert result.ttft is not None
    assert 0.02 <= result.ttft < 0.2
    assert sum(result.gaps) == pytest.approx(11 * 0.005, abs=0.04)
    (headers,) = engine.headers
    assert headers["authorization"] == "Bearer sk-paced"
    assert (headers["x-request-id"], headers["x-plimsoll-session"]) == ("run-4", "s 1")
    assert not {"x-evil", "x-plimsoll-cause"} & headers.keys()


def test_whole_answers_have_usage_and_no_first_token(engine: PacedEngine) -> None:
    result = send([Planned(0, 0.0, 0, 5, 3)], manner(engine, streaming=False))[0]
    assert (result.outcome, result.output_tokens, result.ttft) == (Seen.COMPLETED, 3, None)
    assert result.e2e is not None


def test_each_ending_has_its_name(engine: PacedEngine) -> None:
    planned = [Planned(place, 0.0, place, 5, 4) for place in range(5)]
    results = send(planned, manner(engine, timeout=0.5))
    assert [results[i].outcome for i in range(5)] == [
        Seen.COMPLETED,
        Seen.REFUSED,
        Seen.FAILED,
        Seen.FAILED,
        Seen.TIMED_OUT,
    ]
    assert (results[1].status, results[1].reason, results[1].retry_after) == (429, "tenant_rate", 7.0)
    assert (results[2].reason, results[2].num_events) == ("connection closed", 2)
    assert (results[3].reason, results[3].num_events) == ("engine_error", 2)
    assert results[4].ended_at - results[4].scheduled_at == pytest.approx(0.5, abs=0.15)


def test_an_open_loop_does_not_wait_for_answers(engine: PacedEngine) -> None:
    """Twenty answers of 0.3 s each, one due every 10 ms: a closed loop would take 6 s."""
    engine.first = 0.3
    results = send([Planned(i, i * 0.01, 0, 5, 1) for i in range(20)], manner(engine))
    assert engine.num_connections == 20
    ends = [result.ended_at for result in results.values()]
    assert max(ends) - min(result.scheduled_at for result in results.values()) < 2.0
    assert all(result.lateness is not None and result.lateness >= 0 for result in results.values())


def test_latency_counts_from_the_planned_instant(engine: PacedEngine) -> None:
    """A plan whose zero lies 0.5 s back is late by that, and its latencies say so."""
    seen: list[Result] = []
    asyncio.run(Client(SENDERS, manner(engine), seen.append).send([Planned(0, 0.0, 0, 5, 1)], clock() - 0.5))
    (result,) = seen
    assert result.lateness is not None
    assert result.ttft is not None
    assert result.ttft > result.lateness + 0.02 > 0.52


def test_connections_are_kept_and_given_up_when_old(engine: PacedEngine) -> None:
    send([Planned(i, i * 0.2, 0, 5, 1) for i in range(4)], manner(engine))
    assert engine.num_connections == 1


def test_leaving_closes_the_connection(engine: PacedEngine) -> None:
    results = send([Planned(0, 0.0, 0, 5, 400, leaves_after=0.15)], manner(engine))
    assert results[0].outcome is Seen.LEFT
    assert results[0].num_events > 2
    deadline = time.monotonic() + 2.0
    while engine.num_left < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.num_left == 1


def test_stop_tells_every_request(engine: PacedEngine) -> None:
    planned = [Planned(i, i * 0.1, 0, 5, 400) for i in range(30)]
    results = send(planned, manner(engine), stop_after=0.3)
    outcomes = [results[i].outcome for i in range(30)]
    assert set(outcomes) == {Seen.STOPPED, Seen.UNSENT}
    assert outcomes == sorted(outcomes)


def test_nobody_listens() -> None:
    with running(PacedEngine()) as gone:
        where = manner(gone)
    results = send([Planned(0, 0.0, 0, 5, 1)], where)
    assert results[0].outcome is Seen.UNREACHABLE
    assert results[0].reason == "ConnectionRefusedError"

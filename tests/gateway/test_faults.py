"""A fault of the gateway itself, wherever it strikes, costs at most the request that it struck.

The histories are law 1's; somewhere in them the governor, the books, a watcher or the wire raises once. No exception
reaches the data path, every request is answered or ended all the same, nothing stays open, and the fault is told once.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.gateway.guard import Guard
from plimsoll.gateway.hands import ClientRequest
from plimsoll.governor.decisions import Decision, Settle
from plimsoll.governor.events import Event, ReplicasReported
from plimsoll.governor.governor import Governor
from plimsoll.slo.outcome import Outcome, Reason
from tests.gateway.drivenworld import BODY, RememberedBooks, World
from tests.gateway.liveapp import CHAT, policy_for, running
from tests.gateway.tinyengine import Engine
from tests.laws.test_conservation_live import CROWDED, History


class Fuse:
    """Raises at one call of many."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.armed = True

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0 and self.armed:
            raise ZeroDivisionError("injected")


class FaultyGovernor:
    """A governor that fails on one event: before it looked at it."""

    def __init__(self, fuse: Fuse) -> None:
        self.governor = Governor(CROWDED)
        self.fuse = fuse

    def handle(self, event: Event) -> Sequence[Decision]:
        if type(event) is not ReplicasReported:
            self.fuse.burn()
        return self.governor.handle(event)


class FaultyBooks(RememberedBooks):
    """Books that fail at one call."""

    def __init__(self, log: list[str], fuse: Fuse) -> None:
        super().__init__(log)
        self.fuse = fuse
        self.unwritten: list[int] = []

    def opened(self, request_id: int, *arguments: Any, **named: Any) -> None:
        self.fuse.burn()
        super().opened(request_id, *arguments, **named)

    def settle(self, settle: Settle) -> None:
        try:
            self.fuse.burn()
        except ZeroDivisionError:
            self.unwritten.append(settle.record.request_id)
            raise
        super().settle(settle)


class FaultyWatcher:
    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse

    def decided(self, at: float, tenant: str, decision: Decision) -> None:
        self.fuse.burn()


class FaultyHistory(History):
    """A history with one fault in it."""

    def __init__(self, where: str, at: int) -> None:
        self.fuse = Fuse(at)
        decider = FaultyGovernor(self.fuse if where == "governor" else Fuse(0))
        log: list[str] = []
        super().__init__(
            World(CROWDED, decider, FaultyBooks(log, self.fuse if where == "books" else Fuse(0))), decider.governor
        )
        self.world.hands = Guard(self.world.driver)
        if where == "wire":
            self.world.wire = self.fuse.burn
        if where == "watcher":
            self.world.driver.carrier.watchers.append(FaultyWatcher(self.fuse))

    def finish_all(self) -> None:
        """Everybody's end: engines answer, and who waited for longer than the policy allows is told."""
        for _ in range(100):
            while self.dispatched():
                self.finish(0)
            self.world.clock.advance(self.world.clock() + 1.0)
            self.world.run_soon()
            if not self.dispatched() and not self.queued():
                return
        raise AssertionError(f"still open: {len(self.queued())} of {len(self.exchanges)}")


@contextmanager
def told() -> Iterator[list[logging.LogRecord]]:
    """The faults that are logged with their traceback."""
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Kept()
    logger = logging.getLogger("plimsoll.gateway")
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        records[:] = [record for record in records if record.exc_info]


STEPS = ("arrive", "arrive", "arrive", "first_token", "outgrow", "finish", "fail", "leave", "wait")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["governor", "books", "watcher", "wire"]),
    st.integers(1, 40),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 100)), min_size=5, max_size=40),
)
def test_one_fault_costs_one_request(where: str, at: int, steps: list[tuple[str, int]]) -> None:
    history = FaultyHistory(where, at)
    with told() as faults:
        for name, pick in steps:
            getattr(history, name)(pick)
            history.world.run_soon()
        history.finish_all()
    struck = history.fuse.left <= 0
    history.fuse.armed = False
    assert len(faults) == struck
    assert history.world.driver.num_open == 0
    settled = [settle.record.request_id for settle in history.world.books.settled]
    assert len(settled) == len(set(settled))
    lost = len(history.exchanges) - len(settled)
    assert 0 <= lost <= struck  # its row could not be written, or the governor never heard of it
    for count in history.governor.snapshot(history.world.clock()).counts:
        assert count.received == sum(count.by_state.values())
        assert not any(count.by_state.get(state) for state in ("received", "queued", "dispatched", "streaming"))
    for pool in history.governor.snapshot(history.world.clock()).pools:
        assert [replica.reserved for replica in pool.replicas] == [0, 0]
    history.report(healthy=True)  # a failed attempt leaves its replica alone until the next good report
    again = history.world.send(BODY)
    assert again.running


def test_the_struck_request_is_answered_with_500_and_its_id() -> None:
    history = FaultyHistory("governor", 1)
    with told() as faults:
        history.arrive(0)
    (exchange,) = history.exchanges
    assert exchange.answered is not None
    status, headers, body = exchange.answered
    assert (status, headers[b"x-plimsoll-reason"]) == (500, b"internal_error")
    assert headers[b"x-plimsoll-request-id"].decode()[4:] in faults[0].getMessage()
    assert b"server_error" in body


def test_a_running_request_that_is_struck_ends_as_ours() -> None:
    history = FaultyHistory("governor", 2)
    history.arrive(0)
    with told() as faults:
        history.first_token(0)
    (settle,) = history.world.books.settled
    assert (settle.record.outcome, settle.record.reason) == (Outcome.FAILED, Reason.INTERNAL_ERROR)
    assert not history.exchanges[0].running
    assert len(faults) == 1


def test_a_fault_while_a_large_body_is_read_is_answered() -> None:
    history = FaultyHistory("governor", 1)
    exchange = history.world.send(BODY.replace(b"hello", b"x" * 300_000))
    (work,) = history.world.offloaded
    with told():
        work()
    assert exchange.answered is not None
    assert exchange.answered[0] == 500


def test_refusals_have_words_whatever_happens() -> None:
    history = FaultyHistory("governor", 1)
    with told() as faults:
        answer = history.world.hands.refusal(ClientRequest(0.0, ""), Reason.REQUEST_TIMEOUT, 0.0)
        request = ClientRequest(0.0, "")
        request.fields = {b"authorization": b"Bearer sk-acme"}
        broken = history.world.hands.refusal(request, Reason.REQUEST_TIMEOUT, 0.0)
    assert (answer.status, broken.status) == (408, 500)
    assert len(faults) == 1


def test_a_live_gateway_goes_on_after_a_fault(tmp_path: Path) -> None:
    """On real sockets: the books fail once at a settlement; that client has its answer, and so has the next."""

    async def test() -> None:
        engine = await Engine().start()
        try:
            async with running(policy_for(engine.url), tmp_path) as (app, client):
                fuse = Fuse(1)
                app.driver.carrier.settled.append(lambda _settle: fuse.burn())
                with told() as faults:
                    for _ in range(3):
                        answer = await client.post("/v1/chat/completions", json=CHAT)
                        assert answer.status_code == 200
                assert len(faults) == 1
                assert app.driver.num_open == 0
        finally:
            await engine.stop()

    asyncio.run(test())


def test_the_timer_is_armed_again_after_a_fault() -> None:
    """Those who wait must still expire: without a timer nobody would."""
    history = FaultyHistory("governor", 100)
    for _ in range(6):
        history.arrive(0)
    assert history.queued()
    history.fuse.left = 1
    with told() as faults:
        history.world.clock.advance(history.world.clock() + 20.0)
    assert len(faults) == 1
    assert not history.queued()

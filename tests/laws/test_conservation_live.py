"""Law 1 on the live hands: whatever happens on the wire, nothing is dropped unanswered and each request has one row.

Random histories of arrivals, tokens, failures, leaving clients, dying replicas, timers and a drain go through the real
driver and the real governor on a virtual clock.
"""

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.gateway.hands import Usage
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Limits, Tier
from plimsoll.slo.outcome import Outcome, Reason
from tests.gateway.drivenworld import BODY, POLICY, RememberedExchange, World

URLS = ("http://r1", "http://r2")
CROWDED = replace(
    POLICY,
    tiers=(Tier("gold", 0, queue_limit=4, queue_timeout=5.0), Tier("bronze", 1, queue_limit=2, queue_timeout=3.0)),
    tenants=(replace(POLICY.tenants[0], limits=Limits(concurrency=9)),),
    pools=(replace(POLICY.pools[0], max_concurrency=2, max_context=4096),),
)
BODIES = (
    BODY,
    BODY.replace(b"true", b"false"),
    BODY.replace(b"hello", b"hello " * 9000),
    b'{"model": "x"',
    b'{"model":"z","messages":[]}',
)


class History:
    """One world, and what was seen of its requests."""

    def __init__(self, world: World | None = None, governor: Governor | None = None) -> None:
        self.governor = governor or Governor(CROWDED)
        self.world = world or World(CROWDED, self.governor)
        self.exchanges: list[RememberedExchange] = []
        self.ends: Counter[int] = Counter()
        self.report(healthy=True)

    def report(self, *, healthy: bool) -> None:
        at = self.world.clock()
        self.world.driver.replicas_reported(tuple(ReplicaReport(url, healthy, at, running=0) for url in URLS))

    def dispatched(self) -> list[RememberedExchange]:
        return [exchange for exchange in self.exchanges if exchange.open and exchange.running]

    def queued(self) -> list[RememberedExchange]:
        return [exchange for exchange in self.exchanges if exchange.open and not exchange.running]

    def arrive(self, pick: int) -> None:
        tier = (b"gold", b"bronze", b"gold", b"bronze", b"none")[pick % 5]
        self.exchanges.append(self.world.send(BODIES[max(0, pick % 11 - 6)], x_plimsoll_tier=tier))

    def first_token(self, pick: int) -> None:
        for exchange in self.dispatched()[pick % 3 :][:1]:
            if not exchange.saw_token:
                exchange.saw_token = True
                exchange.attempts[-1].tokens.tokens(self.world.clock(), 1)
                self.world.hands.first_token(exchange, self.world.clock())

    def outgrow(self, pick: int) -> None:
        for exchange in self.dispatched()[pick % 3 :][:1]:
            if exchange.saw_token:
                self.world.hands.outgrown(exchange, 10 + pick, self.world.clock())

    def finish(self, pick: int) -> None:
        outcome, reason = (
            (Outcome.COMPLETED, Reason.DONE),
            (Outcome.FAILED, Reason.CONNECTION_LOST),
            (Outcome.ABORTED, Reason.CLIENT_LEFT),
        )[pick % 3]
        for exchange in self.dispatched()[:1]:
            exchange.end(outcome, reason, Usage(9, pick % 50) if pick % 2 else None)

    def fail(self, pick: int) -> None:
        for exchange in self.dispatched()[:1]:
            if not exchange.saw_token:
                reason = (Reason.CONNECT_FAILED, Reason.ENGINE_BUSY, Reason.FIRST_BYTE_TIMEOUT)[pick % 3]
                exchange.fail(reason, pick % 2)

    def leave(self, pick: int) -> None:
        for exchange in self.queued()[:1]:
            exchange.open = False
            self.world.hands.client_left(exchange, self.world.clock())

    def wait(self, pick: int) -> None:
        self.world.clock.advance(self.world.clock() + pick % 7)

    def health(self, pick: int) -> None:
        self.report(healthy=pick % 8 > 0)

    def check(self) -> None:
        for count in self.governor.snapshot(self.world.clock()).counts:
            assert count.received == sum(count.by_state.values())
        rows = Counter(settle.record.request_id for settle in self.world.books.settled)
        assert set(rows.values()) <= {1}
        assert len(rows) + len([e for e in self.exchanges if e.open]) == len(self.exchanges)
        assert self.world.driver.num_open == len([e for e in self.exchanges if e.open])


def test_a_client_leaves_as_its_time_runs_out() -> None:
    """The timer is late by a moment: the request has expired, and that is told, whatever its client does."""
    history = History()
    for _ in range(5):
        history.arrive(0)
    history.world.clock.now += 5.5
    (waiting,) = history.queued()
    waiting.open = False
    history.world.hands.client_left(waiting, history.world.clock())
    assert [settle.record.outcome for settle in history.world.books.settled] == [Outcome.EXPIRED]
    history.check()


STEPS: tuple[Callable[[History, int], None], ...] = (
    History.arrive,
    History.arrive,
    History.arrive,
    History.first_token,
    History.outgrow,
    History.finish,
    History.fail,
    History.leave,
    History.wait,
    History.health,
)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 30)), max_size=60))
def test_nothing_is_dropped_unanswered(steps: list[tuple[int, int]]) -> None:
    history = History()
    for step, pick in steps:
        STEPS[step](history, pick)
        history.check()
    history.world.driver.drain(1.0)
    history.world.clock.advance(history.world.clock() + 30)
    assert not history.queued(), "the queued are sent or told when a drain's grace is over"
    history.world.driver.end_all(Reason.DRAIN_TIMEOUT)
    history.check()
    assert not [exchange for exchange in history.exchanges if exchange.open]

"""Carrying out what the governor decided: attempts, answers, the one timer; the books first.

Within one batch of decisions every settlement is written down before anything reaches a client, so that kill -9 loses
nothing that was answered.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from plimsoll.errors import StorageError
from plimsoll.gateway.attempts import Attempts
from plimsoll.gateway.checking import Checking
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Clock, Exchange
from plimsoll.gateway.hinting import hint
from plimsoll.gateway.intake import Intake
from plimsoll.gateway.matching import Finder, no_finder
from plimsoll.gateway.openai import Body, read_body
from plimsoll.gateway.plugin import PluginRunner, no_plugins
from plimsoll.governor.decisions import (
    Decision,
    Dispatch,
    Enqueue,
    Evict,
    Expire,
    Fail,
    Reassign,
    Reject,
    RunPlugins,
    Settle,
    Shed,
    WakeAt,
)
from plimsoll.governor.events import Endpoint
from plimsoll.policy.policy import Policy
from plimsoll.slo.outcome import Reason
from plimsoll.slo.sli import itl_thresholds
from plimsoll.slo.timing import TokenClock

_log = logging.getLogger("plimsoll.gateway")
_HEDGED: Final = Reason.HEDGED
_NO_THRESHOLDS: Final[tuple[float, ...]] = ()


class Books(Protocol):
    """What the hands need of `storage.journal.Journal`. All but `flush` only buffer."""

    @property
    def accepting(self) -> bool:
        """Whether a further request can be opened and its end be sure of room."""

    def opened(  # noqa: PLR0917 - the journal's own
        self,
        request_id: int,
        tenant: str,
        tier: str,
        arrived_at: float,
        model: str = "",
        endpoint: str = "chat",
        streaming: bool = True,
        num_choices: int = 1,
        upstream_time: float | None = None,
        cause: str = "",
        session: str = "",
    ) -> None:
        """We are answerable for it from now on. Raises DiskFull."""

    def settle(self, settle: Settle) -> None:
        """It ended."""

    def reassigned(self, move: Reassign) -> None:
        """A replica serves another pool. Raises DiskFull."""

    def flush(self) -> None:
        """What was appended survives the death of this process when this returns. Raises StorageError."""


class Timer(Protocol):
    """What `call_at` gives back: an `asyncio.TimerHandle`, or a virtual clock's own."""

    def cancel(self) -> None:
        """It shall not happen after all."""


class Surroundings(NamedTuple):
    """Where the hands live: an event loop, or a virtual clock."""

    clock: Clock
    call_at: Callable[[float, Callable[[], None]], Timer]  # an instant on that clock
    call_soon: Callable[[Callable[[], None]], object]  # when what is being handled now has been handled
    offload: Callable[[Callable[[], Any], Callable[[Any], None]], None]  # work beside the loop, then `done` back on it
    read_large: Callable[[Endpoint, bytes], Body] = read_body  # what is offloaded to read a large body
    run_plugins: PluginRunner = no_plugins
    find_prefixes: Finder = no_finder


class Watcher(Protocol):
    """Somebody who watches decisions: the live view. Must be quick."""

    def decided(self, at: float, tenant: str, decision: Decision) -> None:
        """That is about to be carried out; `tenant` is "" where it is nobody's."""


class Carrier:
    """Does what the governor says with the requests that are open."""

    def __init__(
        self,
        books: Books,
        around: Surroundings,
        wake: Callable[[], None],
        give_up: Callable[[Exchange, Exception], None],
        checking: Checking,
    ) -> None:
        """`give_up` is told of a request whose decision could not be carried out."""
        self.flights: dict[int, Flight] = {}
        self.settled: list[Callable[[Settle], None]] = []  # told of each settlement
        self.watchers: list[Watcher] = []  # told of everything
        self.num_unflushed = 0  # writes that failed; the journal keeps what it could not write
        self._books = books
        self._around = around
        self._wake = wake
        self._give_up = give_up
        self._checking = checking
        self._unflushed = False
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._carriers: dict[type, Callable[[Any], None]] = {
            Dispatch: self._dispatch,
            Enqueue: self._wait,
            RunPlugins: checking.ask,
            Reject: self._turn_away,
            Shed: self._turn_away,
            Expire: self._turn_away,
            Fail: self._turn_away,
            Evict: self._evict,
            WakeAt: self._wake_at,
        }

    def take(self, policy: Policy, intake: Intake) -> None:
        """From now on by this policy."""
        self._intake = intake
        self._attempts = Attempts(policy, intake.secrets)
        self._thresholds = {tier.name: itl_thresholds(tier.objectives) for tier in policy.tiers}

    def carry_out(self, decisions: Sequence[Decision]) -> None:
        """All of them: first into the books, then onto the wire."""
        books = self._books
        ended = False
        if self.watchers:
            self._tell(decisions)
        for decision in decisions:
            kind = decision.__class__
            try:
                if kind is Settle:
                    ended = True
                    books.settle(decision)  # type: ignore[arg-type]  # checked by its class, which is cheap
                    for settled in self.settled:
                        settled(decision)  # type: ignore[arg-type]
                elif kind is Reassign:
                    ended = True
                    books.reassigned(decision)  # type: ignore[arg-type]
                elif kind is Dispatch or kind is Enqueue or kind is RunPlugins:
                    self._open(decision.request_id)  # type: ignore[union-attr]
            except Exception as fault:  # the other decisions of the batch are other requests'
                self._broken(decision, fault)
        if ended:
            self._flush()
        for decision in decisions:
            carry = self._carriers.get(decision.__class__)
            if carry is not None:
                try:
                    carry(decision)
                except Exception as fault:
                    self._broken(decision, fault)

    def _broken(self, decision: Decision, fault: Exception) -> None:
        """It could not be carried out: its request is given up, when all that was decided with it is done."""
        flight = None if isinstance(decision, Settle | WakeAt | Reassign) else self._flight(decision.request_id)
        if flight is None:
            _log.error("a fault of the gateway itself, carrying out %s", type(decision).__name__, exc_info=fault)
        else:
            exchange = flight.exchange
            self._around.call_soon(lambda: self._give_up(exchange, fault))

    def _tell(self, decisions: Sequence[Decision]) -> None:
        at = self._around.clock()
        for decision in decisions:
            if isinstance(decision, WakeAt):
                continue
            if isinstance(decision, Settle):
                tenant = decision.record.tenant
            elif isinstance(decision, Reassign):
                tenant = ""
            else:
                flight = self._flight(decision.request_id)
                tenant = flight.tenant.name if flight else ""
            for watcher in self.watchers:
                try:
                    watcher.decided(at, tenant, decision)
                except Exception as fault:
                    _log.error("a fault of the gateway itself, telling who watches", exc_info=fault)

    def _flight(self, request_id: int) -> Flight | None:
        return self.flights.get(request_id) or self._checking.flights.get(request_id)

    def _open(self, request_id: int) -> None:
        """We are answerable from now on. Requests that came together share one write."""
        flight = self._flight(request_id)
        if flight is None or flight.opened or flight.arrival is None:
            return
        arrival = flight.arrival
        flight.opened = True
        try:
            self._books.opened(
                request_id,
                arrival.tenant,
                arrival.tier or flight.tenant.tier,
                arrival.at,
                arrival.model,
                arrival.endpoint,
                arrival.streaming,
                arrival.num_choices,
                arrival.upstream_time,
                arrival.cause,
                arrival.session,
            )
        except StorageError as error:  # the room went since `accepting`: it is served, its end may not be kept
            _log.error("request %016x could not be opened in the journal: %s", request_id, error)
        if not self._unflushed:
            self._unflushed = True
            self._around.call_soon(self._flush_opened)

    def _flush_opened(self) -> None:
        if self._unflushed:
            self._flush()

    def _flush(self) -> None:
        """A failing disk must not break the streams in hand; the journal refuses further requests by itself."""
        self._unflushed = False
        try:
            self._books.flush()
        except StorageError as error:
            self.num_unflushed += 1
            if self.num_unflushed == 1 or self.num_unflushed % 1000 == 0:
                _log.error("the journal cannot be written (%d times now): %s", self.num_unflushed, error)

    def _dispatch(self, decision: Dispatch) -> None:
        flight = self.flights.get(decision.request_id)
        if flight is None:
            return None
        tokens = flight.tokens
        if tokens is None:
            tier = flight.labels.tier or flight.tenant.tier
            tokens = flight.tokens = TokenClock(self._thresholds.get(tier, _NO_THRESHOLDS))
        for match in flight.matches:
            match.sent(decision.replica)
        exchange = flight.exchange
        attempt = self._attempts.attempt(flight, decision, tokens, self._intake.cors(exchange.request))
        if decision.reason is _HEDGED:
            return exchange.hedge(attempt)
        if flight.labels.early_hints:
            hint(flight, decision)
        return exchange.forward(attempt)

    def _wait(self, decision: Enqueue) -> None:
        flight = self.flights.get(decision.request_id)
        if flight is not None and flight.labels.early_hints:
            hint(flight, decision)

    def _turn_away(self, decision: Reject | Shed | Expire | Fail) -> None:
        flight = self.flights.get(decision.request_id)
        if flight is None:
            return
        detail = (decision.detail or flight.said(decision.reason)) if isinstance(decision, Reject) else ""
        refusal = self._intake.refusal(flight.exchange.request, decision.reason, detail)
        refusal.request_id = decision.request_id
        refusal.retry_after = decision.retry_after
        answer = refusal.answer()
        del self.flights[decision.request_id]
        flight.exchange.answer(answer.status, answer.headers, answer.body)

    def _evict(self, decision: Evict) -> None:
        flight = self.flights.get(decision.request_id)
        if flight is not None:
            flight.exchange.evict(decision.reason)

    def _wake_at(self, decision: WakeAt) -> None:
        if self._timer is not None:
            if self._timer_at == decision.at:
                return
            self._timer.cancel()
        self._timer_at = decision.at
        self._timer = self._around.call_at(decision.at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._wake()

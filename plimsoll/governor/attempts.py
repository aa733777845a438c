"""What an attempt at a replica meets: failure, another try elsewhere, an output longer than was reserved."""

from typing import Final

from plimsoll.errors import IllegalTransition
from plimsoll.governor.dispatching import Dispatcher
from plimsoll.governor.endings import Endings
from plimsoll.governor.events import AttemptFailed, ReservationOutgrown
from plimsoll.governor.hedging import Hedging
from plimsoll.governor.lifecycle import DISPATCHED, OUTGROW, STATES
from plimsoll.governor.outliers import ended
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.settlement import Ending
from plimsoll.governor.timers import Timers
from plimsoll.slo.outcome import Outcome, Phase, Reason

RETRIED: Final = frozenset(
    {
        Reason.CONNECT_FAILED,
        Reason.CONNECTION_LOST,
        Reason.ENGINE_BUSY,
        Reason.ENGINE_ERROR,
        Reason.BAD_UPSTREAM,
    }
)
"""Failures worth another attempt elsewhere. A timeout is not: the client has waited, and more load would not help."""

DOWN: Final = frozenset({Reason.CONNECT_FAILED, Reason.CONNECTION_LOST})
"""Failures after which a replica gets nothing until its next good report."""


TRANSFER: Final = frozenset({Reason.ENGINE_ERROR, Reason.BAD_UPSTREAM})
"""What a replica answers that could not take a cache over."""


class Attempts:
    """Between a dispatch and its end."""

    def __init__(
        self, register: Register, timers: Timers, dispatcher: Dispatcher, endings: Endings, hedging: Hedging
    ) -> None:
        self._register = register
        self._timers = timers
        self._dispatcher = dispatcher
        self._endings = endings
        self._hedging = hedging

    def failed(self, request: Request, event: AttemptFailed) -> None:
        """Another replica is tried, or the request fails; then whoever waits may use the room."""
        if request.state != DISPATCHED:
            raise IllegalTransition(request.id, STATES[request.state], "attempt_failed")
        at, reason = event.at, event.reason
        pool = self._register.pools[request.pool_index]
        twin = request.twin
        if event.hedge or twin is not None:
            if twin is not None:
                self._blame(pool, pool.replicas[(twin if event.hedge else request).replica_index], event)
            self._hedging.attempt_failed(pool, request, event)
            return
        replica = pool.replicas[request.replica_index]
        may_be_transfer = request.prefiller is not None and reason in TRANSFER
        if not may_be_transfer:
            self._blame(pool, replica, event)
        self._endings.attempt_over(pool, replica, request)
        if may_be_transfer:  # the same replica may well answer when it computes the prompt itself
            request.whole = True
            request.prefiller = None
            request.tried &= ~replica.bit
        retries = self._register.policy.scheduling.retries
        if reason in RETRIED and request.attempts <= retries and pool.reachable(request.tried):
            self._dispatcher.enqueue(pool, request, at, again=True)
        else:
            wait = max(0.0, replica.backoff_until - at)
            phase = Phase.CONNECT if reason is Reason.CONNECT_FAILED else Phase.PREFILL
            self._endings.fail(pool, request, Ending(at, Outcome.FAILED, reason, phase), wait)
        self._dispatcher.fill(pool, replica, at)

    def _blame(self, pool: Pool, replica: Replica, event: AttemptFailed) -> None:
        """What the failure says of the replica."""
        reason = event.reason
        if reason in DOWN:
            replica.refused()
        elif reason is Reason.ENGINE_BUSY:
            replica.busy(event.at, event.retry_after)
            self._timers.watch_backoff(replica.backoff_until)
        if replica.predictor is not None and reason not in {Reason.ENGINE_BUSY, Reason.HEDGED}:
            self._watch(pool, replica, event.at, error=True)

    def ended(self, pool: Pool, replica: Replica, request: Request, end: Ending) -> None:
        """Where routing goes by prediction: hold it against what came, and take the replica out if it is an outlier."""
        if replica.predictor is not None and end.outcome is Outcome.COMPLETED:
            replica.predictor.clock.ended(end.at)
            if request.num_choices == 1:
                replica.predictor.tokens(request.predicted_itl, end.tpot(), request.itl_pace)
        if end.outcome in {Outcome.COMPLETED, Outcome.FAILED}:
            error = end.outcome is Outcome.FAILED and not end.is_clients_fault()
            self._watch(pool, replica, end.at, error=error)

    def _watch(self, pool: Pool, replica: Replica, at: float, *, error: bool) -> None:
        if ended(pool, replica, at, error=error):
            self._timers.watch_backoff(replica.backoff_until)

    def outgrown(self, request: Request, event: ReservationOutgrown) -> None:
        """Book twice what was reserved (or came), so that the next doubling is covered; the client's bound holds."""
        request.step(OUTGROW)
        made = event.tokens // request.num_choices
        request.booked_before, request.grown_at = request.booked_until(made), made
        pool = self._register.pools[request.pool_index]
        replica = pool.replicas[request.replica_index]
        asked = request.max_output_tokens
        doubled = 2 * max(request.output_tokens, made, 1)
        request.output_tokens = max(request.output_tokens, min(doubled, asked) if asked else doubled)
        request.sized_for = 0
        pool.lending.unbook(request)
        replica.grow(request, replica.units_for(request))
        pool.lending.book(request, event.at)

"""Hedges of first tokens: a second replica is asked where the first shows none for unusually long.

The first token of either ends the other (the hands do that themselves). What is asked twice costs a bounded part of
all work (`scheduling.hedging.budget`, at most 5 %), only room that nobody waits for, and nothing while the tenant's
error budget calls for action. A request with two places is still one request: counted, charged and settled once; its
`twin` holds the second place, and whatever ends or wins gives the other one back, once.
(https://doi.org/10.1145/2408776.2408794)
"""

from heapq import heappop

from plimsoll.errors import IllegalTransition
from plimsoll.governor.admission import LENT
from plimsoll.governor.dispatching import Dispatcher
from plimsoll.governor.events import AttemptFailed, FirstToken
from plimsoll.governor.lifecycle import DISPATCHED, STATES
from plimsoll.governor.pool import Pool
from plimsoll.governor.queueing import charge_for
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import choose
from plimsoll.governor.saturation import holds
from plimsoll.governor.timers import Timers


class Hedging:
    """Between a dispatch and its first token."""

    def __init__(self, register: Register, timers: Timers, dispatcher: Dispatcher) -> None:
        self._register = register
        self._timers = timers
        self._dispatcher = dispatcher

    def look(self, at: float) -> None:
        """Ask second replicas for those whose first token should have come by now."""
        looks = self._timers.looks
        while looks and looks[0][0] <= at:
            _, _, attempt, request = heappop(looks)
            if request.state == DISPATCHED and request.attempts == attempt and request.twin is None:
                self._hedge(self._register.pools[request.pool_index], request, at)

    def first_token(self, pool: Pool, request: Request, event: FirstToken) -> None:
        """Of two places the other one is given back; when a first token came is learnt in any case."""
        twin, hedges = request.twin, pool.hedges
        if hedges is not None:
            hedges.first_token(request.late_ttft or request.predicted_ttft, event.at - request.dispatched_at)
        if twin is None and not event.hedge:
            return
        if twin is None:
            raise IllegalTransition(request.id, STATES[request.state], "first_token of a hedge")
        first = pool.replicas[request.replica_index]
        second = pool.replicas[twin.replica_index]
        if event.hedge:
            first.first_token_came(request, event.at - request.dispatched_at)  # it takes at least that long there
            second.first_token_came(twin, event.at - twin.dispatched_at)
        self.one_left(pool, request, hedge_left=event.hedge)
        request.hedge = "won" if event.hedge else "lost"
        if event.hedge:
            request.predicted_ttft = request.learned_ttft = 0.0
        if hedges is not None:
            hedges.num_won += event.hedge
        self._dispatcher.fill(pool, first if event.hedge else second, event.at)

    def attempt_failed(self, pool: Pool, request: Request, event: AttemptFailed) -> None:
        """One of two places is lost, the other goes on."""
        lost = request.twin if event.hedge else request
        if lost is None:
            raise IllegalTransition(request.id, STATES[request.state], "attempt_failed of a hedge")
        replica = pool.replicas[lost.replica_index]
        request.tried |= replica.bit
        self.one_left(pool, request, hedge_left=not event.hedge)
        request.hedge = "failed" if event.hedge else "won"
        self._dispatcher.fill(pool, replica, event.at)

    def one_left(self, pool: Pool, request: Request, *, hedge_left: bool) -> None:
        """Give one of its two places back."""
        twin, request.twin = request.twin, None
        if twin is None:
            return
        if hedge_left:
            self._dispatcher.vacate(pool, pool.replicas[request.replica_index], request)
            request.takes_place_of(twin)
            pool.replicas[twin.replica_index].in_flight[request.id] = request
        else:
            self._dispatcher.vacate(pool, pool.replicas[twin.replica_index], twin)

    def _hedge(self, pool: Pool, request: Request, at: float) -> None:
        hedges = pool.hedges
        if hedges is None or not request.account.may_hedge or pool.num_waiting or not pool.open or holds(pool, at):
            return
        cost = charge_for(request, 0)
        if cost > hedges.credit:
            return
        replica = self._other_place(pool, request, at)
        if replica is None:
            return
        hedges.credit -= cost
        hedges.num += 1
        request.hedge = "asked"
        self._dispatcher.hedge(pool, replica, request, at)

    def _other_place(self, pool: Pool, request: Request, at: float) -> Replica | None:
        """The best replica but the one that is slow; never what another tier lends."""
        tried = request.tried
        request.tried |= pool.replicas[request.replica_index].bit
        replica, right = choose(pool, request, at)
        request.tried, request.holders = tried, None
        return None if right == LENT else replica

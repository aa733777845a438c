"""The one timer of the hands: what it is wanted for, and when next."""

from heapq import heapify, heappop, heappush
from math import inf

from plimsoll.governor.lifecycle import DISPATCHED, QUEUED
from plimsoll.governor.request import Request


class Timers:
    """Expiries of waiting requests, ends of backoffs, the end of a drain's grace."""

    def __init__(self) -> None:
        self.armed_at = inf  # of the last WakeAt that has not fired
        self.drain_at = inf
        self._expiries: list[tuple[float, int, Request]] = []
        self._dues: list[tuple[float, int, Request]] = []  # whoever is late by then; nothing happens before an event
        self.looks: list[tuple[float, int, int, Request]] = []  # when a first token is late (`hedging`)
        self._backoffs: list[float] = []

    def watch(self, request: Request, num_waiting: int) -> None:
        """It waits from now on; `num_waiting` in all, to know when most of what is kept has left already."""
        expiries = self._expiries
        if request.expire_at != inf:
            heappush(expiries, (request.expire_at, request.sequence, request))
        if len(expiries) > 2 * num_waiting + 64:
            self._expiries = [entry for entry in expiries if entry[2].state == QUEUED]
            heapify(self._expiries)
        if request.queued_at < request.due_at < request.expire_at:  # else waiting is not what cost it its objective
            self._watch_due(request, num_waiting)

    def _watch_due(self, request: Request, num_waiting: int) -> None:
        dues = self._dues
        heappush(dues, (request.due_at, request.sequence, request))
        if len(dues) > 2 * num_waiting + 64:
            self._dues = [entry for entry in dues if entry[2].state == QUEUED]
            heapify(self._dues)

    def look_again(self, request: Request, at: float) -> None:
        """Whether it is late then."""
        heappush(self._dues, (at, request.sequence, request))

    def late(self, at: float) -> Request | None:
        """One that waits and may be late; call until None. One that failed and waits again stays where it is."""
        dues = self._dues
        while dues and dues[0][0] <= at:
            request: Request = heappop(dues)[2]
            if request.state == QUEUED and not request.late and request.attempts == 0:
                return request
        return None

    def watch_backoff(self, until_at: float) -> None:
        """A replica may be used again from then on."""
        heappush(self._backoffs, until_at)

    def expired(self, at: float) -> Request | None:
        """One that waits beyond its time; call until None."""
        expiries = self._expiries
        while expiries and expiries[0][0] <= at:
            request: Request = heappop(expiries)[2]
            if request.state == QUEUED:
                return request
        return None

    def backoff_over(self, at: float) -> bool:
        """Whether a backoff has ended since the last call."""
        over = False
        while self._backoffs and self._backoffs[0] <= at:
            heappop(self._backoffs)
            over = True
        return over

    def wake_at(self) -> float:
        """The instant for a new WakeAt, which is then armed; inf where the armed one will do."""
        expiries = self._expiries
        while expiries and expiries[0][2].state != QUEUED:
            heappop(expiries)
        next_at = self.drain_at
        if expiries and expiries[0][0] < next_at:
            next_at = expiries[0][0]
        if self._backoffs and self._backoffs[0] < next_at:
            next_at = self._backoffs[0]
        if self.looks:
            next_at = min(next_at, self._next_look())
        if next_at >= self.armed_at:
            return inf
        self.armed_at = next_at
        return next_at

    def _next_look(self) -> float:
        """At the next first token that may be late; inf where all have come."""
        looks = self.looks
        while looks and (looks[0][3].state != DISPATCHED or looks[0][3].attempts != looks[0][2]):
            heappop(looks)
        return looks[0][0] if looks else inf

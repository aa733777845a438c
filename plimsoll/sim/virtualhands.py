"""What the governor decides is done, and what replicas tell is told to it: the virtual hands of a simulation.

The twin of `gateway/driver.py` and what is below it. When things happen is `simulation.py`'s word.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import cast

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Decision, Dispatch, Evict, Expire, Fail, Reassign, Reject, Settle, Shed, WakeAt
from plimsoll.governor.events import (
    AttemptFailed,
    Event,
    PrefillFailed,
    ReplicasReported,
    ReservationOutgrown,
)
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.sim import bound
from plimsoll.sim.agenda import Agenda
from plimsoll.sim.asking import finished, job_for
from plimsoll.sim.checks import Checks
from plimsoll.sim.fleet import Fleet
from plimsoll.sim.flight import Flight
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, OUTGROWN, Job, Output
from plimsoll.sim.races import NOT_ITS, SECOND, Place, Races
from plimsoll.sim.twohops import TwoHops
from plimsoll.slo.outcome import Outcome, Reason


class VirtualHands:
    """Requests that are open, and where they are."""

    def __init__(  # noqa: PLR0917 - what a run is made of
        self,
        policy: Policy,
        profiles: Mapping[str, EngineProfile],
        settled: Callable[[Settle], None],
        start_at: float,
        seen: Callable[[float, Decision], None] | None,
        reported: Callable[[ReplicasReported], None] | None,
        sketches: bool,
    ) -> None:
        """See `Simulation`."""
        self.policy = policy
        self.now = start_at
        self.num_events = 0
        self.governor = Governor(policy, profiles)
        self._settled = settled
        self._seen = seen
        self._agenda = Agenda()
        self.fleet = Fleet(policy, profiles, start_at, reported, sketches or bool(policy.degradation.levels))
        self._flights: dict[int, Flight] = {}
        self._races = Races()
        self._hops = TwoHops(self.fleet.links)
        self._checks = Checks(policy, self._agenda)
        self._events: deque[Event] = deque()  # those that follow from the one in hand
        self._handling = False
        self._timer_at = inf
        self._tiers = {tenant.name: tenant.tier for tenant in policy.tenants}

    def _end(self, flight: Flight, outcome: Outcome, reason: Reason) -> None:
        """End a request that runs."""
        if (second := self._races.places.pop(flight.request_id, None)) is not None:
            self._cancel(second)
        self._take(flight.replica, self.fleet.advance(flight.replica, self.now))
        job = flight.job  # its first hop may have ended now
        if job is not None and flight.request_id in self._flights:  # it may have ended by itself at this very instant
            tokens = self.fleet.replicas[flight.replica].output_so_far(job)
            self._finish(flight, job, tokens, self.now, outcome, reason)
            self.fleet.cancel(flight.replica, job.id)

    def _cancel(self, place: Place) -> None:
        """Take a job from its replica, after all that has happened there by now."""
        self._take(place[0], self.fleet.advance(place[0], self.now))
        self.fleet.cancel(place[0], place[1].id)

    def _send(self, event: Event) -> None:
        """Tell the governor and carry out what it decides; what follows from that waits its turn."""
        if self._handling:
            self._events.append(event)
            return
        self._handling = True
        self._handle(event)
        while self._events:
            self._handle(self._events.popleft())
        self._handling = False

    def _handle(self, event: Event) -> None:
        self.num_events += 1
        for decision in self.governor.handle(event):
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        if self._seen is not None:
            self._seen(self.now, decision)
        kind = type(decision)
        if kind is bound.SETTLE:
            self._settled(cast(Settle, decision))
        elif kind is bound.DISPATCH:
            self._dispatch(cast(Dispatch, decision))
        elif kind is WakeAt:
            self._timer_at = cast(WakeAt, decision).at
        elif kind is bound.ENQUEUE:
            return
        elif kind is bound.RUN_PLUGINS:
            self._checks.ask(decision, self.now)
        elif isinstance(decision, Reject | Shed | Expire | Fail):
            self._flights.pop(decision.request_id, None)
        elif isinstance(decision, Reassign):
            self.fleet.moves.append(decision)
        elif isinstance(decision, Evict):
            flight = self._flights.get(decision.request_id)
            if flight is not None and flight.job is not None:
                self._end(flight, Outcome.EVICTED, decision.reason)

    def _dispatch(self, decision: Dispatch) -> None:
        flight = self._flights[decision.request_id]
        number = self.fleet.numbers[decision.replica]
        hedge = decision.reason is bound.HEDGED
        if hedge and number in self.fleet.down:
            return self._send(AttemptFailed(self.now, flight.request_id, Reason.CONNECT_FAILED, hedge=True))
        tier = flight.asked_tier or self._tiers.get(flight.tenant, "")
        job = job_for(flight, decision, self.fleet, number, tier)
        if hedge:
            self._races.places[flight.request_id] = (number, job)
            return self._take(number, self.fleet.submit(number, self.now, job))
        if decision.prefill:
            return self._compute_apart(flight, (number, job), self.fleet.numbers[decision.prefill])
        return self._start(flight, number, job)

    def _start(self, flight: Flight, number: int, job: Job) -> None:
        """Hand it to the replica that answers it."""
        if number in self.fleet.down:
            flight.replica, flight.job = -1, None
            return self._send(AttemptFailed(self.now, flight.request_id, Reason.CONNECT_FAILED))
        try:
            outputs = self.fleet.submit(number, self.now, job)
        except ProfileError:  # what vLLM answers with 400
            flight.replica, flight.job = number, job
            return self._finish(flight, job, 0, self.now, Outcome.FAILED, Reason.ENGINE_REFUSED)
        flight.replica, flight.job = number, job
        return self._take(number, outputs)

    def _compute_apart(self, flight: Flight, place: Place, first: int) -> None:
        """Have its prompt computed by another engine before."""
        if first in self.fleet.down:
            return self._decode_alone(flight, place, Reason.CONNECT_FAILED)
        prompt = self._hops.begin(flight, place, first)
        try:
            outputs = self.fleet.submit(first, self.now, prompt)
        except ProfileError:
            return self._decode_alone(flight, self._hops.going.pop(flight.request_id), Reason.ENGINE_ERROR)
        return self._take(first, outputs)

    def _decode_alone(self, flight: Flight, place: Place, reason: Reason) -> None:
        """Its first hop came to nothing."""
        self._send(PrefillFailed(self.now, flight.request_id, reason))
        self._start(flight, *place)

    def _take(self, number: int, outputs: list[Output]) -> None:
        for output in outputs:
            flight = self._flights.get(output.job.id)
            if flight is None:
                continue
            hedge, kind = False, output.kind
            if self._hops.going and output.job is flight.job and flight.request_id in self._hops.going:
                if kind == FINISHED:
                    self._start(flight, *self._hops.computed(flight, output.at))
                continue
            if self._races.places or output.job is not flight.job:
                whose = self._races.judge(flight, output)
                while self._races.lost:
                    self._cancel(self._races.lost.pop())
                if whose == NOT_ITS:
                    continue
                hedge = whose == SECOND
                if hedge:
                    self._hops.going.pop(flight.request_id, None)
            if kind == FINISHED:
                self._finish(flight, output.job, output.job.output_tokens, output.at, bound.COMPLETED, bound.DONE)
            elif kind == FIRST_TOKEN and flight.streaming:
                self._send(bound.FIRST_TOKEN(output.at, flight.request_id, hedge))
            elif kind == OUTGROWN and flight.streaming:
                tokens = self.fleet.replicas[number].output_so_far(output.job)
                self._send(ReservationOutgrown(output.at, flight.request_id, tokens))

    def _finish(  # noqa: PLR0917 - the parts of an ending
        self, flight: Flight, job: Job, tokens: int, at: float, outcome: Outcome, reason: Reason
    ) -> None:
        del self._flights[flight.request_id]
        if self._hops.going:
            self._hops.going.pop(flight.request_id, None)
        timing = self.fleet.timing(flight.replica, job, tokens, streaming=flight.streaming)
        self._send(finished(job, tokens, at, outcome, reason, timing))

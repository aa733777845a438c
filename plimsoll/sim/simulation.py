"""The same governor on a virtual clock: arrivals from a workload, engines from `sim/replica`, rows to whoever asks.

Reading order: `run` (what happens next), `_arrive`, `_carry_out` (what the governor decides), `_take` (what replicas
tell). It is `gateway/driver.py` without a network: the same events with the same meaning (law 4).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, cast

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Decision, Dispatch, Evict, Expire, Fail, Reassign, Reject, Settle, Shed, WakeAt
from plimsoll.governor.events import (
    AttemptFailed,
    BudgetsReported,
    CapabilitiesReported,
    Event,
    ReplicasReported,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.sim import bound
from plimsoll.sim.agenda import ARRIVAL, CHECKED, FAILURE, LEAVING, REPLICA, REPORT, TIMER, Agenda
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.asking import finished, job_for
from plimsoll.sim.checks import Checks
from plimsoll.sim.collecting import rare_collections
from plimsoll.sim.fleet import Fleet
from plimsoll.sim.flight import Flight
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, OUTGROWN, Job, Output
from plimsoll.sim.outage import Outage, Upgrade, planned, schedule
from plimsoll.sim.races import NOT_ITS, SECOND, Place, Races
from plimsoll.slo.outcome import Outcome, Reason

EPOCH: Final = 1_767_571_200.0
"""Monday, 5 January 2026, 00:00 UTC: when simulated time starts unless another instant is given."""


class Simulation:
    """One run. `settled` gets each Settle as it is made; `seen` each decision (for parity and live views), `reported`
    what replicas said, with the states that live probes would read.

    Without `sketches` rows do not tell their token gaps by length, which is two fifths of the work; verdicts do not
    change, nor does any decision: a policy whose ladder asks for gaps has them counted all the same.
    """

    def __init__(  # noqa: PLR0917 - what a run is made of
        self,
        policy: Policy,
        profiles: Mapping[str, EngineProfile],
        arrivals: Iterable[Arrival],
        settled: Callable[[Settle], None],
        start_at: float = EPOCH,
        seen: Callable[[float, Decision], None] | None = None,
        outages: Iterable[Outage | Upgrade] = (),
        reported: Callable[[ReplicasReported], None] | None = None,
        sketches: bool = True,
    ) -> None:
        self.policy = policy
        self.now = self.start_at = start_at
        self.num_arrived = self.num_events = 0
        self.governor = Governor(policy, profiles)
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next: Arrival | None = None
        self._began = False
        self._settled = settled
        self._seen = seen
        self._agenda = Agenda()
        self.fleet = Fleet(policy, profiles, start_at, reported, sketches or bool(policy.degradation.levels))
        self._wakes = self.fleet.wakes
        schedule(self.fleet.plan(planned(outages, policy.pools), profiles), self._agenda, self.fleet.numbers, start_at)
        self._flights: dict[int, Flight] = {}
        self._races = Races()
        self._checks = Checks(policy, self._agenda)
        self._events: deque[Event] = deque()  # those that follow from the one in hand
        self._handling = False
        self._next_at = inf  # of the next arrival
        self._report_at = self._timer_at = inf
        self._tiers = {tenant.name: tenant.tier for tenant in policy.tenants}

    def run(self, until: float = inf) -> None:
        """Up to an instant, or until the workload has ended and every request with it. Can be called again."""
        if not self._began:
            self._began = True
            self._report()  # live hands probe before they serve
            self._draw_next()
        with rare_collections():
            while self._next is not None or self._flights:
                if not self._happen(until):
                    return

    def tell(self, event: BudgetsReported | CapabilitiesReported) -> None:
        """Give the governor a report from outside, between two runs; its instant is not before what has happened."""
        self.now = max(self.now, event.at)
        self._send(event)

    @property
    def ended(self) -> bool:
        """Whether the workload has ended and every request with it."""
        return self._began and self._next is None and not self._flights

    @property
    def num_open(self) -> int:  # that have arrived and not ended
        return len(self._flights)

    def _happen(self, until: float) -> bool:
        """Let the next thing happen, ties by priority; False where it lies beyond `until`."""
        at, priority = self._wakes.next_at, REPLICA
        if self._report_at < at:
            at, priority = self._report_at, REPORT
        if self._agenda.next_at < at:
            at, priority = self._agenda.next_at, self._agenda.next_priority()
        if self._timer_at < at:
            at, priority = max(self.now, self._timer_at), TIMER
        if self._next_at < at:
            at, priority = self._next_at, ARRIVAL
        if at > until:
            return False
        self.now = at
        if priority == REPLICA:
            number = self._wakes.next_number
            self._take(number, self.fleet.advance(number, at))
        elif priority == ARRIVAL:
            self._arrive()
        elif priority == REPORT:
            self._report()
        elif priority == TIMER:
            self._timer_at = inf
            self._send(TimerFired(at))
        else:
            self._come(priority, self._agenda.pop()[2])
        return True

    def _come(self, priority: int, number: int) -> None:
        """The rarer things."""
        if priority == LEAVING:
            return self._leave(number)
        if priority == FAILURE:
            return self._fail(number)
        if priority == CHECKED:
            if (event := self._checks.over(number, self.now)) is not None:
                self._send(event)
            return None
        return self.fleet.renew(number, self.now, down=False)

    def _report(self) -> None:
        self._report_at = self.now + float(self.policy.gateway.probe_every)
        self._send(self.fleet.tell(self.now))

    def _draw_next(self) -> None:
        self._next = arrival = next(self._arrivals, None)
        self._next_at = inf if arrival is None else max(self.now, self.start_at + arrival.at)

    def _arrive(self) -> None:
        arrival = self._next
        if arrival is None:
            return
        self.num_arrived += 1
        request_id = 1 << 40 | self.num_arrived
        self._flights[request_id] = flight = Flight(request_id, arrival)
        if flight.patience < inf:
            self._agenda.put(self.now + flight.patience, LEAVING, request_id)
        self._draw_next()
        self._send(self._checks.first(flight, self.now))

    def _leave(self, request_id: int) -> None:
        """A client's patience is over."""
        flight = self._flights.get(request_id)
        if flight is None:
            return
        if flight.job is None:
            del self._flights[request_id]
            self._send(self._checks.left(flight, self.now))
        else:
            self._end(flight, flight.job, Outcome.ABORTED, Reason.CLIENT_LEFT)

    def _fail(self, number: int) -> None:
        """A replica goes down: answers that have begun break off, what has shown no token may be tried elsewhere."""
        self._take(number, self.fleet.advance(number, self.now))
        self.fleet.down.add(number)
        lost = [(flight, flight.job) for flight in self._flights.values() if flight.replica == number and flight.job]
        for flight, job in lost:
            if (num := self.fleet.replicas[number].output_so_far(job)) and flight.streaming:
                self._finish(flight, job, num, self.now, Outcome.FAILED, Reason.CONNECTION_LOST)
            else:
                if not self._races.promote(flight):
                    flight.job, flight.replica = None, -1
                self._send(AttemptFailed(self.now, flight.request_id, Reason.CONNECTION_LOST))
        for request_id in self._races.leave(number):
            self._send(AttemptFailed(self.now, request_id, Reason.CONNECTION_LOST, hedge=True))
        self.fleet.renew(number, self.now, down=True)

    def _end(self, flight: Flight, job: Job, outcome: Outcome, reason: Reason) -> None:
        """End a request that runs."""
        if (second := self._races.places.pop(flight.request_id, None)) is not None:
            self._cancel(second)
        self._take(flight.replica, self.fleet.advance(flight.replica, self.now))
        if flight.request_id in self._flights:  # it may have ended by itself at this very instant
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
                self._end(flight, flight.job, Outcome.EVICTED, decision.reason)

    def _dispatch(self, decision: Dispatch) -> None:
        flight = self._flights[decision.request_id]
        number = self.fleet.numbers[decision.replica]
        hedge = decision.reason is bound.HEDGED
        if number in self.fleet.down:
            return self._send(AttemptFailed(self.now, flight.request_id, Reason.CONNECT_FAILED, hedge=hedge))
        tier = flight.asked_tier or self._tiers.get(flight.tenant, "")
        job = job_for(flight, decision, self.fleet, number, tier)
        if hedge:
            self._races.places[flight.request_id] = (number, job)
            return self._take(number, self.fleet.submit(number, self.now, job))
        try:
            outputs = self.fleet.submit(number, self.now, job)
        except ProfileError:  # what vLLM answers with 400
            flight.replica, flight.job = number, job
            return self._finish(flight, job, 0, self.now, Outcome.FAILED, Reason.ENGINE_REFUSED)
        flight.replica, flight.job = number, job
        return self._take(number, outputs)

    def _take(self, number: int, outputs: list[Output]) -> None:
        for output in outputs:
            flight = self._flights.get(output.job.id)
            if flight is None:
                continue
            hedge, kind = False, output.kind
            if self._races.places or output.job is not flight.job:
                whose = self._races.judge(flight, output)
                while self._races.lost:
                    self._cancel(self._races.lost.pop())
                if whose == NOT_ITS:
                    continue
                hedge = whose == SECOND
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
        timing = self.fleet.timing(flight.replica, job, tokens, streaming=flight.streaming)
        self._send(finished(job, tokens, at, outcome, reason, timing))

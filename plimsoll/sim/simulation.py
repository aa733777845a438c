"""The same governor on a virtual clock: arrivals from a workload, engines from `sim/replica`, rows to whoever asks.

Reading order: `run` (what happens next), `_arrive`, then in `virtualhands.py` `_carry_out` (what the governor decides)
and `_take` (what replicas tell). It is `gateway/driver.py` without a network: the same events with the same meaning
(law 4).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Decision, Settle
from plimsoll.governor.events import (
    AttemptFailed,
    BudgetsReported,
    CapabilitiesReported,
    ReplicasReported,
    TimerFired,
)
from plimsoll.policy.policy import Policy
from plimsoll.sim.agenda import ARRIVAL, CHECKED, FAILURE, LEAVING, REPLICA, REPORT, TIMER
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.collecting import rare_collections
from plimsoll.sim.flight import Flight
from plimsoll.sim.outage import Outage, Upgrade, planned, schedule
from plimsoll.sim.virtualhands import VirtualHands
from plimsoll.slo.outcome import Outcome, Reason

EPOCH: Final = 1_767_571_200.0
"""Monday, 5 January 2026, 00:00 UTC: when simulated time starts unless another instant is given."""


class Simulation(VirtualHands):
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
        super().__init__(policy, profiles, settled, start_at, seen, reported, sketches)
        self.start_at = start_at
        self.num_arrived = 0
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next: Arrival | None = None
        self._began = False
        self._wakes = self.fleet.wakes
        schedule(self.fleet.plan(planned(outages, policy.pools), profiles), self._agenda, self.fleet.numbers, start_at)
        self._next_at = inf  # of the next arrival
        self._report_at = inf

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
            self._end(flight, Outcome.ABORTED, Reason.CLIENT_LEFT)

    def _fail(self, number: int) -> None:
        """A replica goes down: answers that have begun break off, what has shown no token may be tried elsewhere."""
        self._take(number, self.fleet.advance(number, self.now))
        self.fleet.down.add(number)
        lost = [(flight, flight.job) for flight in self._flights.values() if flight.replica == number and flight.job]
        for flight, job in lost:
            if (num := self.fleet.replicas[number].output_so_far(job)) and flight.streaming:
                self._finish(flight, job, num, self.now, Outcome.FAILED, Reason.CONNECTION_LOST)
            elif flight.request_id in self._hops.going:
                self._decode_alone(flight, self._hops.going.pop(flight.request_id), Reason.CONNECTION_LOST)
            else:
                if not self._races.promote(flight):
                    flight.job, flight.replica = None, -1
                self._send(AttemptFailed(self.now, flight.request_id, Reason.CONNECTION_LOST))
        for request_id in self._races.leave(number):
            self._send(AttemptFailed(self.now, request_id, Reason.CONNECTION_LOST, hedge=True))
        self.fleet.renew(number, self.now, down=True)

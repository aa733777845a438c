"""The same governor on a virtual clock: arrivals from a workload, engines from `sim/replica`, rows to whoever asks.

Reading order: `run` (what happens next), `_arrive`, `_carry_out` (what the governor decides), `_take` (what replicas
tell). It is `gateway/driver.py` without a network: the same events with the same meaning (law 4).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Decision, Dispatch, Evict, Expire, Fail, Reject, Settle, Shed, WakeAt
from plimsoll.governor.events import (
    Criticality,
    Event,
    FirstToken,
    ReplicasReported,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.sim.agenda import ARRIVAL, LEAVING, REPLICA, REPORT, TIMER, Agenda
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.fitting import whole_blocks
from plimsoll.sim.fleet import Fleet
from plimsoll.sim.flight import Flight
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, OUTGROWN, Job, Output
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import itl_thresholds
from plimsoll.slo.timing import Timing, TokenClock

EPOCH: Final = 1_767_571_200.0
"""Monday, 5 January 2026, 00:00 UTC: when simulated time starts unless another instant is given."""

MAX_HASHES: Final = 16
"""The governor is told of so many prefix hashes, as by the live hands; the engine's own cache knows all."""


class Ending(NamedTuple):
    """How a request left its replica."""

    at: float
    outcome: Outcome
    reason: Reason


class Simulation:
    """One run. `settled` gets each Settle as it is made; `seen` each decision (for parity and live views)."""

    def __init__(  # noqa: PLR0917 - what a run is made of
        self,
        policy: Policy,
        profiles: Mapping[str, EngineProfile],
        arrivals: Iterable[Arrival],
        settled: Callable[[Settle], None],
        start_at: float = EPOCH,
        seen: Callable[[float, Decision], None] | None = None,
    ) -> None:
        self.policy = policy
        self.now = start_at
        self.start_at = start_at
        self.num_arrived = 0
        self.num_events = 0
        self.governor = Governor(policy, profiles)
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next: Arrival | None = None
        self._began = False
        self._settled = settled
        self._seen = seen
        self._agenda = Agenda()
        self.fleet = Fleet(policy, profiles, self._agenda)
        self._flights: dict[int, Flight] = {}
        self._events: deque[Event] = deque()
        self._timer_stamp = 0
        self._timer_at = inf
        self._tiers = {tenant.name: tenant.tier for tenant in policy.tenants}
        self._thresholds = {tier.name: itl_thresholds(tier.objectives) for tier in policy.tiers}

    def run(self, until: float = inf) -> None:
        """Up to an instant, or until the workload has ended and every request with it. Can be called again."""
        if not self._began:
            self._began = True
            self._send(ReplicasReported(self.now, self.fleet.report(self.now)))  # live hands probe before they serve
            self._agenda.put(self.now + self.policy.gateway.probe_every, REPORT, 0)
            self._draw_next()
        while (self._next is not None or self._flights) and self._agenda.next_at() <= until:
            at, priority, number, _, stamp = self._agenda.pop()
            self.now = at
            self._happen(priority, number, stamp)

    @property
    def ended(self) -> bool:
        """Whether the workload has ended and every request with it."""
        return self._began and self._next is None and not self._flights

    @property
    def num_open(self) -> int:
        """Requests that have arrived and not ended."""
        return len(self._flights)

    # What happens.

    def _happen(self, priority: int, number: int, stamp: int) -> None:
        if priority == REPLICA:
            self._take(number, self.fleet.due(number, stamp, self.now))
        elif priority == ARRIVAL:
            self._arrive()
        elif priority == REPORT:
            self._send(ReplicasReported(self.now, self.fleet.report(self.now)))
            self._agenda.put(self.now + self.policy.gateway.probe_every, REPORT, 0)
        elif priority == LEAVING:
            self._leave(number)
        elif stamp == self._timer_stamp:
            self._timer_at = inf
            self._send(TimerFired(self.now))

    def _draw_next(self) -> None:
        self._next = next(self._arrivals, None)
        if self._next is not None:
            self._agenda.put(max(self.now, self.start_at + self._next.at), ARRIVAL, 0)

    def _arrive(self) -> None:
        arrival = self._next
        if arrival is None:
            return
        self.num_arrived += 1
        request_id = 1 << 40 | self.num_arrived
        self._flights[request_id] = Flight(request_id, arrival, self._tiers.get(arrival.tenant, ""))
        if arrival.patience < inf:
            self._agenda.put(self.now + arrival.patience, LEAVING, request_id)
        self._draw_next()
        stride = _stride(len(arrival.hashes))
        self._send(
            RequestArrived(
                at=self.now,
                request_id=request_id,
                tenant=arrival.tenant,
                model=arrival.model,
                prompt_tokens=arrival.prompt_tokens,
                max_output_tokens=arrival.max_output_tokens,
                prefix_hashes=arrival.hashes[stride - 1 :: stride],
                prefix_block_tokens=arrival.hash_tokens * stride,
                streaming=arrival.streaming,
                tier=arrival.tier,
                cause=arrival.cause,
                criticality=Criticality(arrival.criticality),
                session=arrival.session,
                upstream_time=arrival.upstream_time,
                upstream_trust=self.policy.service.upstream_time,
            )
        )

    def _leave(self, request_id: int) -> None:
        """A client's patience is over."""
        flight = self._flights.get(request_id)
        if flight is None:
            return
        if flight.job is None:
            del self._flights[request_id]
            self._send(RequestCancelled(self.now, request_id))
        else:
            self._end(flight, flight.job, Outcome.ABORTED, Reason.CLIENT_LEFT)

    def _end(self, flight: Flight, job: Job, outcome: Outcome, reason: Reason) -> None:
        """End a request that runs."""
        self._take(flight.replica, self.fleet.advance(flight.replica, self.now))
        if flight.request_id in self._flights:  # it may have ended by itself at this very instant
            tokens = self.fleet.replicas[flight.replica].output_so_far(job)
            self._finish(flight, job, tokens, Ending(self.now, outcome, reason))
            self.fleet.cancel(flight.replica, job.id)

    # What is decided.

    def _send(self, event: Event) -> None:
        """Tell the governor and carry out what it decides; what follows from that waits its turn."""
        self._events.append(event)
        if len(self._events) > 1:
            return
        while self._events:
            self.num_events += 1
            for decision in self.governor.handle(self._events[0]):
                self._carry_out(decision)
            self._events.popleft()

    def _carry_out(self, decision: Decision) -> None:
        if self._seen is not None:
            self._seen(self.now, decision)
        kind = type(decision)
        if kind is WakeAt:
            self._wake_at(decision.at)  # type: ignore[union-attr]
        elif kind is Settle:
            self._settled(decision)  # type: ignore[arg-type]
        elif kind is Dispatch:
            self._dispatch(decision)  # type: ignore[arg-type]
        elif isinstance(decision, Reject | Shed | Expire | Fail):
            self._flights.pop(decision.request_id, None)
        elif isinstance(decision, Evict):
            flight = self._flights.get(decision.request_id)
            if flight is not None and flight.job is not None:
                self._end(flight, flight.job, Outcome.EVICTED, decision.reason)

    def _wake_at(self, at: float) -> None:
        if at != self._timer_at:
            self._timer_stamp += 1
            self._timer_at = at
            self._agenda.put(max(at, self.now), TIMER, 0, self._timer_stamp)

    def _dispatch(self, decision: Dispatch) -> None:
        flight = self._flights[decision.request_id]
        arrival = flight.arrival
        output = arrival.output_tokens
        cap = decision.max_output_tokens or arrival.max_output_tokens
        number = self.fleet.numbers[decision.replica]
        job = Job(
            flight.request_id,
            arrival.prompt_tokens,
            min(output, cap) if cap else output,
            arrival.hashes,
            whole_blocks(arrival.hash_tokens, self.fleet.replicas[number].profile),
        )
        job.priority = decision.priority or 0
        job.mark = decision.reserved_output_tokens
        try:
            outputs = self.fleet.submit(number, self.now, job)
        except ProfileError:  # what vLLM answers with 400
            flight.replica, flight.job = number, job
            self._finish(flight, job, 0, Ending(self.now, Outcome.FAILED, Reason.ENGINE_REFUSED))
            return
        flight.replica, flight.job = number, job
        self._take(number, outputs)

    # What replicas tell.

    def _take(self, number: int, outputs: list[Output]) -> None:
        for output in outputs:
            flight = self._flights.get(output.job.id)
            if flight is None:
                continue
            if output.kind == FINISHED:
                ending = Ending(output.at, Outcome.COMPLETED, Reason.DONE)
                self._finish(flight, output.job, output.job.output_tokens, ending)
            elif output.kind == FIRST_TOKEN and flight.arrival.streaming:
                self._send(FirstToken(output.at, flight.request_id))
            elif output.kind == OUTGROWN and flight.arrival.streaming:
                tokens = self.fleet.replicas[number].output_so_far(output.job)
                self._send(ReservationOutgrown(output.at, flight.request_id, tokens))

    def _finish(self, flight: Flight, job: Job, tokens: int, ending: Ending) -> None:
        del self._flights[flight.request_id]
        timing = self._timing(flight, job, tokens)
        done = ending.outcome is Outcome.COMPLETED
        phase = Phase.NONE if done else Phase.DECODE if timing.first_token_at else Phase.PREFILL
        self._send(
            RequestFinished(
                ending.at,
                flight.request_id,
                ending.outcome,
                ending.reason,
                timing,
                job.prompt_tokens if done else 0,
                tokens,
                job.cached_tokens if done else None,
                phase,
            )
        )

    def _timing(self, flight: Flight, job: Job, tokens: int) -> Timing:
        clock = TokenClock(self._thresholds.get(flight.tier, ()))
        if tokens and flight.arrival.streaming:
            clock.tokens(job.first_token_at, 1)
            for run in self.fleet.replicas[flight.replica].runs(job):
                clock.run(run)
        return clock.finish(tokens)


def _stride(num_hashes: int) -> int:
    """Every how many-th hash the governor is told: stretches double in size until 16 cover the prompt."""
    stride = 1
    while num_hashes // stride > MAX_HASHES:
        stride *= 2
    return stride

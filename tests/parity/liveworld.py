"""The live driver on a virtual clock, before replicas that go step by step: no network, no jumps, no simulation."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import inf
from typing import Any

import msgspec
from msgspec.structs import replace

from plimsoll.engine.profile import EngineProfile
from plimsoll.gateway.carrier import Surroundings
from plimsoll.gateway.channel import Deliver
from plimsoll.gateway.driver import Driver
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import ClientRequest
from plimsoll.gateway.plugin import Asked, Cancel, Found, Said
from plimsoll.governor.decisions import Decision
from plimsoll.governor.events import Event, ReplicaReport, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.gate import GatedReplica
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, RESUMED, Job
from plimsoll.sim.outage import Outage
from plimsoll.sim.replica import Replica
from plimsoll.sim.stepping import SteppingReplica
from tests.gateway.drivenworld import RememberedBooks, VirtualClock
from tests.parity.liveexchange import START, LiveExchange, Wanted


def key_of(tenant: str) -> str:
    return f"sk-{tenant}"


def digest_of(tenant: str) -> str:
    return "sha256:" + sha256(key_of(tenant).encode()).hexdigest()


class Recorder:
    """A direct channel that remembers decisions, and lets refused connections be known when an event is dealt with."""

    def __init__(self, governor: Governor, clock: VirtualClock, refused: list[Callable[[], None]]) -> None:
        self.governor, self.clock, self.refused = governor, clock, refused
        self.decisions: list[tuple[float, Decision]] = []
        self._deliver: Deliver = lambda _: None
        self._depth = 0

    @property
    def is_sending(self) -> bool:
        return self._depth > 0

    def open(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def send(self, event: Event) -> None:
        decisions = self.governor.handle(event)
        self.decisions += [(self.clock.now, decision) for decision in decisions]
        self._depth += 1
        if decisions:
            self._deliver(decisions)
        self._depth -= 1
        while self.refused and not self._depth:
            self.refused.pop(0)()


class LiveWorld:
    """The driver, a governor, replicas and clients, run through a history.

    `outages` are of replicas; `told` are reports from outside (budgets, capabilities) at their instants, none of them
    after the last client.
    """

    def __init__(
        self,
        policy: Policy,
        profiles: dict[str, EngineProfile],
        history: list[Wanted],
        outages: Sequence[Outage] = (),
        told: Sequence[Event] = (),
    ) -> None:
        self.clock = VirtualClock()
        self.clock.now = START
        self._profiles = {
            name: profiles[pool.engine_profile] for pool in policy.pools for name in (*pool.replicas, *pool.prefill)
        }
        self._apart = {name for pool in policy.pools if pool.prefill for name in (*pool.replicas, *pool.prefill)}
        self._links: dict[str, float] = {}  # by engine that computes prompts: until when its link is taken
        self.replicas: dict[str, Engine] = {name: self._engine(name) for name in self._profiles}
        self.running: dict[tuple[str, int], LiveExchange] = {}
        self.refused: list[Callable[[], None]] = []
        self.recorder = Recorder(Governor(policy, profiles), self.clock, self.refused)
        self.soon: list[Callable[[], None]] = []
        around = Surroundings(
            self.clock,
            self.clock.call_at,
            self.soon.append,
            lambda work, done: done(work()),
            run_plugins=self._run_plugins,
        )
        self._seconds = {plugin.name: plugin.simulated for plugin in policy.plugins}
        self._checked: list[tuple[float, int, Callable[[], None]]] = []
        self.driver = Driver(policy, self.recorder, RememberedBooks([]), around, first_request_id=1 << 40 | 1)
        self._policy = policy
        self._coming = list(history)
        self._leaving: list[tuple[float, int]] = []
        self._told = list(told)
        self._falling = sorted((START + outage.at, outage.replica) for outage in outages)
        self._rising = sorted((START + outage.at + outage.lasts, outage.replica) for outage in outages)
        self._down: set[str] = set()
        self.exchanges: list[LiveExchange] = []
        self.arrivals: list[RequestArrived] = []  # as they were read

    def run(self) -> None:
        self._report()
        while self._coming or self.driver.num_open or self._checked:
            # Ties go in the order in which the agenda of the simulation takes them.
            at, number = min(
                (min(replica.step_ends_at() for replica in self.replicas.values()), 0),
                (self._tick, 1),
                (_first(self._leaving), 2),
                (_first(self._falling), 3),
                (_first(self._rising), 4),
                (_first(self.clock.timers), 5),
                (_first(self._checked), 6),
                (START + self._coming[0].at if self._coming else inf, 7),
                (self._told[0].at if self._told else inf, 8),
            )
            self.clock.now = at
            self._happen(number)
            while self.soon:
                self.soon.pop(0)()
        assert not self._told, "the simulation has ended before it is told that"

    def is_down(self, replica: str) -> bool:
        return replica in self._down

    def refuse(self, known: Callable[[], None]) -> None:
        """A connection is refused: known when what is in hand is dealt with."""
        if self.recorder.is_sending:
            self.refused.append(known)
        else:
            known()

    def travels(self, prefill: str, tokens: int, at: float) -> float:
        """When the cache of a prompt that was computed there is with its replica: one after another on that link."""
        link = self._profiles[prefill].disaggregation
        assert link is not None
        begins = max(at, self._links.get(prefill, 0.0))
        self._links[prefill] = begins + link.latency + tokens * link.bytes_per_token / link.bandwidth
        return self._links[prefill]

    def begin(self, replica: Engine, job: Job, exchange: LiveExchange) -> None:
        """An engine is handed a job."""
        self.running[replica.name, job.id] = exchange
        self.settle_steps(replica)
        replica.submit(self.clock.now, job)

    def cancel(self, replica: Engine, job: Job) -> None:
        """A connection to an engine is closed."""
        self.running.pop((replica.name, job.id), None)
        self.settle_steps(replica)
        replica.cancel(job.id)

    def settle_steps(self, replica: Engine) -> None:
        """End the steps that have ended, one at a time; each running stream gets its tokens, the last one its end."""
        while (at := replica.step_ends_at()) <= self.clock.now:
            for job, num, is_over in _step(replica, at):
                exchange = self.running.get((replica.name, job.id))
                if exchange is not None and num:
                    exchange.made(job, num, at)
                if exchange is not None and is_over:
                    self.running.pop((replica.name, job.id), None)
                    exchange.finish(job, at)

    def _engine(self, name: str) -> Engine:
        profile = self._profiles[name]
        if name not in self._apart:
            return engine_for(profile, name)
        return engine_for(replace(profile, disaggregation=None), name, takes_over=True)

    def _happen(self, number: int) -> None:
        if number == 0:
            for replica in list(self.replicas.values()):
                self.settle_steps(replica)
        elif number == 1:
            self._report()
        elif number == 2:
            self.exchanges[self._leaving.pop(0)[1]].leave()
        elif number == 3:
            self._fall(self._falling.pop(0)[1])
        elif number == 4:
            name = self._rising.pop(0)[1]
            self._down.discard(name)
            self.replicas[name] = self._engine(name)
        elif number == 5:
            self.clock.advance(self.clock.now)
        elif number == 6:
            self._checked.pop(0)[2]()
        elif number == 7:
            self._arrive(self._coming.pop(0))
        else:
            self.recorder.send(self._told.pop(0))

    def _fall(self, name: str) -> None:
        """A replica goes down: who runs there learns it by arrival, then those whose second place it is."""
        replica = self.replicas[name]
        self.settle_steps(replica)
        self._down.add(name)
        there = [exchange for exchange in self.exchanges if exchange.open]
        for exchange in there:
            exchange.lost(replica)
        for exchange in there:
            exchange.lost_rival(replica)
        self.running = {key: exchange for key, exchange in self.running.items() if key[0] != name}
        self.replicas[name] = self._engine(name)

    def _run_plugins(self, names: tuple[str, ...], asked: Asked, done: Callable[[Found], None]) -> Cancel:
        """They let everybody pass, after their simulated time."""
        found = Found(tuple([(name, Said.ALLOW) for name in names]))
        entry = (
            self.clock.now + sum([self._seconds[name] for name in names]),
            len(self.exchanges),
            lambda: done(found),
        )
        self._checked.append(entry)
        self._checked.sort(key=lambda each: each[:2])

        def cancel() -> None:
            self._checked.remove(entry)

        return cancel

    def _report(self) -> None:
        self._tick = self.clock.now + self._policy.gateway.probe_every
        self.driver.replicas_reported(tuple(self._report_of(replica) for replica in self.replicas.values()))

    def _report_of(self, replica: Engine) -> ReplicaReport:
        replica.advance(self.clock.now)
        report = replica.report(self.clock.now)
        return replace(report, healthy=not self.is_down(replica.name), engine=replica.state())

    def _arrive(self, wanted: Wanted) -> None:
        if wanted.patience < inf:
            self._leaving.append((self.clock.now + wanted.patience, len(self.exchanges)))
            self._leaving.sort()
        content = f"{wanted.family:04d}" * (wanted.shared // 4) + f"{len(self.exchanges):04d}" * (wanted.own // 4 + 1)
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": content}]}
        request = ClientRequest(self.clock.now, "127.0.0.1")
        request.method, request.target = b"POST", b"/v1/chat/completions"
        request.body = msgspec.json.encode({**body, "stream": wanted.streaming, "max_tokens": wanted.max_tokens})
        request.fields = {
            b"authorization": b"Bearer " + key_of(wanted.tenant).encode(),
            b"x-plimsoll-criticality": wanted.criticality.encode(),
        }
        exchange = LiveExchange(self, request, wanted)
        self.exchanges.append(exchange)
        self.driver.request(exchange)
        if isinstance(exchange.context, Flight) and exchange.context.arrival is not None:
            self.arrivals.append(exchange.context.arrival)


def _first(entries: Sequence[tuple[float, Any]] | Sequence[tuple[float, int, Any]]) -> float:
    return min((entry[0] for entry in entries), default=inf)


def _step(replica: Engine, at: float) -> list[tuple[Job, int, bool]]:
    """End one step: whom it brought how many tokens, and whether they were the last; in the order of its batch."""
    if isinstance(replica, SteppingReplica):
        jobs = [job for batch in replica.ranks for job in batch.members]
        before = [job.generated for job in jobs]
        finished = {output.job.id for output in replica.advance(at) if output.kind == FINISHED}
        return [(job, job.generated - num, job.id in finished) for job, num in zip(jobs, before, strict=True)]
    inner = replica.inner if isinstance(replica, GatedReplica) else replica
    if not isinstance(inner, Replica):
        raise TypeError(f"nobody knows how to step {type(replica).__name__}")
    decoding = list(inner.batch.decoding.values()) if inner.step_ends_at() <= at else []
    outputs = replica.advance(at)
    finished = {output.job.id for output in outputs if output.kind == FINISHED}
    brought = [(job, 1, job.id in finished) for job in decoding]
    prompts = [output.job for output in outputs if output.kind in {FIRST_TOKEN, RESUMED}]
    return brought + [(job, 1, job.id in finished) for job in prompts]

"""The live driver on a virtual clock, before replicas that go step by step: no network, no jumps, no simulation."""

from collections.abc import Callable
from hashlib import sha256
from math import inf
from typing import Any

import msgspec

from plimsoll.engine.profile import EngineProfile
from plimsoll.gateway.carrier import Surroundings
from plimsoll.gateway.channel import Deliver
from plimsoll.gateway.driver import Driver
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Attempt, ClientRequest, Ended, Headers, Usage
from plimsoll.gateway.plugin import Asked, Cancel, Found, Said
from plimsoll.governor.decisions import Decision
from plimsoll.governor.events import Event, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.sim.fitting import whole_blocks
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, RESUMED, Job
from plimsoll.sim.replica import Replica
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.drivenworld import RememberedBooks, VirtualClock

START = 1000.0


class Wanted(msgspec.Struct):
    """One client's request of the history: content in characters, the first of them shared within a family."""

    at: float
    tenant: str
    shared: int
    own: int
    output: int
    max_tokens: int
    family: int
    patience: float
    streaming: bool


def key_of(tenant: str) -> str:
    return f"sk-{tenant}"


def digest_of(tenant: str) -> str:
    return "sha256:" + sha256(key_of(tenant).encode()).hexdigest()


class Recorder:
    """A direct channel that remembers decisions."""

    def __init__(self, governor: Governor, clock: VirtualClock) -> None:
        self.governor, self.clock = governor, clock
        self.decisions: list[tuple[float, Decision]] = []
        self._deliver: Deliver = lambda _: None

    def open(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def send(self, event: Event) -> None:
        decisions = self.governor.handle(event)
        self.decisions += [(self.clock.now, decision) for decision in decisions]
        if decisions:
            self._deliver(decisions)


class LiveExchange:
    """One request: forwarded to a replica of the world, token by token."""

    def __init__(self, world: "LiveWorld", request: ClientRequest, wanted: Wanted) -> None:
        self.world, self.request, self.wanted = world, request, wanted
        self.context: object = None
        self.phase = Phase.QUEUE
        self.open = True
        self.attempt: Attempt | None = None
        self.job: Job | None = None
        self.replica: Replica | None = None
        self._limit = 0

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        self.open = False

    def forward(self, attempt: Attempt) -> None:
        flight = self.context
        if not isinstance(flight, Flight) or flight.arrival is None:
            raise TypeError("forwarded before it arrived")
        arrival = flight.arrival
        output = min(self.wanted.output, self.wanted.max_tokens)
        self.attempt, self.replica = attempt, self.world.replicas[attempt.replica]
        stretch = whole_blocks(arrival.prefix_block_tokens, self.replica.profile)
        self.job = Job(arrival.request_id, arrival.prompt_tokens, output, arrival.prefix_hashes, stretch)
        self._limit = attempt.reserved_output_tokens
        self.world.running[self.job.id] = self
        self.world.settle_steps(self.replica)
        self.replica.submit(self.world.clock.now, self.job)

    def hedge(self, attempt: Attempt) -> None:
        raise AssertionError(f"nobody is hedged here: {attempt.replica}")

    def hint(self, fields: Headers) -> None:
        raise AssertionError(f"nobody asked for hints: {fields}")

    def evict(self, reason: Reason) -> None:
        raise AssertionError(f"nobody is evicted here: {reason}")

    def token(self, at: float) -> None:
        if self.attempt is None or not self.wanted.streaming:
            return
        tokens = self.attempt.tokens
        tokens.tokens(at, 1)
        if tokens.num_tokens == 1:
            self.world.driver.first_token(self, at)
        if self._limit and tokens.num_tokens > self._limit:
            while tokens.num_tokens > self._limit:
                self._limit *= 2
            self.world.driver.outgrown(self, tokens.num_tokens, at)

    def finish(self, at: float) -> None:
        if self.job is None:
            raise TypeError("finished before it began")
        job = self.job
        usage = Usage(job.prompt_tokens, job.output_tokens, job.cached_tokens)
        self._end(Ended(at, Outcome.COMPLETED, Reason.DONE, phase=Phase.NONE, status=200, usage=usage))

    def leave(self, at: float) -> None:
        """The client's patience is over."""
        if not self.open:
            return
        if self.job is None or self.replica is None:
            self.open = False
            self.world.driver.client_left(self, at)
            return
        phase = Phase.DECODE if self.replica.output_so_far(self.job) and self.wanted.streaming else Phase.PREFILL
        usage = Usage(None, self.replica.output_so_far(self.job) if not self.wanted.streaming else None)
        self._end(Ended(at, Outcome.ABORTED, Reason.CLIENT_LEFT, phase=phase, status=200, usage=usage))
        self.replica.cancel(self.job.id)

    def _end(self, end: Ended) -> None:
        self.open = False
        if self.job is not None:
            self.world.running.pop(self.job.id, None)
        self.world.driver.ended(self, end)


class LiveWorld:
    """The driver, a governor, replicas and clients, run through a history."""

    def __init__(self, policy: Policy, profiles: dict[str, EngineProfile], history: list[Wanted]) -> None:
        self.clock = VirtualClock()
        self.clock.now = START
        self.replicas = {
            name: Replica(profiles[pool.engine_profile], name) for pool in policy.pools for name in pool.replicas
        }
        self.running: dict[int, LiveExchange] = {}
        self.recorder = Recorder(Governor(policy, profiles), self.clock)
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
        books = RememberedBooks([])
        self.driver = Driver(policy, self.recorder, books, around, first_request_id=1 << 40 | 1)
        self._policy = policy
        self._history = history
        self.exchanges: list[LiveExchange] = []
        self.arrivals: list[RequestArrived] = []  # as they were read

    def run(self) -> None:
        self._report()
        tick = START + self._policy.gateway.probe_every
        coming = list(self._history)
        leaving: list[tuple[float, int]] = []
        while coming or self.driver.num_open or self._checked:
            steps = min(replica.step_ends_at() for replica in self.replicas.values())
            timer = min((at for at, _ in self.clock.timers), default=inf)
            arrival = START + coming[0].at if coming else inf
            gone = leaving[0][0] if leaving else inf
            checked = self._checked[0][0] if self._checked else inf
            # Ties go in the order in which the agenda of the simulation takes them.
            at, kind = min((steps, 0), (tick, 1), (gone, 2), (timer, 3), (checked, 4), (arrival, 5))
            self.clock.now = at
            if kind == 0:
                for replica in self.replicas.values():
                    self.settle_steps(replica)
            elif kind == 1:
                self._report()
                tick = at + self._policy.gateway.probe_every
            elif kind == 2:
                self.exchanges[leaving.pop(0)[1]].leave(at)
            elif kind == 3:
                self.clock.advance(at)
            elif kind == 4:
                self._checked.pop(0)[2]()
            else:
                wanted = coming.pop(0)
                if wanted.patience < inf:
                    leaving.append((at + wanted.patience, len(self.exchanges)))
                    leaving.sort()
                self._arrive(wanted)
            while self.soon:
                self.soon.pop(0)()

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
        self.driver.replicas_reported(tuple(replica.report(self.clock.now) for replica in self.replicas.values()))

    def _arrive(self, wanted: Wanted) -> None:
        content = f"{wanted.family:04d}" * (wanted.shared // 4) + f"{len(self.exchanges):04d}" * (wanted.own // 4 + 1)
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": content}]}
        request = ClientRequest(self.clock.now, "127.0.0.1")
        request.method, request.target = b"POST", b"/v1/chat/completions"
        request.body = msgspec.json.encode({**body, "stream": wanted.streaming, "max_tokens": wanted.max_tokens})
        request.fields = {b"authorization": b"Bearer " + key_of(wanted.tenant).encode()}
        exchange = LiveExchange(self, request, wanted)
        self.exchanges.append(exchange)
        self.driver.request(exchange)
        if isinstance(exchange.context, Flight) and exchange.context.arrival is not None:
            self.arrivals.append(exchange.context.arrival)

    def settle_steps(self, replica: Replica) -> None:
        """End the steps that have ended, one at a time; each running stream gets its token, the last one its end."""
        while replica.step_ends_at() <= self.clock.now:
            at = replica.step_ends_at()
            decoding = list(replica.batch.decoding)
            outputs = replica.advance(at)
            finished = {output.job.id for output in outputs if output.kind == FINISHED}
            for job_id in decoding:
                self.running[job_id].token(at)
                if job_id in finished:
                    self.running[job_id].finish(at)
            for output in outputs:
                if output.kind in {FIRST_TOKEN, RESUMED}:
                    self.running[output.job.id].token(at)
                elif output.kind == FINISHED and output.job.id not in decoding:
                    self.running[output.job.id].finish(at)

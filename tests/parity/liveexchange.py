"""One request before step-by-step replicas, as `gateway/twohop.py`, `hedging.py` and `exchange.py` have it."""

from typing import TYPE_CHECKING

import msgspec

from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Attempt, ClientRequest, Ended, Headers, Usage
from plimsoll.governor.events import RequestArrived
from plimsoll.sim.engine import Engine
from plimsoll.sim.fitting import whole_blocks
from plimsoll.sim.job import Job
from plimsoll.slo.outcome import Outcome, Phase, Reason

if TYPE_CHECKING:
    from tests.parity.liveworld import LiveWorld

START = 1000.0
"""When the history begins."""


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
    criticality: str = "critical"


class Place:
    """An attempt, and its job on a replica."""

    def __init__(self, attempt: Attempt, replica: Engine, job: Job) -> None:
        self.attempt, self.replica, self.job = attempt, replica, job


class LiveExchange:
    """Forwarded to a replica of the world, or to two, token by token."""

    def __init__(self, world: "LiveWorld", request: ClientRequest, wanted: Wanted) -> None:
        self.world, self.request, self.wanted = world, request, wanted
        self.context: object = None
        self.phase = Phase.QUEUE
        self.open = True
        self.place: Place | None = None
        self.rival: Place | None = None  # the second attempt of a hedge
        self._by_hedge = False
        self._limit = 0
        self.hop: Place | None = None  # the first of two: an engine computes the prompt …
        self._after: Attempt | None = None  # … and then this goes to the replica
        self._found_elsewhere: int | None = None

    # --- what the driver calls ---

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        self.open = False

    def forward(self, attempt: Attempt) -> None:
        self._limit = attempt.reserved_output_tokens
        self._by_hedge, self._found_elsewhere = False, None
        first = attempt.prefill
        if first is None:
            return self._decode(attempt)
        self._after = attempt
        if self.world.is_down(first.replica):
            return self._hop_failed(Reason.CONNECT_FAILED)
        self.hop = self._begin(first, is_prompt=True)
        return None

    def _decode(self, attempt: Attempt, arrives_at: float = 0.0) -> None:
        if self.world.is_down(attempt.replica):
            self.world.refuse(lambda: self._failed(Reason.CONNECT_FAILED))
            return
        self.place = self._begin(attempt, arrives_at)

    def hedge(self, attempt: Attempt) -> None:
        if self.world.is_down(attempt.replica):
            self.world.refuse(lambda: self._hedge_failed(Reason.CONNECT_FAILED))
            return
        self.rival = self._begin(attempt)

    def hint(self, fields: Headers) -> None:
        raise AssertionError(f"nobody asked for hints: {fields}")

    def evict(self, reason: Reason) -> None:
        raise AssertionError(f"nobody is evicted here: {reason}")

    # --- what its replicas do ---

    def made(self, job: Job, num: int, at: float) -> None:
        """A step of a replica brought tokens, in one event."""
        place = self._place_of(job)
        if place is None or not self.wanted.streaming:
            return
        tokens = place.attempt.tokens
        if tokens.num_tokens == 0:
            self._wins(place)
            tokens.tokens(at, num)
            self.world.driver.first_token(self, at, hedge=self._by_hedge)
        else:
            tokens.tokens(at, num)
        if self._limit and tokens.num_tokens > self._limit:
            while tokens.num_tokens > self._limit:
                self._limit *= 2
            self.world.driver.outgrown(self, tokens.num_tokens, at)

    def finish(self, job: Job, at: float) -> None:
        if self.hop is not None and self.hop.job is job:
            return self._prefilled(self.hop, at)
        place = self._place_of(job)
        if place is None:
            return None
        cached = job.cached_tokens if self._found_elsewhere is None else self._found_elsewhere
        usage = Usage(job.prompt_tokens, job.output_tokens, cached)
        if job.num_guessed:  # llama.cpp and vLLM say nothing where nothing was drafted
            usage.drafts = (job.num_guessed, job.num_kept)
        self._end(Ended(at, Outcome.COMPLETED, Reason.DONE, phase=Phase.NONE, status=200, usage=usage))
        return None

    def lost(self, replica: Engine) -> None:
        """Its first connection there broke, if it has one there."""
        if self.hop is not None and self.hop.replica is replica:
            self._hop_failed(Reason.CONNECTION_LOST)
            return
        place = self.place
        if place is None or place.replica is not replica:
            return
        if place.attempt.tokens.num_tokens:
            self._end_badly(Outcome.FAILED, Reason.CONNECTION_LOST)
        else:
            self._failed(Reason.CONNECTION_LOST)

    def lost_rival(self, replica: Engine) -> None:
        """The same for its second one."""
        if self.rival is not None and self.rival.replica is replica:
            self._hedge_failed(Reason.CONNECTION_LOST)

    def leave(self) -> None:
        """The client's patience is over."""
        if not self.open:
            return
        if self.place is None and self.hop is None:
            self.open = False
            self.world.driver.client_left(self, self.world.clock.now)
            return
        self._end_badly(Outcome.ABORTED, Reason.CLIENT_LEFT)

    # --- below ---

    def _prefilled(self, hop: Place, at: float) -> None:
        """Its cache begins its way to the replica."""
        self.hop = None
        self._found_elsewhere = hop.job.cached_tokens
        if self._after is not None:
            self._decode(self._after, self.world.travels(hop.replica.name, hop.job.prompt_tokens, at))

    def _hop_failed(self, reason: Reason) -> None:
        """The replica computes the prompt itself."""
        self.hop = None
        self.world.driver.prefill_failed(self, reason, 0.0, self.world.clock.now)
        if self._after is not None:
            self._decode(self._after)

    def _begin(self, attempt: Attempt, arrives_at: float = 0.0, *, is_prompt: bool = False) -> Place:
        flight, replica = self._flight(), self.world.replicas[attempt.replica]
        arrival = self._arrival()
        output = 1 if is_prompt else min(self.wanted.output, self.wanted.max_tokens)
        stretch = whole_blocks(arrival.prefix_block_tokens, replica.profile)
        job = Job(arrival.request_id, arrival.prompt_tokens, output, arrival.prefix_hashes, stretch)
        job.tenant = flight.tenant.name  # by which the drafts of an engine are right more or less often
        job.dice = int((self.request.arrived_at - START) * 1e6)  # of an engine that throws dice
        job.drafts = b'"speculative.n_max"' not in (attempt.body or b"")
        if is_prompt:
            job.hashes = job.hashes[: job.prompt_tokens // job.hash_tokens]
        if arrives_at:
            job.loaded, job.loaded_at = job.prompt_tokens - 1, arrives_at
        self.world.begin(replica, job, self)
        return Place(attempt, replica, job)

    def _wins(self, place: Place) -> None:
        """Whoever shows the first token is the only one from now on."""
        loser = self.rival if place is self.place else self.place or self.hop
        if self.rival is None or loser is None:
            return
        self._by_hedge = place is self.rival
        self.place, self.rival, self.hop = place, None, None
        self.world.cancel(loser.replica, loser.job)

    def _failed(self, reason: Reason) -> None:
        """No byte has reached the client."""
        self.place, self.rival = self.rival, None
        self.world.driver.attempt_failed(self, reason, 0.0, self.world.clock.now)

    def _hedge_failed(self, reason: Reason) -> None:
        self.rival = None
        self.world.driver.hedge_failed(self, reason, 0.0, self.world.clock.now)

    def _end_badly(self, outcome: Outcome, reason: Reason) -> None:
        place, rival = self.place or self.hop, self.rival
        if place is None:
            raise TypeError("ended before it began")
        so_far = place.replica.output_so_far(place.job)
        phase = Phase.DECODE if so_far and self.wanted.streaming else Phase.PREFILL
        usage = Usage(None, None if self.wanted.streaming else so_far)
        self._end(Ended(self.world.clock.now, outcome, reason, phase=phase, status=200, usage=usage))
        for each in (place, rival):
            if each is not None:
                self.world.cancel(each.replica, each.job)

    def _end(self, end: Ended) -> None:
        self.open = False
        self.place = self.rival = self.hop = None
        self.world.driver.ended(self, end)

    def _place_of(self, job: Job) -> Place | None:
        return next((each for each in (self.place, self.rival) if each is not None and each.job is job), None)

    def _flight(self) -> Flight:
        if not isinstance(self.context, Flight):
            raise TypeError("forwarded before it was read")
        return self.context

    def _arrival(self) -> RequestArrived:
        arrival = self._flight().arrival
        if arrival is None:
            raise TypeError("forwarded before it arrived")
        return arrival

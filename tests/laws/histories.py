"""Random but lawful histories: small hands and replicas around a governor, on a virtual clock.

    world = World(governor, traffic, seed=7)
    for event, decisions in world.run(num_events=500):
        …   # look at world.fates, world.governor, decisions

The world does what hands do: it keeps one timer, sends what a Dispatch says to a replica, reports first tokens,
outgrown reservations, failed attempts and ends, lets clients leave, and never breaks the protocol of `events.py`.
It keeps its own books (`fates`), so that laws are checked against something that is not the governor.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from math import inf
from random import Random

from plimsoll.governor.decisions import Decision, Dispatch, Enqueue, Expire, Fail, Reject, Settle, Shed, WakeAt
from plimsoll.governor.events import (
    AttemptFailed,
    Event,
    FirstToken,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.governor.governor import Governor
from plimsoll.governor.matched import Matched
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Limits, Policy, Pool, Scheduling, Service, Tenant, Tier
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Phase, Reason

START = 1_764_000_000.0  # an instant in November 2025, UTC epoch s


def objectives(ttft: float = 1.0) -> tuple[Objective, ...]:
    """What every tier of a test promises, if nothing else."""
    return (
        Objective("ttft", Sli.TTFT, ttft, Fraction(99, 100)),
        Objective("itl", Sli.ITL, 0.15, Fraction(99, 100)),
        Objective("e2e", Sli.E2E, 20.0, Fraction(99, 100)),
        Objective("availability", Sli.AVAILABILITY, inf, Fraction(999, 1000)),
    )


def policy_of(
    *,
    tiers: tuple[Tier, ...] = (),
    tenants: tuple[Tenant, ...] = (),
    num_replicas: int = 2,
    scheduling: Scheduling | None = None,
    pools: tuple[Pool, ...] = (),
    version: str = "v1",
) -> Policy:
    """A policy with three tiers, five tenants and one pool, or what is given."""
    return Policy(
        service=Service(),
        tiers=tiers
        or (
            Tier("gold", 0, Fraction(1, 2), objectives=objectives(0.8)),
            Tier("silver", 1, Fraction(3, 10), objectives=objectives(2.0)),
            Tier("bronze", 2, Fraction(15, 100), Fraction(1, 20), sheddable=True, objectives=objectives(5.0)),
        ),
        tenants=tenants
        or (
            Tenant("ada", "gold"),
            Tenant("bob", "gold", limits=Limits(concurrency=6)),
            Tenant("cyd", "silver", limits=Limits(requests_per_minute=120, queue=10)),
            Tenant("dan", "bronze", limits=Limits(tokens_per_minute=100_000)),
            Tenant("eve", "bronze", tiers=("silver",)),
        ),
        pools=pools or (Pool("chat", "m", "vllm", tuple(f"http://r{i}" for i in range(num_replicas))),),
        scheduling=scheduling or Scheduling(),
        version=version,
    )


@dataclass(frozen=True)
class Traffic:
    """What the random world is like. Probabilities are a request's, times in s."""

    rate: float = 20.0  # requests a second
    prompt_tokens: int = 800  # mean, exponential
    output_tokens: int = 60  # mean, exponential
    asks_max: float = 0.6  # sets max_output_tokens
    choices: float = 0.05  # wants three choices
    streams: float = 0.8
    leaves_queue: float = 0.05  # client leaves while it waits
    leaves_engine: float = 0.05  # client leaves after dispatch
    attempt_fails: float = 0.05
    breaks: float = 0.02  # dies in the middle of an answer
    has_deadline: float = 0.1
    tells_cached: float = 0.5
    token_time: float = 0.02
    report_every: float = 1.0
    outage: float = 0.0  # a report says "down"
    kv_blocks: int | None = 600  # of each replica; None: it does not tell
    block_size: int = 16
    prefix_ids: int = 6
    matched: float = 0.0  # of engines it is known what they hold of its prompt


@dataclass
class Fate:
    """What the world knows of one request."""

    arrived: RequestArrived
    tier: str  # promised at arrival
    place: str = "received"  # received | queued | dispatched | an outcome
    replica: str = ""
    reserved: int = 0
    attempt: int = 0
    hedge: int = 0  # the second attempt beside the first, while there is one
    hedge_replica: str = ""
    num_hedges: int = 0
    num_settled: int = 0
    dispatches: list[tuple[float, str, Reason]] = field(default_factory=list)
    output_tokens: int = 0  # what it will really make, over all choices


class World:
    """Hands and replicas; `at` is the virtual clock."""

    def __init__(self, governor: Governor, traffic: Traffic | None = None, seed: int = 0) -> None:
        self.governor = governor
        self.traffic = traffic or Traffic()
        self.random = Random(seed)
        self.at = START
        self.fates: dict[int, Fate] = {}
        self.policy = governor.policy
        self.timer_at = inf
        self._agenda: list[tuple[float, int, str, int, int]] = []  # (at, order, what, request, attempt)
        self._order = 0
        self._down: set[str] = set()
        self._next_id = (1 << 40) + 1
        self._plan(START, "report")
        self._plan(START + 0.001, "arrive")

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self, num_events: int) -> Iterator[tuple[Event, list[Decision]]]:
        """Yields each event with the decisions on it, after they were carried out."""
        for _ in range(num_events):
            event = self._next_event()
            yield event, self.tell(event)

    def finish(self, limit: int = 100_000) -> Iterator[tuple[Event, list[Decision]]]:
        """No more arrivals; yields until everything is over."""
        self._agenda = [entry for entry in self._agenda if entry[2] != "arrive"]
        self._agenda.sort()
        for _ in range(limit):
            if not any(fate.place in {"queued", "dispatched"} for fate in self.fates.values()):
                return
            event = self._next_event()
            yield event, self.tell(event)
        raise AssertionError("the world does not come to rest")

    def tell(self, event: Event) -> list[Decision]:
        """Give the governor an event and carry out what it decides."""
        self.at = max(self.at, event.at)
        if isinstance(event, RequestArrived):
            self.fates[event.request_id] = Fate(event, self.tier_of(event))
        decisions = self.governor.handle(event)
        for decision in decisions:
            self._carry_out(decision)
        return decisions

    def counts(self) -> Counter[tuple[str, str, str]]:
        """Requests by (tenant, tier asked, place), as the world saw them."""
        return Counter((f.arrived.tenant, f.tier, f.place) for f in self.fates.values())

    def tier_of(self, event: RequestArrived) -> str:
        """The tier that the request is promised."""
        tenant = self.policy.tenant(event.tenant)
        return event.tier if event.tier in {tenant.tier, *tenant.tiers} and event.tier else tenant.tier

    # --- events ----------------------------------------------------------------------------------------------------

    def _next_event(self) -> Event:
        while True:
            if self.timer_at <= (self._agenda[0][0] if self._agenda else inf):
                self.at, self.timer_at = max(self.at, self.timer_at), inf
                return TimerFired(self.at)
            at, _, what, request_id, attempt = heappop(self._agenda)
            self.at = max(self.at, at)
            event = self._event(what, request_id, attempt)
            if event is not None:
                return event

    def _event(self, what: str, request_id: int, attempt: int) -> Event | None:
        if what == "arrive":
            self._plan(self.at + self.random.expovariate(self.traffic.rate), "arrive")
            return self.arrival()
        if what == "report":
            self._plan(self.at + self.traffic.report_every, "report")
            return ReplicasReported(self.at, tuple(self._report(r) for p in self.policy.pools for r in p.replicas))
        return self._event_of(self.fates[request_id], what, request_id, attempt)

    def _event_of(self, fate: Fate, what: str, request_id: int, attempt: int) -> Event | None:
        if what == "leave_queue":
            return RequestCancelled(self.at, request_id) if fate.place == "queued" else None
        if fate.place != "dispatched" or attempt != (fate.hedge if what.startswith("hedge") else fate.attempt):
            return None  # it ended, or this attempt did
        return self._attempt_event(fate, what, request_id)

    def _attempt_event(self, fate: Fate, what: str, request_id: int) -> Event:
        if what.startswith("hedge"):
            return self._hedge_event(fate, what, request_id)
        if what == "first":
            fate.hedge = 0
            return FirstToken(self.at, request_id)
        if what == "outgrow":
            return ReservationOutgrown(self.at, request_id, min(fate.output_tokens, fate.reserved + 1))
        if what == "fail" and fate.hedge:
            self._go_on_by_hedge(fate)
            self._plan_answer(fate, first_in=0.05)
        if what == "fail":
            return AttemptFailed(self.at, request_id, self._failure(), self.random.choice((0.0, 0.0, 0.4)))
        return self._end(request_id, fate, what)

    def _hedge_event(self, fate: Fate, what: str, request_id: int) -> Event:
        if what == "hedge_fail":
            fate.hedge = 0
            reason = self.random.choice((Reason.HEDGED, self._failure()))
            return AttemptFailed(self.at, request_id, reason, hedge=True)
        self._go_on_by_hedge(fate)
        self._plan_answer(fate)
        return FirstToken(self.at, request_id, hedge=True)

    @staticmethod
    def _go_on_by_hedge(fate: Fate) -> None:
        fate.attempt, fate.replica, fate.hedge = fate.hedge, fate.hedge_replica, 0

    def _failure(self) -> Reason:
        return self.random.choice((Reason.CONNECT_FAILED, Reason.ENGINE_BUSY, Reason.ENGINE_ERROR, Reason.IDLE_TIMEOUT))

    def _end(self, request_id: int, fate: Fate, what: str) -> RequestFinished:
        outcome, reason, phase = {
            "complete": (Outcome.COMPLETED, Reason.DONE, Phase.NONE),
            "abort": (Outcome.ABORTED, Reason.CLIENT_LEFT, Phase.DECODE),
            "break": (Outcome.FAILED, Reason.CONNECTION_LOST, Phase.DECODE),
        }[what]
        started_at = fate.dispatches[-1][0]
        made = fate.output_tokens if what == "complete" else min(fate.output_tokens, 3)
        first_at = min(self.at, started_at + 0.1)
        timing = Timing(first_at, self.at, made, 0.02) if fate.arrived.streaming and made else Timing()
        cached = 0 if self.random.random() < self.traffic.tells_cached else None
        prompt = fate.arrived.prompt_tokens + self.random.randint(-3, 3)
        return RequestFinished(self.at, request_id, outcome, reason, timing, max(1, prompt), made, cached, phase)

    def arrival(self) -> RequestArrived:
        """A random request of a random tenant."""
        dice, traffic = self.random, self.traffic
        tenant = dice.choice(self.policy.tenants)
        prompt = 1 + int(dice.expovariate(1.0 / traffic.prompt_tokens))
        self._next_id += 1
        asked = int(dice.choice((16, 64, 256, 1024))) if dice.random() < traffic.asks_max else 0
        return RequestArrived(
            self.at,
            self._next_id,
            tenant.name,
            dice.choice(self.policy.pools).model,
            prompt,
            asked,
            num_choices=3 if dice.random() < traffic.choices else 1,
            prefix_hashes=tuple(range(dice.randint(0, 3) * 100, dice.randint(0, 3) * 100 + traffic.prefix_ids)),
            streaming=dice.random() < traffic.streams,
            tier=dice.choice(("", *tenant.tiers)),
            deadline_at=self.at + dice.expovariate(0.5) if dice.random() < traffic.has_deadline else inf,
            matched=self._matched() if traffic.matched and dice.random() < traffic.matched else None,
        )

    def _matched(self) -> Matched:
        """Some replicas hold some of it, exactly or at least; asked shortly before."""
        dice = self.random
        names = tuple([name for pool in self.policy.pools for name in pool.replicas if dice.random() < 0.8])
        tokens = tuple([dice.randint(0, 400) for _ in names])
        return Matched(self.at - dice.random() / 100, names, tokens, tuple([dice.random() < 0.7 for _ in names]))

    def _report(self, replica: str) -> ReplicaReport:
        if self.random.random() < self.traffic.outage:
            self._down ^= {replica}
        running = sum(f.place == "dispatched" and f.replica == replica for f in self.fates.values())
        return ReplicaReport(
            replica,
            healthy=replica not in self._down,
            reported_at=self.at - 0.01,
            running=running,
            waiting=0,
            kv_blocks=self.traffic.kv_blocks,
            block_size=None if self.traffic.kv_blocks is None else self.traffic.block_size,
        )

    # --- decisions -------------------------------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, WakeAt):
            self.timer_at = decision.at
        elif isinstance(decision, Settle):
            fate = self.fates[decision.record.request_id]
            fate.num_settled += 1
            assert decision.record.tier == fate.tier
            fate.place = decision.record.outcome.value
        elif isinstance(decision, Enqueue):
            self._enqueued(decision)
        elif isinstance(decision, Dispatch):
            self._dispatched(decision)
        elif isinstance(decision, Reject | Shed | Expire | Fail):
            assert self.fates[decision.request_id].place in {"received", "queued", "dispatched"}

    def _enqueued(self, decision: Enqueue) -> None:
        fate = self.fates[decision.request_id]
        assert fate.place in {"received", "dispatched"}
        fate.place, fate.replica = "queued", ""
        if self.random.random() < self.traffic.leaves_queue:
            self._plan(self.at + self.random.expovariate(2.0), "leave_queue", decision.request_id)

    def _dispatched(self, decision: Dispatch) -> None:
        fate = self.fates[decision.request_id]
        assert fate.place in {"received", "queued", "dispatched"}
        if decision.reason is Reason.HEDGED:
            assert fate.place == "dispatched"
            assert not fate.hedge
            assert decision.replica != fate.replica
            fate.hedge, fate.hedge_replica, fate.num_hedges = decision.attempt, decision.replica, fate.num_hedges + 1
            what = self.random.choice(("hedge_first", "hedge_first", "hedge_fail"))
            self._plan(self.at + self.random.random() * 0.1, what, decision.request_id, decision.attempt)
            return
        fate.place, fate.replica, fate.attempt = "dispatched", decision.replica, decision.attempt
        fate.reserved = decision.reserved_output_tokens
        fate.dispatches.append((self.at, decision.replica, decision.reason))
        dice, traffic, request = self.random, self.traffic, fate.arrived
        if dice.random() < traffic.attempt_fails:
            self._plan(self.at + 0.01 + dice.random() * 0.2, "fail", request.request_id, decision.attempt)
            return
        self._plan_answer(fate, first_in=0.05 + request.prompt_tokens * 2e-5)

    def _plan_answer(self, fate: Fate, first_in: float = 0.0) -> None:
        """What the attempt that goes on will answer; `first_in` 0: its first token is there."""
        dice, traffic, request = self.random, self.traffic, fate.arrived
        limit = request.max_output_tokens or 4096
        a_choice = min(1 + int(dice.expovariate(1.0 / traffic.output_tokens)), limit)
        fate.output_tokens = a_choice * request.num_choices
        first_at = self.at + first_in
        if request.streaming and first_in:
            self._plan(first_at, "first", request.request_id, fate.attempt)
        self._plan_growth(fate, a_choice, first_at)
        end_at = first_at + a_choice * traffic.token_time
        roll = dice.random()
        what = "complete"
        if roll < traffic.leaves_engine:
            what, end_at = "abort", self.at + dice.random() * (end_at - self.at)
        elif roll < traffic.leaves_engine + traffic.breaks:
            what, end_at = "break", first_at + dice.random() * (end_at - first_at)
        self._plan(end_at, what, request.request_id, fate.attempt)

    def _plan_growth(self, fate: Fate, a_choice: int, first_at: float) -> None:
        passed = fate.reserved
        while 0 < passed < a_choice and fate.arrived.streaming:
            at = first_at + passed * self.traffic.token_time
            self._plan(at, "outgrow", fate.arrived.request_id, fate.attempt)
            passed *= 2

    def _plan(self, at: float, what: str, request_id: int = 0, attempt: int = 0) -> None:
        self._order += 1
        heappush(self._agenda, (at, self._order, what, request_id, attempt))

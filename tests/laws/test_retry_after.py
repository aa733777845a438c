"""A Retry-After is true: of clients that obey it at least nine in ten are admitted when they return, and half are told
at most twice what they then really wait."""

from fractions import Fraction
from heapq import heappop, heappush
from random import Random
from statistics import median

import pytest

from plimsoll.governor.decisions import Decision, Dispatch, Reject, Settle, WakeAt
from plimsoll.governor.events import (
    Event,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
    RequestFinished,
    TimerFired,
)
from plimsoll.governor.governor import Governor
from plimsoll.governor.promises import HORIZON
from plimsoll.governor.tenants import Bucket
from plimsoll.policy.policy import Limits, Pool, Tenant, Tier
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason
from tests.laws.histories import START, objectives, policy_of

NETWORK = 0.02  # s at most between our answer, the client's timer and its next request


class Clients:
    """A closed population: each asks, and when refused comes back as told, else asks again after a pause."""

    def __init__(
        self,
        limits: Limits,
        num: int,
        *,
        slots: int = 1000,
        queue_limit: int = 1000,
        stages: int = 2,
        spread: float | None = None,
        think: float = 0.5,
        alike: bool = False,
        seed: int = 0,
    ) -> None:
        tier = Tier("gold", 0, Fraction(0), queue_limit=queue_limit, objectives=objectives())
        pool = Pool("chat", "m", "openai", ("http://r0",), max_concurrency=slots)
        tenant = Tenant("ada", "gold", limits=limits)
        self.governor = Governor(policy_of(tiers=(tier,), tenants=(tenant,), pools=(pool,)))
        self.dice = Random(seed)
        self.stages = stages  # of a duration of 2 s in all, each exponential; two vary as real ones do …
        self.spread = spread  # … or, where set, durations of 0.3 s that differ by so much: capped outputs
        self.think = think  # mean s between an answer and the next request
        self.alike = alike  # all send the very same request: nobody can be told from another
        self.agenda: list[tuple[float, int, str, int]] = []
        self.num_planned = 0
        self.num_asked = 0
        self.client_of: dict[int, int] = {}
        self.told: dict[int, tuple[float, float]] = {}  # client -> refused at, seconds first told
        self.returns: list[bool] = []  # whether a client that obeyed was admitted
        self.ratios: list[float] = []  # told ÷ waited
        self.reasons: set[Reason] = set()
        self.governor.handle(ReplicasReported(START, (ReplicaReport("http://r0", True, START),)))
        for client in range(num):
            self.plan(START + self.dice.random() * 5, "ask", client)

    def plan(self, at: float, what: str, subject: int = 0) -> None:
        self.num_planned += 1
        heappush(self.agenda, (at, self.num_planned, what, subject))

    def run(self, seconds: float) -> None:
        while self.agenda[0][0] < START + seconds:
            at, _, what, subject = heappop(self.agenda)
            if what == "ask":
                self.ask(at, subject)
            elif what == "done":
                output = 1 + int(self.dice.expovariate(0.01))
                timing = Timing(at - 1, at, output)
                self.tell(RequestFinished(at, subject, Outcome.COMPLETED, Reason.DONE, timing, 200, output, 0))
            else:
                self.tell(TimerFired(at))

    def ask(self, at: float, client: int) -> None:
        self.num_asked += 1
        self.client_of[self.num_asked] = client
        refused = [d for d in self.tell(self.request(at, client)) if isinstance(d, Reject)]
        if client in self.told:
            self.returns.append(not refused)
        if refused:
            wait = refused[0].retry_after
            self.reasons.add(refused[0].reason)
            if wait > 0:
                self.told.setdefault(client, (at, wait))
            else:
                assert client not in self.told  # what could be predicted once can be predicted now
            self.plan(at + (wait or 1.0) + self.dice.random() * NETWORK, "ask", client)
        elif client in self.told:
            since, seconds = self.told.pop(client)
            self.ratios.append(seconds / (at - since))

    def request(self, at: float, client: int) -> RequestArrived:
        """A client repeats what it asked; prompts differ in how they begin."""
        beginning = () if self.alike else (1 + client,)
        return RequestArrived(
            at, self.num_asked, "ada", "m", 200, prefix_hashes=beginning, prefix_block_tokens=16 * len(beginning)
        )

    def lasts(self) -> float:
        if self.spread is not None:
            return 0.3 * (1.0 + self.spread * (2.0 * self.dice.random() - 1.0))
        return sum(self.dice.expovariate(self.stages / 2.0) for _ in range(self.stages))

    def tell(self, event: Event) -> list[Decision]:
        decisions = self.governor.handle(event)
        for decision in decisions:
            if isinstance(decision, Dispatch):
                self.plan(event.at + self.lasts(), "done", decision.request_id)
            elif isinstance(decision, WakeAt):
                self.plan(decision.at, "timer")
            elif isinstance(decision, Settle) and decision.record.outcome is not Outcome.REJECTED:
                client = self.client_of[decision.record.request_id]
                pause = self.dice.expovariate(1.0 / self.think) if self.think else 0.002
                self.plan(event.at + pause, "ask", client)
        return decisions


CASES = {
    Reason.TENANT_RATE: Clients(Limits(requests_per_minute=120), 30),
    Reason.TENANT_TOKENS: Clients(Limits(tokens_per_minute=30_000), 30),
    Reason.TENANT_CONCURRENCY: Clients(Limits(concurrency=8), 30),
    Reason.TENANT_QUEUE: Clients(Limits(queue=5), 30, slots=4),
    Reason.QUEUE_FULL: Clients(Limits(), 40, slots=4, queue_limit=10),
}


@pytest.mark.parametrize("reason", list(CASES), ids=lambda reason: str(reason.value))
def test_clients_that_obey_are_admitted(reason: Reason) -> None:
    clients = CASES[reason]
    clients.run(600.0)
    assert clients.reasons == {reason}
    assert len(clients.returns) > 200
    assert sum(clients.returns) / len(clients.returns) >= 0.9
    assert median(clients.ratios) <= 2.0


@pytest.mark.parametrize(("concurrency", "num"), [(2, 8), (4, 16), (8, 12), (16, 64)])
def test_few_slots_and_durations_of_every_length(concurrency: int, num: int) -> None:
    """One stage: exponential, the hardest of usual durations, and few slots, where each one counts."""
    clients = Clients(Limits(concurrency=concurrency), num, stages=1, seed=1)
    clients.run(900.0)
    assert len(clients.returns) > 200
    assert sum(clients.returns) / len(clients.returns) >= 0.9
    assert median(clients.ratios) <= 2.0


@pytest.mark.parametrize(("num", "slots", "queue_limit"), [(10, 2, 3), (40, 4, 10), (20, 4, 4)])
@pytest.mark.parametrize("think", [0.0, 0.5])
def test_durations_alike_and_no_pause(num: int, slots: int, queue_limit: int, think: float) -> None:
    """Ends, refusals and promised instants lock in step, and newcomers ask at the very instant of an end."""
    clients = Clients(Limits(), num, slots=slots, queue_limit=queue_limit, spread=0.05, think=think)
    clients.run(300.0)
    assert clients.reasons == {Reason.QUEUE_FULL}
    assert len(clients.returns) > 100
    assert sum(clients.returns) / len(clients.returns) >= 0.9
    assert median(clients.ratios) <= 2.0


def test_clients_that_cannot_be_told_apart_are_still_served_in_turn() -> None:
    clients = Clients(Limits(), 40, slots=4, queue_limit=10, alike=True)
    clients.run(600.0)
    assert sum(clients.returns) / len(clients.returns) >= 0.9
    assert median(clients.ratios) <= 2.0


def test_a_flood_that_does_not_obey_pushes_nobody_out_for_ever() -> None:
    """Refused a thousand times a second, the next promise still lies within the horizon."""
    clients = Clients(Limits(requests_per_minute=60), 0)
    longest = 0.0
    for num in range(5000):
        at = START + num / 1000
        decisions = clients.governor.handle(RequestArrived(at, num + 1, "ada", "m", 200))
        longest = max([longest, *(d.retry_after for d in decisions if isinstance(d, Reject))])
    assert 1.0 <= longest <= 61.0


def test_a_promise_is_kept_though_others_turned_out_longer() -> None:
    """Outputs are settled far above what was estimated: that delays promises to come, and breaks none that is out."""
    bucket = Bucket(600, START)
    dice = Random(4)
    promised: list[tuple[float, int]] = []
    kept, broken, taken, at = 0, 0, 0.0, START
    for number in range(400):
        at += dice.expovariate(0.15)
        while promised and promised[0][0] <= at:
            due, likeness = promised.pop(0)
            if bucket.has(30.0, due, likeness):
                kept += 1
                taken += 30.0 + 60.0
                bucket.take(30.0)
                bucket.take(60.0)  # settled at three times its estimate
            else:
                broken += 1
        if bucket.has(30.0, at, number):
            taken += 90.0
            bucket.take(30.0)
            bucket.take(60.0)
        else:
            seconds = bucket.retry_after(30.0, at, number)
            if seconds < HORIZON:  # beyond it nothing is promised, it is only told
                promised.append((at + seconds, number))
                promised.sort()
    assert kept > 30
    assert broken == 0
    assert taken <= 600 + (at - START) * 10.0 + 31 * 90.0, "the rate holds, but for what was promised"

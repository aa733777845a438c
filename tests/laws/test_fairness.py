"""Law 6, second half: over any interval in which two equally weighted tenants of a tier stay backlogged for one pool,
their services differ by at most 2(c + D): c the largest charge, D the largest in-flight sum of |actual − charged|."""

from fractions import Fraction
from math import inf
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Decision, Dispatch, Expire
from plimsoll.governor.events import ReplicaReport, ReplicasReported, RequestArrived, RequestFinished
from plimsoll.governor.governor import Governor
from plimsoll.governor.queueing import charge_of
from plimsoll.policy.policy import Order, Scheduling, Tenant
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason
from tests.laws.histories import START, policy_of


class Backlog:
    """Tenants with always something waiting; requests end in random order with random lengths."""

    def __init__(
        self, weights: dict[str, int], seed: int, kv_blocks: int | None, scheduling: Scheduling | None = None
    ) -> None:
        self.dice = Random(seed)
        self.weights = weights
        tenants = tuple(Tenant(name, "gold", weight=Fraction(weight)) for name, weight in weights.items())
        self.governor = Governor(policy_of(tenants=tenants, scheduling=scheduling))
        order = Order.FAIR if scheduling is None else scheduling.order
        self.with_prefixes, self.with_deadlines = order is Order.LOCALITY, order is Order.EDF
        self.at = START
        self.num = 0
        self.sent: dict[int, RequestArrived] = {}
        self.running: dict[int, tuple[str, float, float]] = {}  # tenant, charged, actual
        self.outputs: dict[int, int] = {}
        self.service = dict.fromkeys(weights, 0.0)
        self.waiting = dict.fromkeys(weights, 0)
        self.largest_charge = 0.0
        self.largest_error = 0.0
        reports = tuple(
            ReplicaReport(f"http://r{i}", True, START, kv_blocks=kv_blocks, block_size=16 if kv_blocks else None)
            for i in range(2)
        )
        self.governor.handle(ReplicasReported(START, reports))

    def top_up(self) -> None:
        """At least three of each wait."""
        for tenant, num in list(self.waiting.items()):
            for _ in range(3 - num):
                self.arrive(tenant)

    def arrive(self, tenant: str) -> None:
        self.num += 1
        self.at += 0.001
        prompt, output = int(self.dice.choice((50, 400, 3000))), 1 + int(self.dice.expovariate(0.01))
        family = self.dice.randint(0, 4) * 100
        event = RequestArrived(
            self.at,
            self.num,
            tenant,
            "m",
            prompt,
            self.dice.choice((0, 128, 2048)),
            prefix_hashes=tuple(range(family, family + self.dice.randint(0, 3))) if self.with_prefixes else (),
            prefix_block_tokens=16,
            deadline_at=self.at + self.dice.choice((1.0, 50.0)) if self.with_deadlines else inf,
        )
        self.sent[self.num] = event
        self.outputs[self.num] = min(output, event.max_output_tokens or output)
        self.waiting[tenant] += 1
        self.take(self.governor.handle(event))

    def finish_one(self) -> None:
        self.at += 0.05
        request_id = self.dice.choice(list(self.running))
        del self.running[request_id]
        event = self.sent[request_id]
        output = self.outputs[request_id]
        timing = Timing(self.at - 1, self.at, output)
        done = RequestFinished(
            self.at, request_id, Outcome.COMPLETED, Reason.DONE, timing, event.prompt_tokens, output, 0
        )
        self.take(self.governor.handle(done))

    def take(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Expire):
                self.waiting[self.sent[decision.request_id].tenant] -= 1
            if isinstance(decision, Dispatch):
                event = self.sent[decision.request_id]
                weight = self.weights[event.tenant]
                charged = self.governor.charged(decision.request_id) / weight
                actual = charge_of(event.prompt_tokens, 0, self.outputs[decision.request_id]) / weight
                self.running[decision.request_id] = (event.tenant, charged, actual)
                self.service[event.tenant] += actual
                self.waiting[event.tenant] -= 1
                self.largest_charge = max(self.largest_charge, charged, actual)
        error = sum(abs(actual - charged) for _, charged, actual in self.running.values())
        self.largest_error = max(self.largest_error, error)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    kv_blocks=st.sampled_from((None, 300, 1500)),
    weights=st.sampled_from(({"ada": 1, "bob": 1}, {"ada": 1, "bob": 1, "cyd": 1}, {"ada": 3, "bob": 1})),
)
def test_backlogged_tenants_are_served_alike(seed: int, kv_blocks: int | None, weights: dict[str, int]) -> None:
    world = Backlog(weights, seed, kv_blocks)
    while not all(world.waiting.values()):
        world.top_up()
    gaps: list[float] = []
    for _ in range(400):
        world.top_up()
        gaps.append(world.service["ada"] - world.service["bob"])
        world.finish_one()
    bound = 2 * (world.largest_charge + world.largest_error)
    assert max(gaps) - min(gaps) <= bound + 1e-6
    assert min(world.service.values()) > 0


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    order=st.sampled_from((Order.EDF, Order.LOCALITY)),
    deficit=st.sampled_from((0, 4096)),
)
def test_other_orders_put_nobody_ahead_by_more_than_their_deficit(seed: int, order: Order, deficit: int) -> None:
    world = Backlog({"ada": 1, "bob": 1}, seed, 300, Scheduling(order=order, deficit=deficit))
    while not all(world.waiting.values()):
        world.top_up()
    gaps: list[float] = []
    for _ in range(300):
        world.top_up()
        gaps.append(world.service["ada"] - world.service["bob"])
        world.finish_one()
    assert max(gaps) - min(gaps) <= 2 * (world.largest_charge + world.largest_error) + deficit + 1e-6


def test_idleness_earns_nothing() -> None:
    """A tenant that comes back after a long pause does not crowd the others out to catch up."""
    world = Backlog({"ada": 1, "bob": 1}, 3, 300)
    world.waiting["bob"] = 99  # bob sends nothing for now
    world.top_up()
    for _ in range(300):
        world.top_up()
        if world.running:
            world.finish_one()
    world.waiting["bob"] = 0
    world.top_up()
    before = dict(world.service)
    for _ in range(200):
        world.top_up()
        world.finish_one()
    ada, bob = (world.service[name] - before[name] for name in ("ada", "bob"))
    assert abs(ada - bob) <= 2 * (world.largest_charge + world.largest_error)

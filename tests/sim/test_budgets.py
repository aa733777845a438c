"""Budgets on the virtual clock: the same as from the books, and what the governor does differently because of them."""

from pathlib import Path

from plimsoll.governor.decisions import Decision, Dispatch, Settle
from plimsoll.policy.document import parse
from plimsoll.sim.budgets import SimulatedBudgets
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.budgeting import BudgetKeeper
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from tests.sim.world import PROFILES, TEXT, traffic

MINUTES = 5


def run(text: str, journal: Journal | None = None) -> tuple[SimulatedBudgets, list[tuple[float, Decision]]]:
    """Some minutes of overload with budgets told; the dispatches with their instants."""
    policy = parse(text)
    budgets = SimulatedBudgets(policy)
    dispatched: list[tuple[float, Decision]] = []

    def settled(settle: Settle) -> None:
        budgets.settled(settle)
        if journal is not None:
            journal.settle(settle)

    def seen(at: float, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            dispatched.append((at, decision))

    workload = traffic(60.0 * MINUTES, 1.0)  # the noisy tenant bursts from 1:40 to 3:20
    simulation = Simulation(policy, PROFILES, workload.arrivals(5), settled, seen=seen)
    for minute in range(1, MINUTES + 1):
        simulation.run(EPOCH + 60.0 * minute)
        simulation.tell(budgets.minute(EPOCH + 60.0 * minute))
    return budgets, dispatched


def with_commitments(requests: str, rules: str = "") -> str:
    """The world with one small replica, a tight promise to the noisy tenant, and its commitment."""
    text = TEXT.replace("{name: noisy, tier: bronze}", f"{{name: noisy, tier: bronze, committed: {requests}}}")
    text = text.replace("sli: e2e, below: 60s, target: 90%", "sli: e2e, below: 1500ms, target: 90%")
    return text.replace('"http://r1", "http://r2"]', '"http://r1"], max_concurrency: 12') + rules


def test_memory_and_books_say_the_same(tmp_path: Path) -> None:
    text = with_commitments("3k")
    policy = parse(text)
    journal = Journal.open(tmp_path, clock=lambda: EPOCH)
    journal.policy(EPOCH, policy)
    budgets, _ = run(text, journal)
    journal.close()
    assert budgets.last is not None
    with Projections(tmp_path) as projections:
        projections.catch_up()
        books = BudgetKeeper(journal.paths, projections.books).assess(policy, budgets.last.at)
    told = {(row.tenant, row.objective): row for row in budgets.last.rows}
    for row in books.rows:
        same = told[row.tenant, row.objective]
        assert (row.granted, row.planned, row.spent, row.num_judged) == (
            same.granted,
            same.planned,
            same.spent,
            same.num_judged,
        )
        assert (row.burn, row.health, row.num_requests) == (same.burn, same.health, same.num_requests)
    assert sum(row.num_spent for row in books.rows) > 0
    assert budgets.ledger.imbalance() == 0


def test_dispatches_differ_because_a_budget_does() -> None:
    """One history, two commitments: the smaller plan is spent, the larger is not; nothing else differs."""
    rules = "scheduling: {oversubscription: 50%}\n"
    poor, few = run(with_commitments("1k", rules))
    rich, many = run(with_commitments("100M", rules))
    assert poor.last is not None
    assert rich.last is not None
    health = {(row.tenant, row.objective): row.health for row in poor.last.rows}
    assert health["noisy", "e2e"] is BudgetHealth.EXHAUSTED
    assert {row.health for row in rich.last.rows if row.tenant == "noisy"} == {BudgetHealth.HEALTHY}
    told = min(at for (at, one), (_, other) in zip(few, many, strict=False) if one != other)
    assert told >= EPOCH + 60.0, "equal until the first report"

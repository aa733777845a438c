"""Hedging on the virtual clock: who is late is asked of a second replica, and everybody is still answered once."""

import msgspec

from plimsoll.governor.decisions import Decision, Dispatch, Settle
from plimsoll.policy.policy import Hedging, Policy, Scheduling
from plimsoll.sim.outage import Outage
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.workload import Workload
from plimsoll.slo.outcome import Outcome, Reason
from tests.sim.world import POLICY, PROFILES, as_bytes, tenant

RULES = Scheduling(routing="round_robin", hedging=Hedging())


def hedged() -> Policy:
    return msgspec.structs.replace(POLICY, scheduling=RULES)


def run(
    policy: Policy, load: Workload, *, outages: tuple[Outage, ...] = ()
) -> tuple[Simulation, list[Settle], list[Decision]]:
    settles: list[Settle] = []
    decisions: list[Decision] = []
    simulation = Simulation(
        policy, PROFILES, load.arrivals(3), settles.append, seen=lambda _, decision: decisions.append(decision),
        outages=outages,
    )  # fmt: skip
    simulation.run()
    return simulation, settles, decisions


def load(**more: object) -> Workload:
    """Round robin sends some behind long prompts: their first tokens are late while the other replica idles."""
    long = msgspec.structs.replace(
        tenant("crane", 0.3), prompt=msgspec.structs.replace(tenant("x", 1).prompt, median=6000, most=7000)
    )
    return Workload((tenant("acme", 5.0, **more), long), 90.0, "m")


def test_late_ones_are_asked_twice_within_the_budget_and_all_is_given_back() -> None:
    simulation, settles, decisions = run(hedged(), load())
    records = [settle.record for settle in settles]
    assert len(records) == simulation.num_arrived == len({record.request_id for record in records})
    asked = [each for each in decisions if isinstance(each, Dispatch) and each.reason is Reason.HEDGED]
    won = [record for record in records if record.hedge == "won"]
    assert len(asked) == sum(record.hedge != "" for record in records) >= 5
    assert won
    assert all(record.outcome is Outcome.COMPLETED for record in records)
    second = {each.request_id: each.replica for each in asked}
    assert all(
        (record.replica == second[record.request_id]) == (record.hedge == "won") for record in records if record.hedge
    )
    for replica in simulation.governor.snapshot(simulation.now).pools[0].replicas:
        assert (replica.in_flight, replica.reserved, replica.pending_prompt) == (0, 0, 0)
    assert all(not engine.num_jobs for engine in simulation.fleet.replicas)
    extra = sum(record.prompt_tokens + 2 * record.output_tokens for record in records if record.hedge)
    assert extra <= 0.06 * sum(record.prompt_tokens + 2 * record.output_tokens for record in records) + 8000


def test_the_same_seed_gives_the_same_rows_and_an_outage_takes_either_place() -> None:
    down = (Outage(30.0, "http://r1", 10.0), Outage(60.0, "http://r2", 10.0))
    sides = []
    for _ in range(2):
        simulation, settles, _ = run(hedged(), load(), outages=down)
        assert len(settles) == simulation.num_arrived
        sides.append(as_bytes([settle.record for settle in settles]))
    assert sides[0] == sides[1]


def test_clients_that_lose_patience_leave_nothing_behind() -> None:
    simulation, settles, _ = run(hedged(), load(patience=0.25))
    records = [settle.record for settle in settles]
    assert {record.outcome for record in records} > {Outcome.ABORTED}
    assert any(record.hedge for record in records)
    assert all(not engine.num_jobs for engine in simulation.fleet.replicas)

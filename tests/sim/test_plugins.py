"""Plugins in a simulation: each takes its stated time, the ladder leaves some out, clients leave meanwhile."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.steptime import unloaded_ttft
from plimsoll.governor.decisions import Decision, RunPlugins, Settle
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Degradation, Policy, Trigger
from plimsoll.requestlog.record import Record
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.slo.outcome import Outcome, Reason
from tests.sim.world import POLICY, PROFILE, PROFILES, simulated, traffic

PLUGINS = (Plugin("guard", simulated=0.05), Plugin("topic", core=False, simulated=0.2))
GUARDED = replace(POLICY, plugins=PLUGINS)


def run_of(policy: Policy, *arrivals: Arrival) -> tuple[list[Record], list[Decision]]:
    settles: list[Settle] = []
    seen: list[Decision] = []
    Simulation(policy, PROFILES, arrivals, settles.append, seen=lambda _, decision: seen.append(decision)).run()
    return [settle.record for settle in settles], seen


def test_they_add_their_time_and_nothing_else() -> None:
    (told,), _ = run_of(GUARDED, Arrival(0.25, "acme", "m", 1000, 50))
    (plain,), _ = run_of(POLICY, Arrival(0.25, "acme", "m", 1000, 50))
    assert told.plugins == "guard:allow,topic:allow"
    assert told.plugin_time == pytest.approx(0.25)
    assert (told.arrived_at, plain.plugin_time, plain.plugins) == (EPOCH + 0.25, None, "")
    assert told.ttft == pytest.approx(unloaded_ttft(PROFILES[PROFILE], 1000) + 0.25, abs=1e-6)
    assert told.tpot == pytest.approx(plain.tpot, abs=1e-6)
    assert told.queued_for == 0.0


def test_a_client_that_leaves_meanwhile_is_refused_as_gone() -> None:
    (first, second), _ = run_of(
        GUARDED, Arrival(0.0, "acme", "m", 1000, 50, patience=0.1), Arrival(1.0, "acme", "m", 10, 2)
    )
    assert (first.outcome, first.reason) == (Outcome.REJECTED, Reason.CLIENT_LEFT)
    assert second.outcome is Outcome.COMPLETED


def test_the_ladder_spares_the_time_of_what_is_not_core() -> None:
    ladder = Degradation(Trigger("ttft", 0.2, 2.0), ("drop_plugins",))
    policy = replace(GUARDED, degradation=ladder)
    arrivals = [Arrival(number * 0.03, "acme", "m", 100, 5) for number in range(400)]
    records, seen = run_of(policy, *arrivals)
    times = {(record.degraded, record.plugins): round(record.plugin_time or 0.0, 6) for record in records}
    assert times == {("", "guard:allow,topic:allow"): 0.25, ("drop_plugins", "guard:allow,topic:dropped"): 0.05}
    asked = {decision.plugins for decision in seen if isinstance(decision, RunPlugins)}
    assert asked == {("guard", "topic"), ("guard",)}


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.02, 0.3, 3.0]))
def test_everybody_is_settled_once(seed: int, patience: float) -> None:
    ladder = Degradation(Trigger(saturation=Fraction(1, 2), for_=1.0), ("drop_plugins", "batch_of_one"))
    run, records = simulated(traffic(8.0, 2.0, patience=patience), seed, replace(GUARDED, degradation=ladder))
    assert len(records) == len({record.request_id for record in records}) == run.num_arrived
    assert run.num_open == 0
    snapshot = run.governor.snapshot(run.now)
    assert all(replica.reserved == 0 for pool in snapshot.pools for replica in pool.replicas)

"""A whole simulated service: everybody is accounted for, measured as the engine says, and refused with a reason."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.steptime import unloaded_e2e, unloaded_ttft
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Settle
from plimsoll.policy.presets import PRESETS, preset
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload
from plimsoll.slo.outcome import Outcome, Reason
from tests.sim.world import POLICY, PROFILE, PROFILES, simulated, tenant, traffic


def run_of(*arrivals: Arrival) -> tuple[Simulation, list]:  # type: ignore[type-arg]
    settles: list = []  # type: ignore[type-arg]
    run = Simulation(POLICY, PROFILES, arrivals, settles.append)
    run.run()
    return run, [settle.record for settle in settles]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(PRESETS)), st.sampled_from([inf, 0.3, 3.0]))
def test_everybody_who_came_is_settled_once(seed: int, rules: str, patience: float) -> None:
    run, records = simulated(traffic(8.0, 2.0, patience=patience), seed, preset(POLICY, rules))
    assert len(records) == len({record.request_id for record in records}) == run.num_arrived
    assert run.num_open == 0
    snapshot = run.governor.snapshot(run.now)
    assert all(replica.reserved == 0 for pool in snapshot.pools for replica in pool.replicas)
    assert all(replica.report(run.now).kv_usage == 0.0 for replica in run.fleet.replicas)


def test_a_lone_request_takes_what_the_model_says() -> None:
    _, (record,) = run_of(Arrival(0.25, "acme", "m", 1000, 50))
    profile = PROFILES[PROFILE]
    assert record.outcome is Outcome.COMPLETED
    assert record.arrived_at == EPOCH + 0.25
    assert record.ttft == pytest.approx(unloaded_ttft(profile, 1000), abs=1e-6)
    assert record.e2e == pytest.approx(unloaded_e2e(profile, 1000, 50), abs=1e-6)
    assert record.tpot == pytest.approx((record.e2e - record.ttft) / 49, abs=1e-6)
    assert (record.prompt_tokens, record.output_tokens, record.queued_for) == (1000, 50, 0.0)


def test_a_client_out_of_patience_aborts_and_frees_its_place() -> None:
    run, records = run_of(Arrival(0.0, "acme", "m", 1000, 600, patience=0.5), Arrival(3.0, "acme", "m", 10, 2))
    first = records[0]
    assert (first.outcome, first.reason) == (Outcome.ABORTED, Reason.CLIENT_LEFT)
    assert first.finished_at == EPOCH + 0.5
    assert 10 < first.output_tokens < 60
    assert run.fleet.replicas[0].report(run.now).kv_usage == 0.0


def test_prompts_that_no_engine_could_hold_are_refused_with_numbers() -> None:
    _, (record,) = run_of(Arrival(0.0, "acme", "m", 200_000, 5))
    assert (record.outcome, record.reason) == (Outcome.REJECTED, Reason.PROMPT_TOO_LONG)


def test_a_pool_without_profile_cannot_be_simulated() -> None:
    with pytest.raises(ProfileError, match="pool chat names no profile"):
        Simulation(POLICY, {}, (), lambda _: None)


def test_sessions_find_their_beginnings_in_the_prefix_cache() -> None:
    load = Workload((tenant("acme", 2.0, turns=5, think=3.0, shared_tokens=1024),), 60.0, "m")
    run, records = simulated(load, 1)
    hits = sum(record.cached_tokens or 0 for record in records) / sum(record.prompt_tokens for record in records)
    assert 0.4 < hits < 0.95
    assert Counter(record.outcome for record in records) == {Outcome.COMPLETED: run.num_arrived}


def test_a_run_can_be_stopped_and_go_on() -> None:
    whole = simulated(traffic(10.0), 3)[1]
    settles: list = []  # type: ignore[type-arg]
    run = Simulation(POLICY, PROFILES, traffic(10.0).arrivals(3), settles.append)
    for tick in range(40):
        run.run(until=EPOCH + tick)
    run.run()
    assert [settle.record for settle in settles] == whole


def test_without_sketches_rows_lose_nothing_else() -> None:
    whole: list[Settle] = []
    bare: list[Settle] = []
    Simulation(POLICY, PROFILES, traffic(30.0).arrivals(4), whole.append).run()
    Simulation(POLICY, PROFILES, traffic(30.0).arrivals(4), bare.append, sketches=False).run()
    assert any(settle.record.itl_sketches for settle in whole)
    assert [replace(settle, record=replace(settle.record, itl_sketches=None)) for settle in whole] == bare

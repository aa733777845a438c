"""Workloads: rates and shapes as told, order of time, nobody's traffic depends on anybody else's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import BLOCK, Workload
from tests.sim.world import tenant, traffic

rates = st.floats(0.1, 30)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), rates, st.sampled_from([1, 4]), st.sampled_from([0.0, 1.0, 6.0]))
def test_arrivals_are_in_order_within_the_duration(seed: int, rate: float, turns: int, burstiness: float) -> None:
    load = Workload((tenant("a", rate, turns=turns, burstiness=burstiness), tenant("b", rate, starts=10.0)), 60.0, "m")
    arrivals = list(load.arrivals(seed))
    assert all(earlier.at <= later.at for earlier, later in pairwise(arrivals))
    assert all(0.0 <= arrival.at < 60.0 for arrival in arrivals)
    assert all(arrival.at >= 10.0 for arrival in arrivals if arrival.tenant == "b")
    assert all(arrival.prompt_tokens >= 1 and arrival.output_tokens >= 1 for arrival in arrivals)


def test_taking_a_tenant_away_changes_nobody_else() -> None:
    whole = traffic(30.0)
    alone = [arrival for arrival in whole.arrivals(7) if arrival.tenant != "noisy"]
    assert list(whole.without("noisy").arrivals(7)) == alone
    assert len(alone) > 50


@pytest.mark.parametrize("burstiness", [0.0, 1.0, 4.0])
def test_rate_and_burstiness_are_as_told(burstiness: float) -> None:
    load = Workload((TenantProfile("a", 50.0, burstiness=burstiness, output=Lengths(1)),), 400.0, "m")
    at = np.array([arrival.at for arrival in load.arrivals(3)])
    gaps = np.diff(at)
    assert len(at) / 400.0 == pytest.approx(50.0, rel=0.05)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(burstiness, rel=0.15, abs=1e-6)
    assert len(at) > 4 * BLOCK  # more than a few draws


def test_changes_and_hours_of_the_day_move_the_rate() -> None:
    step = Workload((TenantProfile("a", 20.0, changes=((100.0, 80.0),), ends=150.0),), 200.0, "m")
    at = np.array([arrival.at for arrival in step.arrivals(1)])
    assert np.sum(at < 100.0) == pytest.approx(2000, rel=0.08)
    assert np.sum(at >= 100.0) == pytest.approx(4000, rel=0.08)
    assert at.max() < 150.0
    day = Workload((TenantProfile("a", 1.0, daily=(0.0, 2.0)),), 7200.0, "m")
    assert min(arrival.at for arrival in day.arrivals(1)) >= 3600.0


def test_a_session_repeats_what_was_said() -> None:
    profile = tenant("a", 2.0, turns=4, think=5.0, shared_tokens=1024, variants=2)
    sessions: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}
    for arrival in Workload((profile,), 120.0, "m").arrivals(5):
        sessions.setdefault(arrival.session, []).append((arrival.prompt_tokens, arrival.output_tokens, arrival.hashes))
    assert max(map(len, sessions.values())) == 4
    for turns in sessions.values():
        for (prompt, output, hashes), (later, _, longer) in pairwise(turns):
            assert later > prompt + output
            assert longer[: len(hashes)] == hashes
    shared = {hashes[:2] for turns in sessions.values() for _, _, hashes in turns}
    assert len(shared) == 2

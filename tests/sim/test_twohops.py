"""Pools whose prompts are computed apart, simulated: how long the way takes, and profiles that do not say."""

import pytest
from msgspec.structs import replace

from plimsoll.engine.features import Disaggregation
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Settle
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.outage import Outage
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.workload import Workload
from tests.sim.world import POLICY, PROFILE, PROFILES, tenant

LINK = Disaggregation("a test", 1, 1, bytes_per_token=1e6, bandwidth=1e9, latency=0.25)
PREFILL = ("http://p1", "http://p2")


def played(arrivals: list[Arrival], link: Disaggregation | None = LINK, **more: object) -> list[Record]:
    (pool,) = POLICY.pools
    policy: Policy = replace(POLICY, pools=(replace(pool, prefill=PREFILL, prefill_from=500),))
    known: dict[str, EngineProfile] = {PROFILE: replace(PROFILES[PROFILE], disaggregation=link)}
    settles: list[Settle] = []
    run = Simulation(policy, known, arrivals, settles.append, **more)  # type: ignore[arg-type]
    run.run()
    assert all(not engine.num_jobs for engine in run.fleet.replicas)
    told = run.governor.snapshot(run.now).pools[0]
    assert not any(each.pending_prompt for each in told.replicas)
    assert not any(each.pending_prompt for each in told.prefillers)
    return [settle.record for settle in settles]


def arrival(at: float, prompt: int) -> Arrival:
    return Arrival(at, "acme", "m", prompt, 20)


def test_a_cache_takes_its_time_and_short_prompts_stay() -> None:
    long, short = played([arrival(1.0, 1000), arrival(9.0, 400)])
    assert (long.prefill in PREFILL, short.prefill) == (True, "")
    assert long.ttft is not None
    assert short.ttft is not None
    assert 1.25 < long.ttft < 1.25 + 3 * short.ttft, "0.25 s and 1,000 tokens at 1 ms"
    assert long.cached_tokens == 0, "what was taken over is none that was hit"


def test_caches_of_one_engine_travel_one_after_the_other() -> None:
    rows = played([arrival(1.0, 1000), arrival(1.0, 1000), arrival(1.0, 1000)])
    ttfts = sorted(row.ttft or 0.0 for row in rows)
    assert ttfts[2] - ttfts[1] > 1.0, "two engines for three prompts"


def test_engines_that_fail_cost_nobody_an_answer_that_had_not_begun() -> None:
    load = list(Workload((tenant("acme", 4.0),), 40.0, "m").arrivals(3))
    rows = played(load, outages=(Outage(10.0, "http://p1", 10.0), Outage(15.0, "http://p2", 10.0)))
    assert len(rows) == len(load) == sum(row.outcome == "completed" for row in rows)
    assert {row.prefill for row in rows} == {"", *PREFILL}


@pytest.mark.parametrize(
    ("link", "what"),
    [(None, "does not say how fast a cache travels"), (replace(LINK, decode_replicas=2), "decode_replicas: 1, not 2")],
)
def test_a_profile_that_does_not_fit_is_a_fault(link: Disaggregation | None, what: str) -> None:
    with pytest.raises(ProfileError, match=what):
        played([], link)

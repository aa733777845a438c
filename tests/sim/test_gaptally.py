"""Gaps counted once for all equal what a token clock counts for each from the runs of its steps."""

from math import inf

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.gaptally import GapTally, all_thresholds
from plimsoll.sim.job import FINISHED, Job
from plimsoll.sim.replica import Replica
from plimsoll.slo.measured import UNCOUNTED, Timing
from plimsoll.slo.timing import TokenClock
from tests.laws.test_law5_jumps import profiles
from tests.sim.world import PROFILE, PROFILES

THRESHOLDS = ((), (0.02,), (0.04, 0.011), (0.3,))
KNOWN = all_thresholds(list(THRESHOLDS))


def told(profile: EngineProfile, jobs: list[tuple[float, Job]], tally: GapTally | None) -> dict[int, Timing]:
    """What clients see of each job, and of those that run at the last arrival as if they were cut off then."""
    replica = Replica(profile, "r", tally)
    seen: dict[int, Timing] = {}
    for at, job in jobs:
        step(replica, at, seen, tally)
        replica.submit(at, job)
    for _, job in jobs:
        if job.state != 3 and job.first_token_at and replica.output_so_far(job):
            seen[-job.id] = timing(replica, job, replica.output_so_far(job), tally)
    step(replica, inf, seen, tally)
    return seen


def step(replica: Replica, until: float, seen: dict[int, Timing], tally: GapTally | None) -> None:
    while (at := replica.next_at()) <= until and at < inf:
        for output in replica.advance(at):
            if output.kind == FINISHED and output.job.output_tokens:
                seen[output.job.id] = timing(replica, output.job, output.job.output_tokens, tally)
    if until < inf:
        replica.advance(until)


def timing(replica: Replica, job: Job, tokens: int, tally: GapTally | None) -> Timing:
    if tally is not None:
        return replica.timing(job, tokens)
    clock = TokenClock(THRESHOLDS[job.id % 4])
    clock.tokens(job.first_token_at, 1)
    for run in replica.runs(job):
        clock.run(run)
    return clock.finish(tokens)


def made(history: list[tuple[float, int, int, int]]) -> list[tuple[float, Job]]:
    """(at, job), from gap, prompt, output, priority."""
    jobs, at = [], 0.0
    for number, (gap, prompt, output, priority) in enumerate(history):
        at += gap
        job = Job(number + 1, prompt, output)
        job.priority = priority
        job.thresholds = tuple(KNOWN.index(one) for one in THRESHOLDS[job.id % 4])
        jobs.append((at, job))
    return jobs


def agree(profile: EngineProfile, history: list[tuple[float, int, int, int]]) -> dict[int, Timing]:
    ours = told(profile, made(history), GapTally(KNOWN))
    theirs = told(profile, made(history), None)
    assert ours.keys() == theirs.keys()
    rough = told(profile, made(history), GapTally(KNOWN, sketches=False))
    for number, mine in ours.items():
        assert rough[number] == replace(mine, sketches=UNCOUNTED)
        assert rough[number].sketches is UNCOUNTED or not mine.num_gaps
    for number, timing in theirs.items():
        mine = ours[number]
        assert mine.sketches == timing.sketches
        assert mine.itl_bad == timing.itl_bad
        assert mine.num_tokens == timing.num_tokens
        assert mine.num_gaps == timing.num_gaps
        assert mine.first_token_at == timing.first_token_at
        assert mine.last_token_at == pytest.approx(timing.last_token_at, abs=1e-9)
        assert mine.itl_max == pytest.approx(timing.itl_max, rel=1e-12)
    return theirs


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_tally_of_steps_is_every_jobs_clock(data: st.DataObject) -> None:
    profile = data.draw(profiles)
    capacity = profile.block_size * profile.num_blocks
    output = st.integers(0, min(1400, capacity * 2 // 3))
    gap = st.floats(0.001, 3.0)
    history = data.draw(
        st.lists(
            st.tuples(gap, st.integers(1, max(1, capacity // 3)), output, st.integers(0, 2)), min_size=1, max_size=12
        )
    )
    seen = agree(profile, history)
    event(f"cut off {any(number < 0 for number in seen)}")


def test_a_preempted_job_counts_the_gap_across_it_once() -> None:
    tight = EngineProfile(
        "tight", "test", PROFILES[PROFILE].decode, PROFILES[PROFILE].mixed, num_blocks=100, prefix_caching=False
    )
    seen = agree(tight, [(0.1, 400, 1100, 0), (0.1, 400, 300, 0), (0.1, 300, 1000, 0)])
    assert seen[3].itl_max > 1.0  # it waited while the others ran
    assert sum(sum(sketch.buckets.values()) for sketch in seen[3].sketches) == 999


def test_an_idle_replica_forgets_all_gaps() -> None:
    tally = GapTally([0.02])
    replica = Replica(PROFILES[PROFILE], "r", tally)
    for number in range(40):
        replica.advance(number * 0.5)
        replica.submit(number * 0.5, Job(number, 50 + number, 100))
    assert tally._peaks
    finished = [output for output in replica.advance(1000.0) if output.kind == FINISHED]
    assert len(finished) >= 1
    assert not tally._peaks
    assert not tally._splits

"""A long prompt computes chunk after chunk without waking its replica; to the bit as if it woke at every step."""

from math import inf

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import StepTime
from plimsoll.sim.job import Job, Output
from plimsoll.sim.replica import Replica

PROFILE = EngineProfile(
    name="chunks", source="test", decode=StepCoefficients(a=0.011, g=3e-7),
    mixed=StepCoefficients(a=0.013, e=3.1e-5, g=1e-7, pw=1.7e-9, kp=1.3e-7),
    block_size=16, num_blocks=600, max_num_seqs=6, max_batched_tokens=256,
)  # fmt: skip


class Run:
    """Jobs (instant, prompt, output) on a replica that wakes when it says, or also at every step of a prompt."""

    def __init__(self, jobs: list[tuple[float, int, int]], *, every_step: bool) -> None:
        self.replica, self.every_step = Replica(PROFILE), every_step
        self.told: list[tuple[int, float, int]] = []
        self.num_wakes = 0
        for number, (at, prompt, output) in enumerate(sorted(jobs)):
            self.advance(at)
            self.note(self.replica.advance(at))
            self.replica.submit(at, Job(number, prompt, output))
            if number % 5 == 4:
                self.replica.cancel(number - 3)
        self.advance(inf)

    def advance(self, until: float) -> None:
        while (at := self.wakes_at()) <= until and at < inf:
            self.num_wakes += 1
            self.note(self.replica.advance(at))

    def wakes_at(self) -> float:
        prompt_goes_on = self.replica.batch.partial is not None
        return self.replica.step_ends_at() if self.every_step and prompt_goes_on else self.replica.next_at()

    def note(self, outputs: list[Output]) -> None:
        self.told += [(output.kind, output.at, output.job.id) for output in outputs]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 4000), st.integers(1, 120)), min_size=1, max_size=12))
def test_waking_seldom_tells_the_same_as_waking_at_every_step(jobs: list[tuple[float, int, int]]) -> None:
    assert Run(jobs, every_step=False).told == Run(jobs, every_step=True).told


def test_a_long_prompt_wakes_its_replica_a_few_times() -> None:
    assert Run([(0.0, 4000, 1)], every_step=True).num_wakes == 16
    assert Run([(0.0, 4000, 1)], every_step=False).num_wakes == 2


def test_whoever_comes_meanwhile_finds_the_step_that_runs() -> None:
    replica = Replica(PROFILE)
    replica.submit(0.0, Job(1, 4000, 1))
    first = replica.next_at()
    middle = replica.step_ends_at() * 3.5
    assert replica.advance(middle) == []
    assert middle < replica.step_ends_at() < first
    replica.submit(middle, Job(2, 100, 1))
    assert replica.next_at() == first


@settings(max_examples=60)
@given(st.sampled_from((0.3, 4.0)), st.floats(0.0, 1.2), st.integers(0, 40))
def test_another_pace_holds_from_the_next_step_on_however_often_it_wakes(factor: float, at: float, beside: int) -> None:
    """Slower, it must not wait for an instant that is over; faster, not for one that it has foreseen too late."""
    told = []
    for every_step in (False, True):
        run = Run([], every_step=every_step)
        if beside:
            run.replica.submit(0.0, Job(1, 10, beside))
        run.replica.submit(0.0, Job(2, 8000, 3))
        run.advance(at)
        run.note(run.replica.advance(at))
        run.replica.retime(StepTime(msgspec.structs.replace(PROFILE, host_factor=factor)))
        for _ in range(500):
            if run.wakes_at() == inf:
                break
            run.advance(run.wakes_at())
        assert run.wakes_at() == inf
        told.append(run.told)
    assert told[0] == told[1]

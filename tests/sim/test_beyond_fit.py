"""Steps outside the range of a profile's fit are counted, and a summary says so."""

import msgspec
from msgspec.structs import replace

from plimsoll.engine.features import Rounds
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import Job
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.summary import ReplicaSummary, beyond_notes
from tests.sim.world import POLICY, PROFILE, PROFILES, traffic

PLAIN = EngineProfile("plain", "a test", StepCoefficients(a=0.1), StepCoefficients(a=0.1), num_blocks=1000)


def beyond(profile: EngineProfile, *jobs: Job) -> int:
    engine = engine_for(profile, "r")
    for job in jobs:
        engine.submit(0.0, job)
    engine.advance(1e6)
    return engine.counts().num_beyond_fit


def test_steps_beyond_are_counted_in_jumps_as_in_steps() -> None:
    for profile in (PLAIN, replace(PLAIN, rounds=Rounds("a test", 1))):
        assert beyond(profile, Job(1, 100, 51)) == 0, "nobody said what the range is"
        assert beyond(replace(profile, fitted_max_context=120), Job(1, 100, 51)) == 29, "121 to 149 tokens of context"
        assert beyond(replace(profile, fitted_max_context=10), Job(1, 100, 51)) == 50, "all but the prompt's"
        assert beyond(replace(profile, fitted_max_tokens=99), Job(1, 100, 51)) == 1, "the prompt's"
        assert beyond(replace(profile, fitted_max_context=149, fitted_max_tokens=100), Job(1, 100, 51)) == 0
        four = [Job(number, 1, 11 + number) for number in range(4)]
        assert beyond(replace(profile, fitted_max_tokens=3), *four) == 10, "from the second step to the first end"


def test_the_summary_says_so() -> None:
    profiles = {PROFILE: replace(PROFILES[PROFILE], fitted_max_context=2000)}
    simulation = Simulation(POLICY, profiles, traffic(5.0, 1.0).arrivals(1), lambda _: None)
    simulation.run()
    replicas = tuple([_summary(engine) for engine in simulation.fleet.replicas])
    assert all(one.beyond_fit > 0 for one in replicas)
    (note,) = beyond_notes(replicas)
    steps = sum(one.num_steps for one in replicas)
    assert note.startswith(f"{sum(one.beyond_fit for one in replicas):,} of {steps:,} steps (chat)")
    assert beyond_notes(tuple([msgspec.structs.replace(one, beyond_fit=0) for one in replicas])) == ()


def _summary(engine: Engine) -> ReplicaSummary:
    counts = engine.counts()
    return ReplicaSummary(engine.name, counts.num_steps, 0, None, "chat", beyond_fit=counts.num_beyond_fit)

"""What each feature of an engine does to requests, by hand."""

import msgspec
import pytest
from msgspec.structs import replace

from plimsoll.engine.features import ColdStart, DataParallel, KvTier, KvTiers, Lora, Rounds, Speculation
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.profiles import load
from plimsoll.errors import ProfileError
from plimsoll.requestlog.record import Record
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.gate import GatedReplica
from plimsoll.sim.job import FINISHED, Job
from plimsoll.sim.replica import Replica
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.stepping import SteppingReplica
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.timing import TokenClock
from tests.sim.world import POLICY, PROFILE, PROFILES, as_bytes, traffic

STEP = 0.1
PLAIN = EngineProfile(
    "plain", "a test", StepCoefficients(a=STEP), StepCoefficients(a=STEP, e=1e-3), num_blocks=1000, max_num_seqs=8
)


def served(engine: Engine, *jobs: tuple[float, Job]) -> Engine:
    """All of them, to their ends."""
    for at, job in jobs:
        engine.advance(at)
        engine.submit(at, job)
    engine.advance(1e6)
    return engine


def ttft(engine: Engine, at: float, job: Job) -> float:
    served(engine, (at, job))
    return job.first_token_at - at


def test_a_plain_profile_gets_the_plain_engine() -> None:
    assert type(engine_for(PLAIN, "r")) is Replica
    assert type(engine_for(load("rtxpro6000-llama8b"), "r")) is Replica
    assert type(engine_for(replace(PLAIN, rounds=Rounds("a test", 2)), "r")) is SteppingReplica
    assert type(engine_for(replace(PLAIN, lora=Lora("a test", 1, 1.0)), "r")) is GatedReplica


def test_a_stepping_engine_without_anything_to_step_for_is_the_plain_one() -> None:
    jobs = [(0.37 * number, 30 + 11 * number, 5 * number) for number in range(1, 30)]
    ends = []
    for engine in (Replica(PLAIN), SteppingReplica(PLAIN)):
        made = [(at, Job(number, prompt, output)) for number, (at, prompt, output) in enumerate(jobs)]
        served(engine, *made)
        ends.append([job.last_token_at for _, job in made])
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_guesses_that_are_right_come_with_the_step_and_cost_their_draft() -> None:
    spec = Speculation("a test", 3, {"default": (0.0,) * 3, "lucky": (1.0,) * 3}, draft_time=0.01)
    took = {}
    for tenant in ("lucky", "other"):
        job = Job(1, 10, 13)
        job.tenant = tenant
        engine = served(engine_for(replace(PLAIN, speculation=spec), "r"), (0.0, job))
        took[tenant] = job.last_token_at - job.first_token_at
        gaps = TokenClock()
        gaps.tokens(job.first_token_at, 1)
        for run in engine.runs(job):
            gaps.run(run) if run.first_gap else gaps.tokens(run.start_at, run.num)
        assert engine.timing(job, 13).last_token_at == pytest.approx(gaps.finish(13).last_token_at)
    assert took["lucky"] == pytest.approx(3 * (STEP + 0.03)), "12 tokens in 3 steps of 4"
    assert took["other"] == pytest.approx(12 * STEP + 9 * 0.03 + 0.02 + 0.01), "the last steps have less to guess"


def test_acceptance_is_what_was_said() -> None:
    spec = Speculation("a test", 2, {"default": (0.58, 0.34)}, draft_time=0.0)
    engine = engine_for(replace(PLAIN, speculation=spec), "r")
    served(engine, (0.0, Job(1, 10, 9_000)))
    assert isinstance(engine, SteppingReplica)
    steps = engine.counts().num_steps
    assert 9_000 / steps == pytest.approx(1 + 0.58 + 0.34, rel=0.02)


def test_a_crowd_turns_guessing_off() -> None:
    spec = Speculation("a test", 3, {"default": (1.0,) * 3}, draft_time=0.0, off_above=1)
    jobs = [Job(number, 10, 41) for number in range(2)]
    served(engine_for(replace(PLAIN, speculation=spec), "r"), *[(0.0, job) for job in jobs])
    alone = Job(9, 10, 41)
    served(engine_for(replace(PLAIN, speculation=spec), "r"), (0.0, alone))
    assert alone.last_token_at - alone.first_token_at == pytest.approx(10 * STEP)
    assert jobs[0].last_token_at - jobs[0].first_token_at > 36 * STEP  # it was alone for one step


def test_rounds_make_arrivals_wait_unless_they_are_cut_short() -> None:
    waits = {}
    for name, early_cut in (("wait", False), ("cut", True)):
        profile = replace(PLAIN, rounds=Rounds("a test", 10, early_cut))
        late = Job(2, 10, 5)
        served(engine_for(profile, "r"), (0.0, Job(1, 10, 100)), (0.25, late))
        waits[name] = late.first_token_at - 0.25
    assert waits["cut"] == pytest.approx(0.06 + 0.11, abs=0.02)  # the end of the step that runs, and its own
    assert waits["wait"] == pytest.approx(0.86 + 0.11, abs=0.02)  # the round of ten that began with its second step


def test_a_look_at_the_queue_costs_once_a_round() -> None:
    job = Job(1, 10, 41)
    served(engine_for(replace(PLAIN, rounds=Rounds("a test", 10, schedule_time=0.05)), "r"), (0.0, job))
    assert job.last_token_at - job.first_token_at == pytest.approx(40 * STEP + 4 * 0.05)


def test_adapters_load_one_after_another_and_stay_until_their_slot_is_needed() -> None:
    profile = replace(PLAIN, lora=Lora("a test", 1, 2.0))
    engine, jobs = engine_for(profile, "r"), [Job(number, 10, 5) for number in range(4)]
    for job, adapter in zip(jobs, ("a", "a", "b", ""), strict=True):
        job.adapter = adapter
    served(engine, (0.0, jobs[0]), (10.0, jobs[1]), (10.1, jobs[2]), (10.2, jobs[3]))
    step = STEP + 0.01
    assert jobs[0].first_token_at == pytest.approx(2.0 + step)
    assert jobs[1].first_token_at == pytest.approx(10.0 + step), "loaded already"
    assert jobs[2].first_token_at == pytest.approx(jobs[1].last_token_at + 2.0 + step), "waits for the slot, then loads"
    assert jobs[3].first_token_at < 10.5, "the model itself needs no slot"
    assert isinstance(engine, GatedReplica)
    assert engine.adapters
    assert engine.adapters.num_loads == 2


def test_a_cold_replica_wakes_once_for_all_and_sleeps_again() -> None:
    engine = engine_for(replace(PLAIN, cold_start=ColdStart("a test", 30.0, asleep_after=60.0)), "r", 100.0)
    assert ttft(engine, 110.0, Job(1, 10, 2)) == pytest.approx(20.0 + STEP + 0.01)
    engine = engine_for(replace(PLAIN, cold_start=ColdStart("a test", 30.0, asleep_after=60.0)), "r", 100.0)
    jobs = [Job(number, 10, 2) for number in range(3)]
    served(engine, (200.0, jobs[0]), (210.0, jobs[1]), (250.0, jobs[2]))
    assert [job.first_token_at for job in jobs] == pytest.approx([230.11, 230.221, 250.11]), "asleep since 190"


def test_kv_from_a_lower_tier_is_loaded_instead_of_computed() -> None:
    tiers = KvTiers("a test", 100.0, (KvTier("dram", 1e6, 1e4, 1e6),))
    profile = replace(PLAIN, num_blocks=100, kv_tiers=tiers)
    hashes = tuple(range(8))
    engine, again = engine_for(profile, "r"), Job(3, 130, 2, hashes, 16)
    served(engine, (0.0, Job(1, 130, 2, hashes, 16)), (10.0, Job(2, 1590, 2)), (20.0, again))
    loaded = 128 * 100.0 / 1e4
    assert again.cached_tokens == 128
    assert again.first_token_at == pytest.approx(20.0 + loaded + STEP + 0.002)
    here = Job(4, 130, 2, hashes, 16)
    served(engine, (40.0, here))
    assert here.first_token_at == pytest.approx(40.0 + STEP + 0.002), "in HBM again"
    assert engine.report(50.0).kv_usage == 0.0


def test_ranks_wait_for_each_other() -> None:
    engine = engine_for(replace(PLAIN, data_parallel=DataParallel("a test", 2)), "r")
    first, second = Job(1, 10, 11), Job(2, 1000, 2)
    served(engine, (0.0, first), (0.15, second))
    assert (first.rank, second.rank) == (0, 1)
    assert first.last_token_at - first.first_token_at == pytest.approx(10 * STEP + 1.0), "one step as long as a prompt"


@pytest.mark.parametrize("feature", ["lora", "speculation", "kv_tiers", "disaggregation"])
def test_what_no_engine_could_hold_is_refused_whatever_its_form(feature: str) -> None:
    engine = engine_for(FEATURED[feature], "r")
    for prompt, output, told in ((20_000, 5, "exceed the KV cache"), (0, 5, "0 prompt"), (5, -1, "-1 output")):
        with pytest.raises(ProfileError, match=told):
            engine.submit(0.0, Job(1, prompt, output))
    assert engine.num_jobs == 0


def _featured(text: str) -> EngineProfile:
    plain = msgspec.to_builtins(PLAIN)
    return msgspec.convert({**plain, **msgspec.json.decode(text)}, EngineProfile)


FEATURED = {
    "lora": _featured('{"lora": {"source": "s", "slots": 1, "load_time": 1.0}}'),
    "speculation": _featured(
        '{"speculation": {"source": "s", "draft_tokens": 1, "acceptance": {"default": [0.5]}, "draft_time": 0.001}}'
    ),
    "kv_tiers": _featured(
        '{"kv_tiers": {"source": "s", "bytes_per_token": 1.0, "tiers": [{"name": "d", "capacity": 9.0,'
        ' "read_bandwidth": 1.0, "write_bandwidth": 1.0}]}}'
    ),
    "disaggregation": _featured(
        '{"disaggregation": {"source": "s", "prefill_replicas": 1, "decode_replicas": 2, "bytes_per_token": 1e5,'
        ' "bandwidth": 1e10}}'
    ),
}


@pytest.mark.parametrize("feature", ["speculation", "disaggregation", "kv_tiers"])
def test_a_whole_service_runs_on_engines_of_any_form(feature: str) -> None:
    extra = getattr(FEATURED[feature], feature)
    profiles = {PROFILE: replace(PROFILES[PROFILE], **{feature: extra})}

    def run() -> list[Record]:
        settled: list[Record] = []
        simulation = Simulation(POLICY, profiles, traffic(6.0, 2.0).arrivals(3), lambda one: settled.append(one.record))
        simulation.run()
        assert len(settled) == simulation.num_arrived
        assert all(replica.report(simulation.now).kv_usage == 0.0 for replica in simulation.fleet.replicas)
        return settled

    first = run()
    assert as_bytes(first) == as_bytes(run())
    assert sum(record.outcome is Outcome.COMPLETED for record in first) > 0.9 * len(first)


def test_finished_is_told_last() -> None:
    engine = engine_for(FEATURED["disaggregation"], "r")
    engine.submit(0.0, Job(1, 10, 0))
    assert [output.kind for output in engine.advance(9.0)] == [FINISHED], "no tokens wanted: done where it was computed"

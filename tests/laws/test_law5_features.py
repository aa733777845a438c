"""Law 5 with everything that an engine may do beyond plain batching, by itself and combined."""

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.features import (
    AllToAll,
    ColdStart,
    DecodeTable,
    Eviction,
    KvTier,
    KvTiers,
    LinearTable,
    Lora,
    MixtureOfExperts,
    Precision,
    Rounds,
    Router,
    Speculation,
    Tables,
    Topology,
)
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.profilerules import faults_of
from plimsoll.sim.engines import engine_for
from tests.laws.test_law5_jumps import EPOCH, MICROSECOND, Run, distance, histories, profiles, touched
from tests.sim.reference import ReferenceReplica, Request
from tests.sim.referencegate import PlainGate

SAID = "hypothesis"

tables = st.builds(
    Tables,
    source=st.just(SAID),
    decode=st.sampled_from(
        [
            None,
            DecodeTable((1, 4, 12), (0, 100, 400), ((0.01, 0.011, 0.02), (0.012, 0.0125, 0.03), (0.024, 0.025, 0.06))),
        ]
    ),
    mixed=st.just(LinearTable((1, 16, 300), (0.01, 0.012, 0.05))),
)
experts = st.builds(
    MixtureOfExperts,
    source=st.just(SAID),
    num_ranks=st.sampled_from([1, 2, 8]),
    experts_per_token=st.just(2),
    expert_share=st.just(0.6),
    router=st.sampled_from(Router),
    skew=st.sampled_from([(), ((8.0, 1.0), (200.0, 1.3))]),
    num_layers=st.just(4),
    topology=st.sampled_from(Topology),
    inside=st.just(AllToAll(1e-4, 1e-6)),
    across=st.just(AllToAll(4e-4, 3e-6)),
)
speculation = st.builds(
    Speculation,
    source=st.just(SAID),
    draft_tokens=st.integers(1, 4),
    acceptance=st.just({"default": (0.6, 0.35, 0.2, 0.15), "even": (1.0, 1.0, 1.0, 1.0), "odd": (0.0,) * 4}),
    draft_time=st.just(1e-3),
    draft_time_per_sequence=st.just(1e-4),
    off_above=st.integers(1, 6),
)
rounds = st.builds(
    Rounds,
    source=st.just(SAID),
    steps=st.integers(1, 9),
    early_cut=st.booleans(),
    schedule_time=st.sampled_from([0.0, 2e-3]),
)
lora = st.builds(Lora, source=st.just(SAID), slots=st.integers(1, 3), load_time=st.sampled_from([0.037, 0.9]))
cold = st.builds(
    ColdStart, source=st.just(SAID), seconds=st.sampled_from([0.0, 3.3]), asleep_after=st.sampled_from([0.0, 5.7])
)
UNIT = 1000.0  # bytes a token


@st.composite
def kv_tiers(draw: st.DrawFn) -> KvTiers:
    blocks = draw(st.integers(3, 40)) * 16 * UNIT
    tiers = [KvTier("dram", blocks, 3.1e6, 4.3e6, 1e-4), KvTier("nvme", 3 * blocks, 7e5, 5e5, 1e-3)]
    num_tiers = draw(st.integers(1, 2))
    return KvTiers(
        source=SAID,
        bytes_per_token=UNIT,
        tiers=tuple(tiers[:num_tiers]),
        eviction=draw(st.sampled_from(Eviction)),
        protected_ratio=draw(st.sampled_from([0.3, 0.8])),
        prewarm_every=draw(st.sampled_from([0.0, 0.71])) if num_tiers > 1 else 0.0,
    )


@st.composite
def featured(draw: st.DrawFn, feature: str) -> EngineProfile:
    """A profile with that feature, and each of the others now and then."""
    chosen = [name for name in FEATURES if name == feature or draw(st.integers(0, 3)) == 0]
    profile = replace(draw(profiles), **{name: draw(FEATURES[name]) for name in chosen})
    if profile.kv_tiers is not None:
        profile = replace(profile, prefix_caching=True)
    if profile.speculation is not None:
        profile = replace(profile, max_batched_tokens=max(64, profile.max_batched_tokens))
    assert faults_of(profile) == []
    return profile


@st.composite
def traffic(draw: st.DrawFn, profile: EngineProfile, num: int) -> list[Request]:
    """Requests of several tenants and adapters; where there are KV tiers, most come back to a few long prompts."""
    requests = draw(histories(profile, num))
    for request in requests:
        request.tenant = ("odd", "even", "other")[request.id % 3]
        request.adapter = draw(st.sampled_from(["", "a", "b", "c", "d"]))
        if profile.kv_tiers is not None and request.id % 4:
            family = draw(st.integers(0, 3))
            request.hashes = tuple(family * 1000 + i for i in range(len(request.hashes)))
    return requests


FEATURES = {
    "tables": tables,
    "precision": st.just(Precision(SAID, "fp8", 0.7)),
    "moe": experts,
    "speculation": speculation,
    "rounds": rounds,
    "lora": lora,
    "cold_start": cold,
    "kv_tiers": kv_tiers(),
    "frontend": st.sampled_from([0.0037, 0.11]),
}


def agree(profile: EngineProfile, requests: list[Request], polls: list[float], epoch: float) -> None:
    gate = PlainGate(profile, profile.block_size)
    reference = ReferenceReplica(profile, gate)
    reference.run(requests)
    ends = [float(end) for end in reference.ends]
    came = touched(requests)
    made = [float(at) for at in gate.instants]
    assume(all(distance(ends, at) > MICROSECOND for at in came + made))
    assume(all(distance(sorted(came), at) > MICROSECOND for at in made))
    run = Run(engine_for(profile, "r", epoch), requests, polls, epoch)
    for request in requests:
        run.same(request, profile)
    assert run.engine.report(1e12).kv_usage == pytest.approx(0.0)
    assert run.engine.counts().num_steps == len(ends)
    assert run.engine.num_jobs == 0
    if not any(r.cancelled for r in requests):
        assert run.engine.counts().num_beyond_fit == reference.num_beyond
    tell(profile, requests, gate)


def tell(profile: EngineProfile, requests: list[Request], gate: PlainGate) -> None:
    for name in FEATURES:
        event(f"{name} {getattr(profile, name) is not None}")
    event(f"preempted {any(r.preemptions for r in requests)}")
    event(f"cancelled {any(r.cancelled for r in requests)}")
    if gate.tiers:
        event(f"tier hits {gate.tiers.num_hits > 0}")
        event(f"prewarmed {gate.tiers.num_moved_up > 0}")


@pytest.mark.parametrize("feature", [name for name in FEATURES if name != "precision"])
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_features_agree_with_their_plain_twins(feature: str, data: st.DataObject) -> None:
    """Each with others beside it; a factor for precision comes along now and then."""
    profile = data.draw(featured(feature))
    requests = data.draw(traffic(profile, data.draw(st.integers(4, 12))))
    polls = data.draw(st.lists(st.floats(0, 30), max_size=4))
    agree(profile, requests, polls, data.draw(st.sampled_from([0.0, EPOCH])))

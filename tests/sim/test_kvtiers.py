"""KV tiers: against their plain twin on any sequence of calls, and by hand."""

from fractions import Fraction

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from plimsoll.engine.features import Eviction, KvTier, KvTiers
from plimsoll.sim.kvtiers import TieredKv
from tests.sim.referencegate import PlainTiers

BLOCK = 10  # tokens under one hash; 100 bytes


def tiers(*capacities: float, eviction: Eviction = Eviction.LRU, prewarm: float = 0.0) -> KvTiers:
    """Capacities in hashes; the first tier reads 1,000 bytes/s and writes 2,000, each next one a tenth of that."""
    stores = tuple(
        KvTier(f"tier{i}", capacity * 100.0, 1000 / 10**i, 2000 / 10**i, 0.01) for i, capacity in enumerate(capacities)
    )
    return KvTiers("a test", 10.0, stores, eviction, 0.6, prewarm)


calls = st.lists(
    st.tuples(st.sampled_from(["load", "store"]), st.floats(0.001, 9.0), st.integers(0, 3), st.integers(1, 6)),
    min_size=10,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(
    calls,
    st.sampled_from([(4,), (4, 9), (3, 5, 8)]),
    st.sampled_from(Eviction),
    st.sampled_from([0.0, 0.53, 2.9]),
    st.integers(0, 2),
)
def test_it_is_its_plain_twin(
    made: list[tuple[str, float, int, int]],
    capacities: tuple[int, ...],
    eviction: Eviction,
    prewarm: float,
    start: int,
) -> None:
    spec = tiers(*capacities, eviction=eviction, prewarm=prewarm if len(capacities) > 1 else 0.0)
    ours, twin, at = TieredKv(spec), PlainTiers(spec, BLOCK), Fraction(0)
    for kind, gap, family, num in made:
        at += Fraction(gap)
        hashes = tuple(family * 100 + i for i in range(num))
        if kind == "store":
            ours.store(float(at), hashes, BLOCK)
            twin.store(at, hashes)
            continue
        reach, ready = ours.load(float(at), hashes, min(start, num))
        expected, when = twin.load(at, hashes, min(start, num))
        assert reach == expected
        assert ready == pytest.approx(float(when), abs=1e-9)
    for tier, store in zip(ours.tiers, twin.stores, strict=True):
        assert [*tier.probation] == [copy.hash for copy in store.copies if not copy.protected]
        assert [*tier.protected] == [copy.hash for copy in store.copies if copy.protected]
        assert tier.used == pytest.approx(float(store.size(protected=False)))
    assert ours.num_prewarmed == twin.num_moved_up
    event(f"prewarmed {ours.num_prewarmed > 0}")
    event(f"hits {twin.num_hits > 0}")


def loaded(kv: TieredKv, at: float, hashes: tuple[int, ...], reach: int, ready: float) -> None:
    found, when = kv.load(at, hashes, 0)
    assert found == reach
    assert when == pytest.approx(ready)


def test_a_read_takes_latency_and_bandwidth_and_waits_its_turn() -> None:
    kv = TieredKv(tiers(8))
    kv.store(0.0, (1, 2), BLOCK)
    kv.store(0.0, (5,), BLOCK)
    loaded(kv, 10.0, (1, 2, 3), 2, 10.0 + 0.01 + 0.2)
    loaded(kv, 10.0, (5,), 1, 10.21 + 0.01 + 0.1)  # one read after another
    loaded(kv, 20.0, (4, 1), 0, 20.0)  # a gap ends a prefix


def test_what_is_evicted_goes_down_and_comes_back_up() -> None:
    kv = TieredKv(tiers(2, 2))
    kv.store(0.0, (1,), BLOCK)
    kv.store(1.0, (2,), BLOCK)
    kv.store(2.0, (3,), BLOCK)
    assert [list(tier.probation) for tier in kv.tiers] == [[2, 3], [1]]
    loaded(kv, 10.0, (1,), 1, 10.0 + 0.01 + 1.0)  # at the slower tier's bandwidth
    assert [list(tier.probation) for tier in kv.tiers] == [[3, 1], [2]]


def test_segments_keep_what_was_hit_from_a_flood_of_strangers() -> None:
    for eviction, kept in ((Eviction.LRU, 0), (Eviction.SEGMENTED, 1)):
        kv = TieredKv(tiers(3, eviction=eviction))
        kv.store(0.0, (1,), BLOCK)
        kv.load(1.0, (1,), 0)
        kv.store(2.0, (11, 12, 13, 14), BLOCK)
        assert kv.load(9.0, (1,), 0)[0] == kept


def test_prewarming_displaces_what_was_hit_less_often() -> None:
    """The upper protected segment is full; what sank and was hit twice goes where something hit once is."""
    for num_hits, moved in ((1, 0), (2, 1)):
        kv = TieredKv(tiers(2, 4, eviction=Eviction.SEGMENTED, prewarm=2.0))
        kv.store(0.0, (1,), BLOCK)
        for hit in range(num_hits):
            kv.load(0.2 + 0.2 * hit, (1,), 0)
        kv.store(1.1, (2,), BLOCK)
        kv.load(1.2, (2,), 0)
        kv.store(1.3, (3,), BLOCK)
        assert 1 in kv.tiers[1].protected
        kv.load(20.0, (9,), 0)
        assert kv.num_prewarmed == moved
        assert (1 in kv.tiers[0].protected) == bool(moved)


def test_prewarming_brings_proven_content_back_before_it_is_asked_for() -> None:
    for every, seconds in ((0.0, 1.01), (2.0, 0.11)):
        kv = TieredKv(tiers(2, 4, eviction=Eviction.SEGMENTED, prewarm=every))
        kv.store(0.0, (1,), BLOCK)
        kv.load(1.0, (1,), 0)
        kv.store(1.1, (2,), BLOCK)
        kv.load(1.2, (2,), 0)  # 1 falls out of the protected segment, which holds one
        kv.store(1.3, (3,), BLOCK)  # 1 goes down
        kv.tiers[0].take(kv.tiers[0].protected[2])  # its session ended: there is room
        loaded(kv, 20.0, (1,), 1, 20.0 + seconds)

"""Which time is taken for the incident, and who is not accused of what others did."""

from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from plimsoll.diagnosis.causes import causes
from plimsoll.diagnosis.diagnose import _without_selection
from plimsoll.diagnosis.incident import incident, spell
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.diagnosis.shift import Change, Stretch
from plimsoll.diagnosis.signals import ReplicaSignal, TenantSignal, signals
from plimsoll.diagnosis.timeparts import Part
from plimsoll.diagnosis.visits import visits_of
from tests.analytics.records import record
from tests.diagnosis.cases import NEIGHBOUR, QUIET, SELF, SLOWER, VICTIM, case, every_cause


def changes(*stretches: tuple[float, int, float]) -> tuple[Change, ...]:
    """(since, requests, share that was bad) of neighbouring stretches, the last until 360 s."""
    ends = [*[since for since, _, _ in stretches[1:]], 360.0]
    found = [
        Stretch(since, until, num, round(num * ratio), ratio, ratio, ratio)
        for (since, num, ratio), until in zip(stretches, ends, strict=True)
    ]
    return tuple(Change(after.since, before, after, 20.0) for before, after in pairwise(found))


def test_the_incident_is_where_most_was_missed_and_not_its_worst_seconds() -> None:
    found = changes(
        (0, 1000, 0.01), (182, 60, 0.5), (191, 60, 0.15), (201, 900, 0.75), (281, 90, 0.05), (297, 47, 0.94),
        (301, 400, 0.0),
    )  # fmt: skip
    assert incident(found) == (201, 281)


def test_stretches_that_grow_worse_are_oneincident() -> None:
    found = changes(
        (0, 1400, 0.007), (151, 900, 0.14), (241, 230, 0.33), (273, 56, 0.91), (276, 290, 0.4), (296, 430, 0.01)
    )
    assert incident(found) == (151, 296)


def test_it_may_last_may_have_begun_before_and_may_be_none() -> None:
    assert incident(changes((0, 500, 0.01), (200, 500, 0.5))) == (200, None)
    assert incident(changes((0, 500, 0.5), (100, 500, 0.9), (200, 500, 0.01))) == (100, 200)
    assert incident(changes((0, 500, 0.5), (200, 500, 0.01))) == (None, None)
    assert incident(()) == (None, None)


WAITED = {Part.OTHERS_PREFILL: 3.0, Part.GATEWAY_QUEUE: 2.0}


def test_what_one_tenant_sends_is_not_the_load_of_all() -> None:
    calm = replace(QUIET, rate=0.9, prompt_rate=0.9)
    for grown in (replace(SELF, rate=3.0), replace(SELF, prompt_rate=3.0), replace(SELF, appeared=True, rate=None)):
        assert CauseKind.OVERLOAD not in {each.kind for each in causes(case(WAITED, grown, calm, load=2.0))}
    both = case(WAITED, replace(SELF, rate=3.0), replace(QUIET, rate=3.0), load=2.0)
    assert CauseKind.OVERLOAD in {each.kind for each in causes(both)}
    unknown = case(WAITED, replace(SELF, rate=3.0), replace(QUIET, rate=None), load=2.0)
    assert CauseKind.OVERLOAD in {each.kind for each in causes(unknown)}, "of the other too little is known to say"


def test_who_grows_as_all_do_is_no_surge() -> None:
    alone = case(WAITED, replace(SELF, rate=2.5), replace(QUIET, rate=0.9), culprits={VICTIM: 0.8}, load=2.0)
    assert causes(alone)[0].kind == CauseKind.OWN_SURGE
    alike = case(WAITED, replace(SELF, rate=2.5), replace(QUIET, rate=2.4), culprits={VICTIM: 0.8}, load=2.4)
    assert CauseKind.OWN_SURGE not in {each.kind for each in causes(alike)}


def test_prompts_that_the_cache_lost_are_not_the_engines_doing() -> None:
    """Long prefills make every step look 1.3 times as long; where nothing was lost, engines are what is left."""
    looks = tuple([replace(each, pace_during=1.3) for each in SLOWER])
    waited = {Part.ENGINE_QUEUE: 5.0, Part.OTHERS_PREFILL: 1.5, Part.DECODE: 0.5}
    lost = replace(SELF, hits=1900.0, hits_before=4070.0)
    for signal, kind in ((lost, CauseKind.CACHE_MISSES), (SELF, CauseKind.SLOWER_ENGINES)):
        assert causes(case(waited, signal, replicas=looks))[0].kind is kind


def test_hits_are_counted_from_the_change_on() -> None:
    """Who was there when the change came still found its prompt in the cache."""
    rows = [replace(record(n, 5.0 * n), prompt_tokens=3000, cached_tokens=2000 if n < 80 else 0) for n in range(120)]
    visits = visits_of(rows)
    times = np.arange(40), np.arange(40, 120), (200.0, 400.0)
    (found,) = signals(visits, time_parts(visits, {}), *times, since=float(visits.arrived[80])).tenants
    assert (found.hits_before, found.hits) == (2000.0, 0.0)


def test_who_alone_sends_more_surges_though_it_waits_for_others_too() -> None:
    others = [replace(QUIET, name=name) for name in (NEIGHBOUR, "crane")]
    grown = replace(SELF, num_during=300, rate=3.0, prompt_rate=3.0)
    shares = {VICTIM: 0.3, NEIGHBOUR: 0.4, "crane": 0.3}
    assert causes(case(WAITED, grown, *others, culprits=shares, load=2.0))[0].kind is CauseKind.OWN_SURGE


def test_fuller_batches_are_the_load_and_not_the_engines() -> None:
    """Steps take what the model says of so many sequences, as before; were they slower, decoding would be theirs."""
    decoding = {Part.DECODE: 3.0, Part.OTHERS_PREFILL: 0.5}
    grown = [replace(each, rate=2.0, prompt_rate=2.0) for each in (QUIET, SELF)]
    as_before = tuple([replace(each, pace_during=1.0) for each in SLOWER])
    for paces, kind in ((as_before, CauseKind.OVERLOAD), (SLOWER, CauseKind.SLOWER_ENGINES)):
        found = causes(case(decoding, *grown, replicas=paces, load=2.0, culprits={VICTIM: 0.4}))
        assert kind in {each.kind for each in found}
        assert (CauseKind.OVERLOAD in {each.kind for each in found}) is (paces is as_before)


def test_a_neighbour_that_sends_as_all_do_is_not_accused() -> None:
    calm = replace(SELF, prompt_rate=1.4)
    for grown, named in ((1.4, False), (3.0, True)):
        neighbour = replace(QUIET, prompt_rate=grown, rate=grown)
        found = causes(case(WAITED, calm, neighbour, culprits={NEIGHBOUR: 0.9}))
        assert (CauseKind.NEIGHBOUR_SURGE in {each.kind for each in found}) is named


def test_where_nothing_is_known_of_before_only_who_sends_most_may_surge() -> None:
    for num, named in ((100, False), (300, True)):
        unknown = replace(QUIET, num_during=num, rate=None, prompt=None, prompt_rate=None)
        found = causes(case(WAITED, replace(SELF, num_during=200), unknown, culprits={NEIGHBOUR: 0.9}))
        assert (CauseKind.NEIGHBOUR_SURGE in {each.kind for each in found}) is named


def test_answers_of_all_that_fill_the_blocks_are_no_tenants_own() -> None:
    waited = {Part.KV_PRESSURE: 1.7, Part.DECODE: 1.0}
    longer = replace(SELF, output=1.9)
    alike = case(waited, longer, replace(QUIET, output=1.9), mix=3.0, replicas=())
    assert causes(alike)[0].kind is CauseKind.KV_EXHAUSTION
    alone = case(waited, longer, QUIET, mix=3.0, replicas=())
    assert causes(alone)[0].kind is CauseKind.OWN_LONGER_ANSWERS


def test_misses_close_together_are_a_spell_and_scattered_ones_are_none() -> None:
    at = np.arange(360.0)
    assert list(spell(at, (at >= 200) & (at < 300))) == pytest.approx([205, 294], abs=1)
    assert spell(at, at % 40 == 0) == (None, None)
    assert spell(at, (at >= 10) & (at < 60)) == (None, None), "too little of before to compare with"
    assert spell(at, at == 200) == (None, None)


def test_that_the_longest_are_late_first_explains_nothing() -> None:
    more = case({Part.OTHERS_PREFILL: 2.0}, mix=3.0).excess
    assert _without_selection(more, SELF).mix_share == 0.0
    assert _without_selection(more, replace(SELF, output=1.9)).mix_share == more.mix_share
    hardly = case({Part.OTHERS_PREFILL: 0.1}, mix=3.0).excess
    assert _without_selection(hardly, SELF) is hardly


def test_lengths_that_differ_by_chance_are_the_same() -> None:
    few, many = (signals_of_lengths(num) for num in (12, 1200))
    assert few.prompt == 1.0
    assert many.prompt == pytest.approx(1.4, abs=0.1)


def signals_of_lengths(num: int) -> TenantSignal:
    """As many before as during, of lengths that vary by their mean; those during are 1.4 times as long."""
    lengths = np.random.default_rng(3).permutation(np.concatenate((np.geomspace(50, 5000, num // 2),) * 2))
    rows = [
        replace(record(n, 1.0 * n), prompt_tokens=int(lengths[n % num] * (1.0 if n < num else 1.4)))
        for n in range(2 * num)
    ]
    visits = visits_of(rows)
    times = np.arange(num), np.arange(num, 2 * num), (float(num), float(num))
    return signals(visits, time_parts(visits, {}), *times).tenants[0]


def test_a_replica_that_is_as_fast_as_it_was_is_not_slow_beside_one_that_hardly_runs() -> None:
    lost = ReplicaSignal("http://r2", 20, 100, 0.8, 1.0, 0)
    for pace, named in ((1.2, False), (2.0, True)):
        left = ReplicaSignal("http://r1", 200, 100, pace, 1.0, 0)
        found = causes(case(WAITED, replicas=(left, lost), by_replica={"http://r1": 1.0}))
        assert (CauseKind.SLOW_REPLICA in {each.kind for each in found}) is named


def test_every_cause_can_be_named() -> None:
    found = every_cause()
    assert {each.kind for each in found} == set(CauseKind)
    assert {each.subject for each in found if "neighbour" in each.kind} == {NEIGHBOUR}

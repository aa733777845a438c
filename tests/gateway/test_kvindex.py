"""What engines hold, by what they say: equal to a model whatever they do, and never more than there is."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.kvfollow import Follower
from plimsoll.gateway.kvindex import EXPECTED_FOR, EngineBlocks, Holdings
from plimsoll.gateway.kvpool import PoolCaches
from plimsoll.gateway.kvwire import Stored, decode
from tests.gateway.kvmessages import SIZE, TinyCache, batch, pool_of

PROMPTS = st.lists(st.integers(0, 1), min_size=SIZE, max_size=5 * SIZE).map(tuple)  # few tokens: they share beginnings


def caches_of(*engines: TinyCache, **rules: Any) -> tuple[PoolCaches, list[Follower]]:
    caches = PoolCaches(
        pool_of(*[f"http://r{number}" for number in range(len(engines))], **rules), rules.get("ranks", 1)
    )
    return caches, [caches.followers[replica][0] for replica in caches.replicas]


def held(caches: PoolCaches, prompt: tuple[int, ...], adapter: str = "", at: float = 0.0) -> list[int]:
    match = caches.match(array("I", prompt), adapter, at)
    return [match.tokens(replica) for replica in caches.replicas]


@given(st.data(), st.booleans())
def test_it_equals_a_model(data: st.DataObject, maps: bool) -> None:
    engines = [TinyCache(1), TinyCache(2, as_bytes=True)]
    caches, followers = caches_of(*engines)
    for sequence in range(data.draw(st.integers(1, 25))):
        events = []
        engine = engines[data.draw(st.integers(0, 1))]
        for _ in range(data.draw(st.integers(1, 3))):
            kind = data.draw(st.sampled_from(["store", "store", "remove", "clear"]))
            prompt = data.draw(PROMPTS)
            if kind == "store":
                known = engine.leading((*prompt, 0)) // SIZE
                events.append(engine.store(prompt, data.draw(st.integers(0, known))))
            elif kind == "remove" and engine.held:
                events.append(engine.remove(data.draw(st.sampled_from(sorted(engine.held)))))
            elif kind == "clear" and data.draw(st.integers(0, 4)) == 0:
                events.append(engine.clear())
        follower = followers[engines.index(engine)]
        follower.take(follower.due, batch(*events, ts=float(sequence), maps=maps))
        prompt = data.draw(PROMPTS)
        assert held(caches, prompt) == [each.leading(prompt) for each in engines]
    for engine, follower in zip(engines, followers, strict=True):
        assert follower.blocks is not None
        assert len(follower.blocks) == len(engine.held)
        follower.broke()
    assert caches.holdings.masks == {}, "nothing is left of what is not held"


def test_the_block_in_which_a_prompt_ends_is_computed_again() -> None:
    engine = TinyCache(1)
    caches, (follower,) = caches_of(engine)
    follower.take(0, batch(engine.store((1,) * 8)))
    assert held(caches, (1,) * 8) == [4], "vLLM computes at least the last token"
    assert held(caches, (1,) * 9) == [8]
    assert held(caches, (1,)) == held(caches, ()) == [0]


def test_adapters_and_salts_are_apart() -> None:
    engine = TinyCache(1)
    caches, (follower,) = caches_of(engine)
    prompt = (7,) * 9
    follower.take(0, batch(engine.store(prompt, lora_name="haiku", lora_id=1, extra_keys=[["haiku"], ["haiku"]])))
    assert (held(caches, prompt), held(caches, prompt, "haiku")) == ([0], [8])
    salted = TinyCache(2)
    caches, (follower,) = caches_of(salted)
    follower.take(0, batch(salted.store(prompt, extra_keys=[["secret"], None])))
    assert held(caches, prompt) == [0]
    numbered = TinyCache(3)  # older versions tell the adapter's number alone, which clients do not use
    caches, (follower,) = caches_of(numbered)
    follower.take(0, batch(numbered.store(prompt, lora_id=1)))
    assert (held(caches, prompt), held(caches, prompt, "1")) == ([0], [0])


def test_a_block_on_two_media_is_held_until_both_have_dropped_it() -> None:
    engine = TinyCache(1)
    caches, (follower,) = caches_of(engine)
    prompt = (3,) * 9
    follower.take(0, batch(engine.store(prompt)))
    names = [engine.name(prompt[:4]), engine.name(prompt[:8])]
    follower.take(1, batch(["BlockStored", names, None, [], 0, None, "CPU", None]))  # as connectors tell it
    follower.take(2, batch(["BlockRemoved", names, "GPU"]))
    assert held(caches, prompt) == [8]
    follower.take(3, batch(["BlockRemoved", names, "CPU"]))
    assert held(caches, prompt) == [0]


def test_layers_that_keep_no_whole_prefix_are_passed_over() -> None:
    engine = TinyCache(1)
    caches, (follower,) = caches_of(engine)
    prompt = (3,) * 9
    window = engine.store(prompt, group_idx=0, kv_cache_spec_kind="sliding_window")
    full = TinyCache(1).store(prompt, group_idx=1, kv_cache_spec_kind="full_attention")
    follower.take(0, batch(window))
    assert held(caches, prompt) == [0]
    follower.take(1, batch(full))
    names = [engine.name(prompt[:4]), engine.name(prompt[:8])]
    follower.take(2, batch(["BlockRemoved", names, "GPU", 0]))
    assert held(caches, prompt) == [8], "the window's copies went, the others stay"
    follower.take(3, batch(["BlockRemoved", names[1:], "GPU", 1]))
    assert held(caches, prompt) == [4]


@pytest.mark.parametrize(
    "event",
    [
        ["BlockStored", [1], 99, [1, 2, 3, 4], 4],  # nobody knows what comes before it
        ["BlockStored", [1], None, [[1, 2], [2, 3], 3, 4], 4],  # pairs of tokens
        ["BlockStored", [1], None, [-1, 2, 3, 4], 4],
        ["BlockStored", [1], None, [1, 2, 3], 4],
        ["BlockStored", [1], None, [1, 2, 3, 4], "4"],
        ["BlockStored", [1], None, None, None],
    ],
)
def test_what_cannot_be_placed_is_left_out(event: list[Any]) -> None:
    caches, (follower,) = caches_of(TinyCache(1))
    follower.take(0, batch(event))
    follower.take(1, batch(["BlockRemoved", [1], None]))
    assert caches.holdings.masks == {}
    assert held(caches, (1, 2, 3, 4, 5)) == [0]


def test_its_memory_is_bounded_and_then_it_is_not_whole() -> None:
    blocks = EngineBlocks(Holdings(), 1, most=2)
    follower = Follower(blocks)
    engine = TinyCache(1)
    follower.take(0, batch(engine.store((1,) * 8)))
    told = [(follower.whole, len(blocks))]
    for number, event in enumerate([engine.store((2,) * 8), engine.clear()], 1):
        follower.take(number, batch(event))
        told.append((follower.whole, len(blocks)))
    assert told == [(True, 2), (False, 2), (True, 0)]


def test_what_was_sent_counts_until_events_say_more() -> None:
    engines = [TinyCache(1), TinyCache(2)]
    caches, followers = caches_of(*engines)
    prompt = tuple(range(17))
    followers[0].take(0, batch(engines[0].store((9,) * 4)))
    followers[1].take(0, batch(engines[1].store(prompt[:8])))
    match = caches.match(array("I", prompt), "", 10.0)
    assert [match.tokens(replica) for replica in caches.replicas] == [0, 8]
    match.sent("http://r0")
    assert held(caches, prompt, at=10.5) == [16, 8]
    assert held(caches, prompt, at=10.0 + EXPECTED_FOR + 0.5) == [16, 8]
    assert held(caches, prompt, at=10.0 + 2 * EXPECTED_FOR + 1.0) == [0, 8]
    match.sent("http://elsewhere")


def test_what_was_stored_and_dropped_is_expected_no_longer() -> None:
    engine = TinyCache(1)
    caches, (follower,) = caches_of(engine)
    prompt = tuple(range(9))
    follower.take(0, batch(engine.store((9,) * 4)))
    caches.match(array("I", prompt), "", 10.0).sent("http://r0")
    follower.take(1, batch(engine.store(prompt)))
    assert held(caches, prompt, at=10.1) == [8]
    follower.take(2, batch(engine.remove(prompt[:8]), engine.remove(prompt[:4])))
    assert held(caches, prompt, at=10.2) == [0]


def test_an_engine_that_has_said_nothing_is_thought_to_be_as_the_others() -> None:
    engine = TinyCache(1)
    caches, followers = caches_of(engine, TinyCache(2))
    prompt = tuple(range(17))
    caches.match(array("I", prompt), "", 0.0).sent("http://r1")
    assert held(caches, prompt) == [0, 0], "nobody has said how long blocks are"
    followers[0].take(0, batch(engine.store((9,) * 4)))
    caches.match(array("I", prompt), "", 0.0).sent("http://r1")
    assert held(caches, prompt) == [0, 16]


def test_of_several_ranks_the_least_counts() -> None:
    caches = PoolCaches(pool_of("http://r0", ranks=2), 2)
    first, second = caches.followers["http://r0"]
    engines = [TinyCache(1), TinyCache(2)]
    prompt = (5,) * 13
    first.take(0, batch(engines[0].store(prompt)))
    assert held(caches, prompt) == [0]
    second.take(0, batch(engines[1].store(prompt[:8])))
    match = caches.match(array("I", prompt), "", 0.0)
    assert match.tokens("http://r0") == 8
    assert match.whole("http://r0")
    match.sent("http://r0")
    assert held(caches, prompt) == [8], "which rank it went to is not known"


def test_both_forms_are_read_alike() -> None:
    event = TinyCache(1).store((1,) * 8, lora_name="haiku", extra_keys=[["haiku"], ["haiku"]], group_idx=0)
    told = [decode(batch(event, maps=maps)).events[0] for maps in (False, True)]
    assert all(isinstance(each, Stored) for each in told)
    fields = Stored.__struct_fields__
    assert [getattr(told[0], name) for name in fields] == [getattr(told[1], name) for name in fields]

"""Messages that are lost, come twice or begin anew: what is known of an engine is whole, or said not to be."""

from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.kvfollow import Follower, Replay
from plimsoll.gateway.kvindex import EngineBlocks, Holdings
from plimsoll.gateway.kvpool import PoolCaches
from tests.gateway.kvmessages import CLEARED, SIZE, TinyCache, batch, pool_of

PROMPT = (1,) * 8
PROMPTS = st.lists(st.integers(0, 1), min_size=SIZE, max_size=3 * SIZE).map(tuple)


class Wire:
    """An engine that numbers its messages and keeps the last `kept` of them."""

    def __init__(self, kept: int = 1000) -> None:
        self.engine = TinyCache(1)
        self.sent: list[tuple[int, bytes]] = []
        self.kept = kept
        self.asked: list[int] = []

    def send(self, *events: list[Any]) -> tuple[int, bytes]:
        message = (len(self.sent), batch(*events, ts=float(len(self.sent))))
        self.sent.append(message)
        return message

    def replay(self, first: int) -> list[tuple[int, bytes]] | None:
        self.asked.append(first)
        return [message for message in self.sent[-self.kept :] if message[0] >= first] if self.kept else None


def follower() -> Follower:
    return Follower(EngineBlocks(Holdings(), 1))


def state(of: Follower) -> tuple[bool, int]:
    """Whether it is known whole, and blocks."""
    return of.whole, num_blocks(of)


def num_blocks(of: Follower) -> int:
    assert of.blocks is not None
    return len(of.blocks)


def test_from_its_first_message_on_all_is_known() -> None:
    wire, told = Wire(), follower()
    assert state(told) == (False, 0), "nothing was heard yet: it may have been running for long"
    told.take(*wire.send(wire.engine.store(PROMPT)))
    assert state(told) == (True, 2)


def test_who_joins_late_asks_for_what_was_before() -> None:
    wire, told = Wire(), follower()
    wire.send(wire.engine.store(PROMPT))
    message = wire.send(wire.engine.store((2,) * 4))
    told.take(*message, wire.replay)
    assert (told.whole, num_blocks(told), wire.asked, told.num_lost) == (True, 3, [0], 0)


@pytest.mark.parametrize("kept", [0, 1])
def test_without_all_of_it_what_is_known_is_a_part(kept: int) -> None:
    wire, told = Wire(kept), follower()
    wire.send(wire.engine.store(PROMPT))
    wire.send(wire.engine.store((2,) * 4))
    told.take(*wire.send(wire.engine.store((3,) * 4)), wire.replay)
    assert state(told) == (False, 1), "only what came after the loss is sure"
    told.take(*wire.send(CLEARED))
    assert state(told) == (True, 0), "nothing is held: that is all"


def test_a_gap_is_filled_or_all_is_forgotten() -> None:
    wire, told = Wire(), follower()
    told.take(*wire.send(wire.engine.store(PROMPT)))
    wire.send(wire.engine.remove(PROMPT))
    message = wire.send(wire.engine.store((2,) * 4))
    told.take(*message, wire.replay)
    assert (told.whole, num_blocks(told), wire.asked) == (True, 2, [1])
    wire.send(wire.engine.remove((2,) * 4))
    told.take(*wire.send(wire.engine.store((3,) * 4)))  # now nobody can be asked
    assert (told.whole, num_blocks(told), told.num_lost) == (False, 1, 1)


def test_what_replay_brought_may_still_come_by_itself() -> None:
    wire, told = Wire(), follower()
    early = [wire.send(wire.engine.store((number,) * 4)) for number in range(3)]
    told.connected(wire.replay)
    assert (told.whole, num_blocks(told)) == (True, 3)
    for message in early:
        assert not told.take(*message, wire.replay)
    told.take(*wire.send(wire.engine.store((9,) * 4)))
    assert (told.whole, num_blocks(told), wire.asked) == (True, 4, [0])


def test_an_engine_that_has_told_nothing_holds_nothing() -> None:
    wire, told = Wire(), follower()
    told.connected(wire.replay)
    assert told.whole
    other = follower()
    other.connected(Wire(kept=0).replay)
    assert not other.whole, "it could not be asked"


def test_a_new_process_holds_nothing_of_what_the_old_one_did() -> None:
    wire, told = Wire(), follower()
    for number in range(3):
        told.take(*wire.send(wire.engine.store((number,) * 4)))
    again = Wire()
    again.send(again.engine.store(PROMPT))
    message = (1, batch(again.engine.store((7,) * 4), ts=100.0))
    again.sent.append(message)
    assert told.take(*message, again.replay), "its cache was empty in between"
    assert (told.whole, num_blocks(told), again.asked) == (True, 3, [0])


def test_after_a_broken_connection_nothing_is_taken_for_granted() -> None:
    wire, told = Wire(), follower()
    told.take(*wire.send(wire.engine.store(PROMPT)))
    told.broke()
    assert (told.whole, num_blocks(told)) == (False, 0)
    other = Wire()  # a new process that has come just as far
    for number in range(2):
        other.send(other.engine.store((number,) * 4))
    told.take(*other.sent[1], other.replay)
    assert (told.whole, num_blocks(told), other.asked) == (True, 2, [0])
    told.broke()
    told.take(*other.send(other.engine.store((8,) * 4)))
    assert (told.whole, num_blocks(told)) == (False, 1)


def test_a_message_that_cannot_be_read_is_lost_and_not_asked_for() -> None:
    wire, told = Wire(), follower()
    told.take(*wire.send(wire.engine.store(PROMPT)))
    wire.sent.append((1, b"\xc1"))
    with pytest.raises(msgspec.MsgspecError):
        told.take(*wire.sent[1], wire.replay)
    assert state(told) == (False, 0), "it may have told of removals"
    told.take(*wire.send(wire.engine.store((2,) * 4)), wire.replay)
    assert (*state(told), wire.asked, told.num_lost) == (False, 1, [], 1)


def test_who_follows_clears_alone_keeps_nothing() -> None:
    told = Follower(None)
    assert not told.take(5, batch(TinyCache(1).store(PROMPT)))
    assert told.take(7, batch(CLEARED))
    assert told.take(0, batch(TinyCache(1).store(PROMPT)))
    assert not told.whole


@given(st.data())
def test_whatever_is_lost_it_never_says_more_than_is_held(data: st.DataObject) -> None:
    """Random losses, replays of a bounded buffer, breaks and restarts: whole means equal, else at most."""
    wire = Wire(kept=data.draw(st.sampled_from([0, 2, 1000])))
    caches = PoolCaches(pool_of("http://r0"), 1)
    (told,) = caches.followers["http://r0"]
    replay: Replay = wire.replay
    at = 0.0
    for _ in range(data.draw(st.integers(1, 20))):
        at += 1.0
        if data.draw(st.integers(0, 9)) == 0:
            wire = Wire(kept=wire.kept)
            replay = wire.replay
            told.broke()
        prompt = data.draw(PROMPTS)
        engine = wire.engine
        removes: bool = data.draw(st.booleans())
        if engine.held and removes:
            event = engine.remove(data.draw(st.sampled_from(sorted(engine.held))))
        else:
            event = engine.store(prompt, engine.leading((*prompt, 0)) // SIZE)
        message = (len(wire.sent), batch(event, ts=at))
        wire.sent.append(message)
        if data.draw(st.integers(0, 3)):
            told.take(*message, replay)
            for probe in {prompt, *engine.held}:
                match = caches.match(array("I", (*probe, 0)), "", at)
                known, there = match.tokens("http://r0"), engine.leading((*probe, 0))
                assert known == there if match.whole("http://r0") else known <= there

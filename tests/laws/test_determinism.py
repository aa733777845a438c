"""Law 3, the governor's part: the same events give the same decisions, byte for byte; a recording holds all of them."""

from contextlib import suppress

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.engine import profiles
from plimsoll.errors import IllegalTransition
from plimsoll.governor.decisions import Decision, Dispatch
from plimsoll.governor.events import Event, PolicyChanged
from plimsoll.governor.governor import Governor
from plimsoll.governor.recording import decode, encode
from plimsoll.policy.policy import Pool
from tests.laws.histories import Traffic, World, policy_of


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 32), rate=st.sampled_from((5.0, 50.0)))
def test_same_events_same_bytes(seed: int, rate: float) -> None:
    world = World(Governor(policy_of()), Traffic(rate=rate), seed)
    history = [(event, msgspec.msgpack.encode(decisions)) for event, decisions in world.run(400)]
    again = Governor(policy_of())
    for event, told in history:
        assert msgspec.msgpack.encode(again.handle(event)) == told
    assert msgspec.json.encode(again.snapshot(world.at)) == msgspec.json.encode(world.governor.snapshot(world.at))


def test_a_recording_brings_the_profiles_of_a_new_policy() -> None:
    """Events as bytes are all that a replay needs, also after a policy that names a profile never seen before."""
    name = "h100-llama70b-tp4"
    pools = (Pool("chat", "m", "vllm", ("http://r0", "http://r1"), profile=name),)
    world = World(Governor(policy_of()), Traffic(rate=30.0, kv_blocks=None), 5)
    history = list(world.run(200))
    changed = PolicyChanged(world.at, policy_of(pools=pools, version="v2"), {name: profiles.load(name)})
    history.append((changed, world.tell(changed)))
    history += world.run(400)
    events = [decode(encode(event)) for event, _ in history]
    assert events == [event for event, _ in history]
    again = Governor(policy_of())
    for event, (_, decisions) in zip(events, history, strict=True):
        assert again.handle(event) == decisions
    assert again.snapshot(world.at) == world.governor.snapshot(world.at)
    without = Governor(policy_of())
    shortened = [PolicyChanged(e.at, e.policy) if isinstance(e, PolicyChanged) else e for e in events]
    told = [decisions for _, decisions in history]
    # It takes another way, and may meet what cannot be on it.
    assert _sent(_until_it_breaks(without, shortened)) != _sent(told)


def _sent(told: list[list[Decision]]) -> list[Decision]:
    return [one for decisions in told for one in decisions if isinstance(one, Dispatch)]


def _until_it_breaks(governor: Governor, events: list[Event]) -> list[list[Decision]]:
    told: list[list[Decision]] = []
    with suppress(IllegalTransition):
        told.extend(map(governor.handle, events))
    return told

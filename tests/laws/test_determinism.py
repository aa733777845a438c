"""Law 3, the governor's part: the same events give the same decisions, byte for byte."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.governor import Governor
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

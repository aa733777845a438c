"""Law 4: one history through the live driver and through the simulator gives equal decisions."""

from collections import Counter
from fractions import Fraction
from math import inf, sqrt
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.engine import profiles
from plimsoll.governor.decisions import Decision, Dispatch, MoveStep, Reassign, RunPlugins, Settle, WakeAt
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Adaptive, Degradation, Policy, Trigger
from plimsoll.policy.presets import preset
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.simulation import Simulation
from tests.parity.liveworld import START, LiveWorld, Wanted, digest_of
from tests.sim.world import POLICY

SMALL = msgspec.structs.replace(
    profiles.load("rtxpro6000-llama8b"), name="small", num_blocks=600, max_num_seqs=6, block_size=16
)
PROFILES = {"small": SMALL}
KEYED = msgspec.structs.replace(
    POLICY,
    tenants=tuple(msgspec.structs.replace(t, keys=(digest_of(t.name),)) for t in POLICY.tenants),
    tiers=tuple(msgspec.structs.replace(tier, queue_timeout=6.0) for tier in POLICY.tiers),
    pools=tuple(msgspec.structs.replace(pool, profile="small") for pool in POLICY.pools),
)

PLUGGED = msgspec.structs.replace(
    KEYED,
    plugins=(Plugin("guard", simulated=0.0313), Plugin("topic", core=False, simulated=0.0717)),
    degradation=Degradation(Trigger(saturation=Fraction(9, 10), for_=1.0), ("drop_plugins",)),
)

(POOL,) = KEYED.pools
CLASSES = TierClasses(("fast", "slow"), ("fast", "slow"), ("slow",))
CLASSED = msgspec.structs.replace(
    KEYED,
    tiers=tuple(msgspec.structs.replace(tier, classes=CLASSES) for tier in KEYED.tiers),
    pools=tuple(
        msgspec.structs.replace(POOL, name=name, replicas=(url,), sla_class=sla_class)
        for name, url, sla_class in zip(("chat", "more"), POOL.replicas, ("slow", "fast"), strict=True)
    ),
)

wanted = st.builds(
    Wanted,
    at=st.integers(0, 400).map(lambda ms: ms / 1000.0),  # s after the one before
    tenant=st.sampled_from([tenant.name for tenant in POLICY.tenants]),
    shared=st.sampled_from([0, 0, 2048, 4096]),
    own=st.integers(8, 6000),
    output=st.integers(1, 150),
    max_tokens=st.sampled_from([20, 200]),
    family=st.integers(1, 2),
    patience=st.sampled_from([inf, inf, inf, 0.4, 2.5]),
    streaming=st.sampled_from([True, True, False]),
)


def live(policy: Policy, history: list[Wanted]) -> LiveWorld:
    world = LiveWorld(policy, PROFILES, history)
    world.run()
    return world


def simulated(policy: Policy, world: LiveWorld, history: list[Wanted]) -> list[tuple[float, Decision]]:
    """The same clients, as the governor was told of them, on the virtual clock."""
    arrivals = [
        Arrival(
            at=event.at - START,
            tenant=event.tenant,
            model=event.model,
            prompt_tokens=event.prompt_tokens,
            output_tokens=client.output,
            max_output_tokens=event.max_output_tokens,
            hashes=event.prefix_hashes,
            hash_tokens=event.prefix_block_tokens,
            streaming=event.streaming,
            patience=client.patience,
        )
        for event, client in zip(world.arrivals, history, strict=True)
    ]
    seen: list[tuple[float, Decision]] = []
    Simulation(
        policy, PROFILES, arrivals, lambda _: None, START, seen=lambda at, decision: seen.append((at, decision))
    ).run()
    return seen


def told(decision: Decision) -> Any:
    """A decision as plain values; ids of traces are the hands' own."""
    if isinstance(decision, Settle):
        # a trace is named by dice of the live hands; of a text that repeats itself a simulation knows nothing
        record = msgspec.structs.replace(decision.record, trace_id="", prompt_entropy=None)
        return ["settle", msgspec.to_builtins(record), msgspec.to_builtins(decision.entries)]
    return [type(decision).__name__, msgspec.to_builtins(decision)]


def close(left: Any, right: Any) -> bool:
    """Equal, but for floats, which may differ by a microsecond."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or abs(left - right) <= 1e-6
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    return bool(left == right)


def same(policy: Policy, history: list[Wanted]) -> list[Decision]:
    at = 0.0
    for number, client in enumerate(history):
        # No two things at one instant: like replicas that start like jobs together would end their steps together,
        # and which is told first is then a matter of rounding.
        at += client.at + 0.000137 * sqrt(number + 2)
        client.at = at
    world = live(policy, history)
    ours = [(at, decision) for at, decision in world.recorder.decisions if not isinstance(decision, WakeAt)]
    theirs = [(at, d) for at, d in simulated(policy, world, history) if not isinstance(d, WakeAt)]
    for (at, decision), (their_at, theirs_too) in zip(ours, theirs, strict=False):
        assert close([at, *told(decision)], [their_at, *told(theirs_too)])
    assert len(ours) == len(theirs)
    return [decision for _, decision in ours]


@settings(max_examples=20, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25), st.sampled_from(["default", "fcfs"]))
def test_two_clocks_one_answer(history: list[Wanted], rules: str) -> None:
    same(preset(KEYED, rules), history)


def test_the_history_matters() -> None:
    """A fixed history in which requests wait, outgrow, expire and leave: the law is not held by idleness."""
    history = [
        Wanted(0.02, ("acme", "noisy", "eel")[i % 3], 2048, 3000, 140, 200, i % 2 + 1, 2.5 if i % 7 == 3 else inf, True)
        for i in range(60)
    ]
    decisions = same(KEYED, history)
    kinds = {type(decision).__name__ for decision in decisions}
    assert kinds >= {"Enqueue", "Dispatch", "Settle", "Expire"}
    outcomes = {decision.record.outcome.value for decision in decisions if isinstance(decision, Settle)}
    assert outcomes >= {"completed", "expired", "aborted"}
    assert len({decision.replica for decision in decisions if isinstance(decision, Dispatch)}) == 2


@settings(max_examples=10, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25))
def test_two_clocks_with_plugins(history: list[Wanted]) -> None:
    decisions = same(PLUGGED, history)
    assert sum(isinstance(decision, RunPlugins) for decision in decisions) == len(history)


def test_plugins_that_the_ladder_leaves_out_on_both_clocks() -> None:
    history = [
        Wanted(0.1, ("acme", "noisy", "eel")[i % 3], 2048, 3000, 140, 200, 1, 0.05 if i % 9 == 4 else inf, True)
        for i in range(120)
    ]
    asked = {decision.plugins for decision in same(PLUGGED, history) if isinstance(decision, RunPlugins)}
    assert asked == {("guard", "topic"), ("guard",)}


@settings(max_examples=10, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25))
def test_two_clocks_with_classes_of_pools(history: list[Wanted]) -> None:
    same(CLASSED, history)


def test_both_classes_are_used_on_both_clocks() -> None:
    history = [Wanted(0.05, ("acme", "noisy", "eel")[i % 3], 2048, 3000, 140, 200, 1, inf, True) for i in range(40)]
    sent = Counter(decision.pool for decision in same(CLASSED, history) if isinstance(decision, Dispatch))
    assert sent.keys() == {"chat", "more"}


def test_a_difference_would_be_seen() -> None:
    """The comparison itself: another decision, another float."""
    assert close([1.0, "a", {"x": 2}], [1.0 + 1e-9, "a", {"x": 2}])
    assert not close([1.0], [1.1])
    assert not close({"x": 1}, {"x": 2})
    with pytest.raises(ValueError, match="shorter"):
        list(zip([1], [], strict=True))


def test_pools_that_share_replicas_lend_them_alike() -> None:
    """Long prompts come when the short ones have gone, and a replica with them: its moves are decisions like others."""
    (pool,) = KEYED.pools
    mixed = msgspec.structs.replace(pool, name="mixed", replicas=("http://r1", "http://r2"), max_prompt_tokens=600)
    rules = Adaptive("mixed", 2, dwell=2.0)
    long = msgspec.structs.replace(
        pool, name="long", replicas=("http://r3",), min_prompt_tokens=600, max_prompt_tokens=None, adaptive=rules
    )
    policy = msgspec.structs.replace(KEYED, pools=(mixed, long))
    history = [
        Wanted(0.05, ("acme", "noisy", "eel")[i % 3], 0, 6000 if 20 < i < 100 else 400, 140, 200, 1, inf, True)
        for i in range(160)
    ]
    moves = [decision for decision in same(policy, history) if isinstance(decision, Reassign)]
    assert {move.to_pool for move in moves} == {"long", "mixed"}
    assert {move.step for move in moves} >= {MoveStep.DRAINING, MoveStep.MOVED}

"""Law 4: one history through the live driver and through the simulator gives equal decisions."""

from collections import Counter
from fractions import Fraction
from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Dispatch, MoveStep, Reassign, RunPlugins, Settle
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Adaptive, Degradation, Trigger
from plimsoll.policy.presets import preset
from tests.parity.histories import KEYED, POOL, close, same, wanted
from tests.parity.liveexchange import Wanted

PLUGGED = msgspec.structs.replace(
    KEYED,
    plugins=(Plugin("guard", simulated=0.0313), Plugin("topic", core=False, simulated=0.0717)),
    degradation=Degradation(Trigger(saturation=Fraction(9, 10), for_=1.0), ("drop_plugins",)),
)

CLASSES = TierClasses(("fast", "slow"), ("fast", "slow"), ("slow",))
CLASSED = msgspec.structs.replace(
    KEYED,
    tiers=tuple(msgspec.structs.replace(tier, classes=CLASSES) for tier in KEYED.tiers),
    pools=tuple(
        msgspec.structs.replace(POOL, name=name, replicas=(url,), sla_class=sla_class)
        for name, url, sla_class in zip(("chat", "more"), POOL.replicas, ("slow", "fast"), strict=True)
    ),
)


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

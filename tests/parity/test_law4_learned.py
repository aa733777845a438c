"""Law 4 where a log has taught what step times do not know: trees decide alike on both clocks."""

from math import inf

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.engine.learned import FEATURES, VERSION, HeldOut, LearnedModel, Trees, with_model
from plimsoll.governor.decisions import Dispatch
from plimsoll.policy.policy import RoutingRule
from tests.parity.histories import KEYED, PROFILES, SMALL, Around, same, wanted
from tests.parity.liveexchange import Wanted

TREES = Trees((0, 2), (3, 8, 2), (1.5, 2.5, 700.0), (1, -2, -4), (-1, -3, -5), (0.9, -0.7, 0.3, 0.4, -0.6))
UNSEEN = HeldOut(0.1, 0.2, 0.0, 0.01, 0.01)
MODEL = LearnedModel(VERSION, "small", "a test", FEATURES, TREES, TREES, UNSEEN, UNSEEN)
AROUND = Around(profiles=PROFILES | {"small trees.json": with_model(SMALL, MODEL, "trees.json")})
PREDICTED = msgspec.structs.replace(
    KEYED, scheduling=msgspec.structs.replace(KEYED.scheduling, routing=RoutingRule.PREDICTED)
)
LEARNED = msgspec.structs.replace(
    PREDICTED, pools=tuple(msgspec.structs.replace(pool, predictor="trees.json") for pool in PREDICTED.pools)
)


@settings(max_examples=10, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25))
def test_two_clocks_with_what_a_log_taught(history: list[Wanted]) -> None:
    same(LEARNED, history, AROUND)


def test_what_a_log_taught_decides_on_both_clocks() -> None:
    """Trees that send elsewhere than step times alone do."""
    history = [
        Wanted(0.07, ("acme", "noisy", "eel")[i % 3], 0, 1000 + 937 * i % 3000, 60, 200, 1, inf, True)
        for i in range(60)
    ]
    with_trees, without = (
        [decision.replica for decision in same(policy, history, AROUND) if isinstance(decision, Dispatch)]
        for policy in (LEARNED, PREDICTED)
    )
    assert with_trees != without

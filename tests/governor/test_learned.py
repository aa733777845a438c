"""Routing by what a log taught: trees answer as LightGBM does, decide the same each time, and predict better."""

import numpy as np
import pytest

from plimsoll.cli.boosting import booster, grow, trees_of
from plimsoll.engine.learned import FEATURES, Trees
from plimsoll.governor.events import PolicyChanged, ReplicaReport
from plimsoll.governor.governor import Governor
from plimsoll.governor.learned import UNTOLD, Forest, Forests, Learned, facts_at, told
from tests.sim.learnt import BELIEVED, POLICY, errors, learned_profile, log, taught
from tests.sim.world import PROFILE, as_bytes


def test_trees_answer_as_lightgbm_does() -> None:
    rows = np.array([case.facts for case in taught()])
    strange = np.random.default_rng(3).normal(0.0, 1e4, (500, len(FEATURES)))
    for quantile in (0.5, 0.9):
        theirs = booster(taught(), quantile)
        forest = Forest(trees_of(theirs.dump_model()))
        for given in (rows, strange, np.zeros((1, len(FEATURES)))):
            ours = [forest.value(row.tolist()) for row in given]
            assert ours == pytest.approx(theirs.predict(given).tolist(), abs=1e-9)


def test_a_tree_of_one_leaf() -> None:
    assert Forest(Trees((-1, -2), (), (), (), (), (0.25, 0.5))).value([0.0] * len(FEATURES)) == 0.75


def test_the_same_log_teaches_the_same_trees() -> None:
    assert grow(taught()) == grow(taught())


def test_late_is_never_before_usual() -> None:
    """Two quantiles are grown apart and may cross."""
    learned = Learned(Forests(learned_profile().learned))
    for case in taught()[:500]:
        assert learned.late_ttft(case.facts) >= learned.ttft(case.facts) > 0.0


def test_facts_stand_where_their_names_do() -> None:
    facts = facts_at(
        0.5, 1, 2, pending=3, running=4, context=5, slowness=0.25, reported=(6.0, 7.0, 0.8), report_age=9.0
    )
    assert dict(zip(FEATURES, facts, strict=True)) == {
        "predicted_ttft": 0.5, "own_tokens": 1.0, "cached_tokens": 2.0, "pending_tokens": 3.0, "running": 4.0,
        "context_tokens": 5.0, "slowness": 0.25, "reported_running": 6.0, "reported_waiting": 7.0,
        "reported_kv_ratio": 0.8, "report_age": 9.0,
    }  # fmt: skip


def test_what_is_not_told_is_no_zero() -> None:
    assert told(None) == (UNTOLD, UNTOLD, UNTOLD)
    assert told(ReplicaReport("r", True, 0.0, running=0, waiting=None, kv_usage=0.0)) == (0.0, UNTOLD, 0.0)


def test_with_what_was_learnt_predictions_are_better() -> None:
    """On traffic that nobody has seen, the routing itself changed by it; and the same twice."""
    plain, learned, again = errors(log(5, 60.0)), log(5, 60.0, learned_profile()), log(5, 60.0, learned_profile())
    assert as_bytes([settle.record for settle in learned]) == as_bytes([settle.record for settle in again])
    better = errors(learned)
    assert min(len(plain), len(better)) > 500
    for level in (0.5, 0.9):
        assert better[int(level * len(better))] < 0.8 * plain[int(level * len(plain))]


def test_errors_shown_are_those_of_what_routes() -> None:
    """… and its steps go on learning from their own."""
    learned = Learned(Forests(learned_profile().learned))
    for _ in range(20):
        learned.first_token(1.0, 2.0)
    assert list(learned.errors.told()) == pytest.approx([0.5, 0.5, -0.5], rel=0.02)


def test_it_comes_and_goes_with_the_policy() -> None:
    profile = learned_profile()
    governor = Governor(POLICY, {PROFILE: profile})
    assert all(replica.learned is not None for pool in governor.pools() for replica in pool.replicas)
    governor.handle(PolicyChanged(1.0, POLICY, {PROFILE: BELIEVED}))
    assert all(replica.learned is None for pool in governor.pools() for replica in pool.replicas)
    assert all(replica.predictor is not None for pool in governor.pools() for replica in pool.replicas)

"""Change points: found where they are, and seldom where there are none, on waits that resemble each other."""

import numpy as np
import pytest

from plimsoll.diagnosis.shift import changes, slow_for_its_kind
from plimsoll.diagnosis.visits import Floats


def queue_waits(seed: int, num: int, utilisation: float) -> tuple[Floats, Floats]:
    """Arrivals and times in system of an M/M/1 queue: busy spells make neighbours alike."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1.0, num))
    service = rng.exponential(utilisation, num)
    ends = np.zeros(num)
    end = 0.0
    for i in range(num):
        end = max(end, arrivals[i]) + service[i]
        ends[i] = end
    return arrivals, ends - arrivals


@pytest.mark.parametrize(("utilisation", "bound"), [(0.3, 0.06), (0.7, 0.15)])
def test_false_alarms_are_as_rare_as_told(utilisation: float, bound: float) -> None:
    """100 queues without any change; what is slow is the slowest fifth of each."""
    alarms = 0
    for seed in range(100):
        at, waited = queue_waits(seed, 2000, utilisation)
        alarms += bool(changes(at, waited > np.quantile(waited, 0.8)))
    assert alarms / 100 <= bound, f"{alarms} of 100"


def test_a_spell_is_found_with_its_edges() -> None:
    """1 % bad, 20 % between rows 900 and 1,500."""
    rng = np.random.default_rng(5)
    at = np.arange(2400, dtype=np.float64)
    inside = (at >= 900) & (at < 1500)
    found = changes(at, rng.random(2400) < np.where(inside, 0.2, 0.01))
    assert [change.worse for change in found] == [True, False]
    assert found[0].at == pytest.approx(900, abs=25)
    assert found[1].at == pytest.approx(1500, abs=25)
    assert found[0].after.low <= 0.2 <= found[0].after.high
    assert found[0].before.high < found[0].after.low


def test_the_tail_alone_may_change() -> None:
    """P50 stays, one request in ten becomes ten times as slow: seen, though the mean of logs hardly moves."""
    rng = np.random.default_rng(6)
    latency = rng.lognormal(0.0, 0.3, 2000)
    latency[1000:][rng.random(1000) < 0.1] *= 10.0
    found = changes(np.arange(2000.0), slow_for_its_kind(latency, np.ones(2000), 0.05))
    assert found
    assert found[0].at == pytest.approx(1000, abs=60)


def test_longer_prompts_alone_are_no_change() -> None:
    """Latency doubles because prompts do; the baseline of like requests doubles with it."""
    rng = np.random.default_rng(7)
    baseline = np.where(np.arange(2000) < 1000, 1.0, 2.0)
    latency = baseline * rng.lognormal(0.0, 0.3, 2000)
    assert changes(np.arange(2000.0), latency > 1.8), "the naive look sees a change"
    assert not changes(np.arange(2000.0), slow_for_its_kind(latency, baseline))


def test_nothing_and_little_have_no_changes() -> None:
    none = np.zeros(0)
    assert changes(none, none.astype(bool)) == ()
    assert changes(np.arange(20.0), np.arange(20) > 10) == ()
    assert not slow_for_its_kind(np.ones(3), np.full(3, np.nan)).any()

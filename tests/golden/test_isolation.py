"""A noisy neighbour leaves gold where it was under the default policy, and not under first come, first served.

Takes about ten seconds: the two pairs are whole simulated services, and P99 needs hundreds of requests.
"""

import pytest

from tests.golden.noisyservice import pairs


def test_gold_does_not_notice_the_neighbour() -> None:
    found = pairs("default", range(2))
    assert min(found.num) >= 368  # below that nobody knows a P99
    assert found.ratio.mean == pytest.approx(1.0, abs=0.10)


def test_without_tiers_it_does() -> None:
    found = pairs("fcfs", range(2), busy=40.0)
    assert found.ratio.mean is not None
    assert found.ratio.mean > 10.0


@pytest.mark.long
def test_the_interval_lies_within_ten_percent() -> None:
    found = pairs("default", range(8))
    assert found.ratio.low is not None
    assert found.ratio.high is not None
    assert 0.90 < found.ratio.low < found.ratio.high < 1.10

"""Breaches are charged to whom they belong, on traffic whose fault is known; without a past there are states."""

from collections import Counter

import pytest

from benchmarks.charges import FAULTS, NONE, Fault, compare, run, trusting
from plimsoll.engine import profiles
from plimsoll.governor.baseline import AT_LEAST, OBSERVED, PREDICTED, UNKNOWN, Baseline
from plimsoll.policy.policy import UpstreamTrust
from plimsoll.slo.verdict import Charge

BOTH = Fault("both", upstream=3.0, pace=3.0)


def test_breaches_are_charged_as_with_true_medians() -> None:
    ordinary = run(1)
    found = compare(run(1, BOTH), ordinary)
    assert found.num > 500
    assert found.num_agreed >= 0.98 * found.num
    assert min(found.charges[each] for each in ("ours", "upstream", "joint")) > 50, "the fault has two sides"
    assert Charge.UNLABELLED.value not in found.charges, "refused requests too are weighed by what was to be expected"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_whatever_the_fault(fault: Fault) -> None:
    found = compare(run(2, fault), run(2))
    assert found.num_agreed >= 0.98 * found.num


@pytest.mark.long
@pytest.mark.timeout(600)
def test_claims_of_more_upstream_time_make_nothing_ours() -> None:
    """The same seed, believed by header: honest, and with five times the time claimed (medians move too)."""
    believing = trusting(UpstreamTrust.HEADER)
    ours = []
    for claimed in (1.0, 2.0, 5.0):
        rows = run(1, Fault("engines x 3", pace=3.0), believing, claimed)
        counts = Counter(v.charge for row in rows if row.upstream_time is not None for v in row.verdicts if v.charge)
        ours.append(counts[Charge.OURS])
    assert ours[0] > 100
    assert ours == sorted(ours, reverse=True)


def test_a_past_without_traffic_with_one_request_or_with_failures_only_gives_states() -> None:
    """Failures are not added: nothing was served, so nothing is known of how long serving takes."""
    silent = Baseline(None)
    assert silent.of(0.0, 1000, 0) == (None, None, UNKNOWN)
    silent.add(0.0, 1000, 0, 0.5, 0.03)
    assert silent.of(1.0, 1000, 0) == (None, None, UNKNOWN), "one request is no usual"
    known = Baseline(profiles.load("h100-llama70b-tp4"))
    assert known.of(0.0, 1000, 0)[2] == PREDICTED
    for number in range(AT_LEAST):
        known.add(float(number), 1000, 0, 0.5, 0.03)
    assert known.of(200.0, 1000, 0)[2] == OBSERVED
    assert known.of(200.0, 100_000, 0)[2] == PREDICTED, "of other prompts nothing was seen"
    assert NONE.pace == NONE.upstream == 1.0

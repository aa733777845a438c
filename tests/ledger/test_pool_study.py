"""A month with the shared pool beside the same month without, at the size of a test; `benchmarks/pool_study.py`."""

import pytest

from benchmarks.pool_study import BAD_MONTH, month


def test_lending_uses_more_of_what_was_granted_and_breaks_nothing() -> None:
    pooled, alone = month(0, pooled=True), month(0, pooled=False)
    assert pooled.utilisation > alone.utilisation
    assert pooled.goodput >= alone.goodput
    assert pooled.num_exhausted_while_idle <= alone.num_exhausted_while_idle
    assert pooled.broken <= alone.broken


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_contract_is_broken_by_lending_in_bad_months_either() -> None:
    arms = [(month(s, pooled=True, bad_ratio=BAD_MONTH), month(s, pooled=False, bad_ratio=BAD_MONTH)) for s in range(3)]
    assert sum(len(alone.broken) for _, alone in arms) > 0, "contracts do break"
    assert all(pooled.broken <= alone.broken for pooled, alone in arms)

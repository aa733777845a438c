"""The counterfactual table: exhaustive, exclusive, and blind to nothing."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.charge import charge
from plimsoll.slo.verdict import Charge

times = st.integers(0, 40).map(lambda quarters: quarters / 4)


@given(times, times, times, times, times)
def test_the_account_follows_the_table(threshold: float, u: float, o: float, b: float, v: float) -> None:
    if u + o <= threshold:
        return  # no breach, never asked
    account = charge(threshold, u, o, b, v)
    if v + b > threshold:
        assert account is Charge.INFEASIBLE
    elif u + b <= threshold < v + o:
        assert account is Charge.OURS
    elif v + o <= threshold < u + b:
        assert account is Charge.UPSTREAM
    else:
        assert account is Charge.JOINT


@given(times, times, times)
def test_without_upstream_time_a_breach_is_ours_or_infeasible(threshold: float, b: float, v: float) -> None:
    account = charge(threshold, None, threshold + 0.25, b, v)
    assert account is (Charge.INFEASIBLE if v + b > threshold else Charge.OURS)


def test_examples() -> None:
    assert charge(10, 8, 3, 1, 8) is Charge.OURS
    assert charge(10, 9.5, 1, 1, 2) is Charge.UPSTREAM
    assert charge(10, 6, 6, 1, 2) is Charge.JOINT
    assert charge(10, 20, inf, 1, 2) is Charge.JOINT
    assert charge(10, 1, inf, 1, 2) is Charge.OURS


def test_what_nobody_vouches_for_is_unlabelled() -> None:
    assert charge(10, 99, 1, 1, 1, trusted=False) is Charge.UNLABELLED


def test_an_unknown_baseline_is_not_zero() -> None:
    assert charge(10, 9, 9, None, 0) is Charge.UNLABELLED
    assert charge(10, None, 11, None, 0) is Charge.OURS


@given(times, st.tuples(times, st.none() | times), times, times, times)
def test_who_claims_more_upstream_time_never_makes_more_of_it_ours(
    threshold: float, own: tuple[float, float | None], v: float, more: float, u: float
) -> None:
    """On the tenant's own word alone: whatever is ours with u + more, breach or not, is ours with u as well."""

    o, b = own

    def is_ours(upstream: float, usual: float) -> bool:
        if upstream + o <= threshold:
            return False  # no breach
        return charge(threshold, upstream, o, b, usual, vouched=False) is Charge.OURS

    assert is_ours(u, v) or not is_ours(u + more, v)
    assert is_ours(u, v) or not is_ours(u, v + more), "nor by moving what is usual"


def test_a_breach_by_the_tenants_word_alone_is_unlabelled() -> None:
    """8 s upstream would be usual; he says it was 3, and we took 8 instead of 1."""
    assert charge(10, 3, 8, 1, 8) is Charge.OURS
    assert charge(10, 3, 8, 1, 8, vouched=False) is Charge.UNLABELLED
    assert charge(10, 3, 11, 1, 8, vouched=False) is Charge.OURS

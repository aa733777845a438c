"""Budgets are exact: floors of sums, parts that add up, months as the calendar has them."""

from calendar import monthrange
from fractions import Fraction
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.governor.months import Month
from plimsoll.slo.budget import (
    Budget,
    Grant,
    Judged,
    borrowable,
    grant_to_date,
    period_bounds,
    period_of,
    planned_grant,
)

targets = st.integers(1, 99_999).map(lambda n: Fraction(n, 100_000))
spans = st.lists(st.builds(Judged, st.integers(0, 10**12), targets), max_size=6)
pools = st.integers(15, 25).map(lambda percent: Fraction(percent, 100))


@given(spans, pools)
def test_a_grant_is_divided_without_rest(judged: list[Judged], pool: Fraction) -> None:
    grant = grant_to_date(judged, pool)
    exact = sum((each.num * (1 - each.target) for each in judged), Fraction(0))
    assert grant.total <= exact < grant.total + 1
    assert grant.pool_part + grant.bucket == grant.total
    assert grant.pool_part <= pool * grant.total < grant.pool_part + 1


@given(st.builds(Judged, st.integers(0, 10**9), targets), st.integers(1, 50), pools)
def test_posting_in_steps_or_at_once_grants_the_same(judged: Judged, parts: int, pool: Fraction) -> None:
    step = judged.num // parts
    split = [Judged(step, judged.target)] * parts + [Judged(judged.num - step * parts, judged.target)]
    assert grant_to_date(split, pool) == grant_to_date([judged], pool)


@given(spans, pools, st.integers(0, 10**6))
def test_more_judged_never_grants_less(judged: list[Judged], pool: Fraction, more: int) -> None:
    before = grant_to_date(judged, pool)
    after = grant_to_date([*judged, Judged(more, Fraction(99, 100))], pool)
    assert after.total >= before.total
    assert after.pool_part >= before.pool_part
    assert after.bucket >= before.bucket


def test_no_binary_rounding() -> None:
    """1,000 requests at 99.9 % allow one; in floats 1000 × (1 − 0.999) is 0.9999999999999…"""
    assert grant_to_date([Judged(1000, Fraction("0.999"))], Fraction(1, 5)) == Grant(1, 0, 1)


@given(st.integers(0, 4_000_000_000), st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo"]))
def test_an_instant_lies_in_its_month(at: int, zone: str) -> None:
    begin, end = period_bounds(period_of(at, zone), zone)
    assert begin <= at < end
    assert period_of(begin, zone) == period_of(at, zone) != period_of(end, zone)
    assert 28 * 86_400 - 3600 <= end - begin <= 31 * 86_400 + 3600


@pytest.mark.parametrize("year", [2024, 2026])
def test_months_of_all_zones_follow_each_other(year: int) -> None:
    """Leap days, clocks moved at midnight, zones of half and quarter hours; the governor's months are the same."""
    zones = sorted(zone for zone in available_timezones() if zone not in {"Factory", "localtime"})
    assert len(zones) > 400
    for zone in zones:
        month = Month(zone)
        for number in range(1, 13):
            period = f"{year}-{number:02d}"
            begin, end = period_bounds(period, zone)
            following = f"{year + number // 12}-{number % 12 + 1:02d}"
            assert period_of(begin, zone) == period == period_of(end - 0.001, zone) == month.of(begin), zone
            assert period_of(end, zone) == following == month.of(end), zone
            assert begin % 900 == 0, "`storage/periods` counts on it"
            days = monthrange(year, number)[1]
            assert abs(end - begin - 86_400 * days) <= 7200, zone  # Antarctica/Troll moves its clocks by two hours


def test_months_begin_at_midnight_in_the_zone() -> None:
    begin, end = period_bounds("2026-11", "Asia/Shanghai")
    assert (begin, end) == (1_793_462_400.0, 1_796_054_400.0)  # 2026-10-31T16:00Z, 2026-11-30T16:00Z
    assert period_of(begin - 1, "Asia/Shanghai") == "2026-10"


def test_a_plan_adds_what_the_rest_of_the_period_brings() -> None:
    target, judged = Fraction(99, 100), [Judged(150, Fraction(99, 100))]
    assert planned_grant(judged, target, Fraction(1, 2), Fraction(100)) == 2  # ⌊1.5 + 0.5⌋
    assert planned_grant(judged, target, Fraction(100), Fraction(100)) == 101


def test_unknown_is_not_zero() -> None:
    unplanned = Budget(0, Grant(0, 0, 0), 0, None)
    assert (unplanned.spent_ratio, unplanned.planned_spent_ratio, unplanned.exhausted) == (None, None, False)
    spent = Budget(1000, Grant(10, 2, 8), 12, 12)
    assert (spent.remaining, spent.spent_ratio, spent.exhausted) == (-2, 1.2, True)
    assert not Budget(0, Grant(0, 0, 0), 0, 0).exhausted
    assert Budget(1, Grant(0, 0, 0), 1, 0).exhausted


@pytest.mark.parametrize(("spent", "expected"), [(0, 20), (15, 5), (30, 0)])
def test_nobody_borrows_past_its_contract(spent: int, expected: int) -> None:
    assert borrowable(2000, Fraction(99, 100), spent) == expected
    assert borrowable(2000, None, spent) == 0

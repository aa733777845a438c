"""Every burn-rate rule that is emitted can fire, and fires when it should."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.burnrate import BurnRule, burn_rate, burn_rules, fires

HOUR, DAY = 3600, 86_400


def test_the_workbooks_table_at_three_nines() -> None:
    assert burn_rules(Fraction("0.999")) == (
        BurnRule(Fraction("14.4"), Fraction(HOUR), Fraction(300), Fraction(2, 100)),
        BurnRule(Fraction(6), Fraction(6 * HOUR), Fraction(1800), Fraction(5, 100)),
        BurnRule(Fraction(1), Fraction(3 * DAY), Fraction(6 * HOUR), Fraction(10, 100)),
    )


def test_at_p90_the_windows_grow_and_equal_factors_leave_the_shortest() -> None:
    rules = burn_rules(Fraction("0.9"))
    assert [(float(rule.factor), float(rule.long) / HOUR) for rule in rules] == [(5.0, 2.88), (1.0, 72.0)]
    assert rules[0].short == rules[0].long / 12


@given(st.integers(1, 99_999).map(lambda n: Fraction(n, 100_000)))
def test_every_rule_can_fire_and_spends_its_share(target: Fraction) -> None:
    rules = burn_rules(target)
    assert rules
    for rule in rules:
        assert rule.factor * (1 - target) <= Fraction(1, 2)
        assert rule.factor * rule.long == rule.share * 30 * DAY
        assert fires(rule, target, (10_000, 10_000), (1000, 1000))
    assert len({rule.factor for rule in rules}) == len(rules)


@pytest.mark.parametrize(
    ("long", "short", "expected"),
    [((40, 1000), (10, 100), True), ((40, 1000), (1, 100), False), ((4, 4), (4, 4), False), ((40, 1000), (0, 0), False),
     ((16, 1000), (10, 100), False)],
)  # fmt: skip
def test_both_windows_must_burn(long: tuple[int, int], short: tuple[int, int], expected: bool) -> None:
    rule = burn_rules(Fraction("0.999"))[0]  # above 1.44 %
    assert fires(rule, Fraction("0.999"), long, short) is expected


def test_the_rate_of_nothing_is_unknown() -> None:
    assert burn_rate(0, 0, Fraction("0.99")) is None
    assert burn_rate(2, 100, Fraction("0.99")) == 2.0

"""Every burn-rate rule that is emitted can fire, and fires when it should."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.burnrate import BurnRule, BurnState, burn_rate, burn_rules, fires, judge
from plimsoll.slo.recent import NOTHING, Counts

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


def counts(num_bad: int, num: int, *, tokens: int = 1, bad_tokens: int = 1) -> Counts:
    found = NOTHING
    for i in range(num):
        found = found.with_request(bad_tokens if i < num_bad else 0, tokens)
    return found


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20), st.integers(0, 20))
def test_for_requests_the_states_are_those_of_fires(bad: int, good: int, short_bad: int, short_good: int) -> None:
    target = Fraction("0.99")
    for rule in burn_rules(target):
        long, short = counts(bad, bad + good), counts(short_bad, short_bad + short_good)
        state = judge(rule, target, long, short)
        burns = fires(rule, target, (bad, bad + good), (short_bad, short_bad + short_good))
        assert (state is BurnState.BURNING) == burns
        assert (state is BurnState.NO_TRAFFIC) == (bad + good == 0)


def test_too_few_is_said_where_no_number_of_bad_ones_could_fire() -> None:
    rule = burn_rules(Fraction("0.9"))[0]  # above 50 %: five of five leave the bound at 47.8 %
    assert judge(rule, Fraction("0.9"), counts(5, 5), counts(5, 5)) is BurnState.TOO_FEW
    assert judge(rule, Fraction("0.9"), counts(6, 6), counts(6, 6)) is BurnState.BURNING
    assert judge(rule, Fraction("0.9"), counts(0, 6), counts(0, 0)) is BurnState.QUIET


def test_one_stalled_stream_pages_nobody() -> None:
    """All of one long answer's tokens are late, six hundred of ten thousand: the ratio is 6 %, the factor 14.4."""
    rule = burn_rules(Fraction("0.999"))[0]
    one = counts(1, 10, tokens=1000, bad_tokens=600)
    assert fires(rule, Fraction("0.999"), (600, 10_000), (600, 10_000)), "as if tokens were independent"
    assert judge(rule, Fraction("0.999"), one, one) is BurnState.QUIET
    many = counts(60, 600, tokens=1000, bad_tokens=600)
    assert judge(rule, Fraction("0.999"), many, many) is BurnState.BURNING

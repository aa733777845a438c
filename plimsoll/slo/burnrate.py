"""How fast a budget burns, over paired windows that are derived for each objective so that every rule can fire.

Burn rate = bad ratio over a window ÷ (1 − target); it can never exceed C = 1 ÷ (1 − target). The starting table is that
of the Google SRE Workbook, chapter 5 (multiwindow, multi-burn-rate alerts), made for 99.9 %: at looser targets its
highest factors lie beyond C, and the windows are lengthened.
"""

from enum import StrEnum
from fractions import Fraction
from typing import Final

from msgspec import Struct

from plimsoll.slo.intervals import surely_above
from plimsoll.slo.recent import Counts

DAY: Final = 86_400
PERIOD: Final = 30 * DAY
MIN_BAD: Final = 5
"""Fewer bad requests than this never page, whatever their share."""


class BurnRule(Struct, frozen=True):
    """Fires when both windows burn faster than `factor`; spends `share` of the period's budget in the long one."""

    factor: Fraction
    long: Fraction  # s
    short: Fraction  # s
    share: Fraction


class BurnState(StrEnum):
    """What one rule says of one objective of one tenant. The first two are no numbers: nothing follows from them."""

    NO_TRAFFIC = "no traffic"  # nothing was judged in the long window
    TOO_FEW = "too few"  # so few were that the rule could not fire if all of them had been bad
    QUIET = "quiet"
    BURNING = "burning"


_START: Final = (
    (Fraction(2, 100), 3600, 300),
    (Fraction(5, 100), 6 * 3600, 1800),
    (Fraction(10, 100), 3 * DAY, 6 * 3600),
)


def burn_rules(target: Fraction, period: int = PERIOD) -> tuple[BurnRule, ...]:
    """The rules of one objective, fastest first; of rules with equal factors only the shortest."""
    ceiling = 1 / (1 - target)
    rules: list[BurnRule] = []
    for share, long, short in _START:
        rule = BurnRule(share * period / long, Fraction(long), Fraction(short), share)
        if rule.factor > ceiling / 2:
            longer = 2 * share * period / ceiling
            rule = BurnRule(ceiling / 2, longer, longer / 12, share)
        if rule.long <= period and all(other.factor != rule.factor for other in rules):
            rules.append(rule)
    return tuple(rules)


def burn_rate(num_bad: int, num: int, target: Fraction) -> float | None:
    """1.0 spends exactly the budget by the period's end; None where nothing was judged."""
    return float(Fraction(num_bad, num) / (1 - target)) if num else None


def fires(rule: BurnRule, target: Fraction, long: tuple[int, int], short: tuple[int, int]) -> bool:
    """`long` and `short` are (bad, judged) requests of the two windows.

    The long window's lower bound (two-sided 95 %, Clopper–Pearson) and the short window's plain ratio must both exceed
    factor × (1 − target). For independent requests; `judge` is for both requests and tokens.
    """
    limit = rule.factor * (1 - target)
    (long_bad, long_num), (short_bad, short_num) = long, short
    if long_bad < MIN_BAD or short_num == 0 or Fraction(short_bad, short_num) <= limit:
        return False
    return surely_above(long_bad, long_num, float(limit))


def judge(rule: BurnRule, target: Fraction, long: Counts, short: Counts) -> BurnState:
    """What the rule says. Tokens of one stream are not independent: they count for as many events as they are worth."""
    limit = rule.factor * (1 - target)
    if not long.num_judged:
        return BurnState.NO_TRAFFIC
    if long.num_requests < MIN_BAD or not surely_above(long.num_requests, long.num_requests, float(limit)):
        return BurnState.TOO_FEW
    if long.num_bad_requests < MIN_BAD or not short.num_judged:
        return BurnState.QUIET
    if Fraction(short.num_bad, short.num_judged) <= limit:
        return BurnState.QUIET
    return BurnState.BURNING if surely_above(*long.as_independent(), float(limit)) else BurnState.QUIET

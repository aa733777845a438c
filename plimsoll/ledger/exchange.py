"""What a month's end does: budget left becomes concurrency of the next month, budget that was blown costs a rank.

headroom = ⌊base concurrency × coefficient × min over objectives of
            max(0, grant − spent − lent and spent) ÷ max(grant, committed grant)⌋, at most `exchange_cap` × base
"""

from collections.abc import Iterable
from fractions import Fraction
from math import floor

from msgspec import Struct


class Closing(Struct, frozen=True):
    """One objective of a tenant at its month's end."""

    objective: str
    grant: int
    spent: int
    spent_ours: int
    lent_spent: int  # of its own part, lent and used by the borrowers
    committed_grant: int | None  # what its commitment would have granted; None: no commitment
    planned: int | None  # what exhaustion is measured by; None: no plan
    judged: bool = True  # False: too many requests were censored to say


class Exchange(Struct, frozen=True):
    """What it came to, and why."""

    headroom: int
    ratio: Fraction | None  # the least share of budget left; None: nothing to exchange by
    demoted: bool
    because: str


def exchange(
    closings: Iterable[Closing], base: int | None, coefficient: Fraction, cap: Fraction, *, may_fall: bool = True
) -> Exchange:
    """For one tenant. `base` is its concurrency limit; `may_fall`: its tier lies above the demotion floor.

    An objective that grants nothing says nothing; one that is not judged stops the exchange.
    """
    known = list(closings)
    demoted, why = _demotion(known, may_fall=may_fall)
    if base is None:
        return Exchange(0, None, demoted, why or "no base concurrency")
    unjudged = next((each.objective for each in known if not each.judged), None)
    if unjudged is not None:
        return Exchange(0, None, demoted, why or f"{unjudged} is not judged")
    ratios = [(_left(each), each.objective) for each in known if max(each.grant, each.committed_grant or 0) > 0]
    if not ratios:
        return Exchange(0, None, demoted, why or "nothing was granted")
    ratio, tightest = min(ratios)
    amount = min(floor(base * coefficient * ratio), floor(cap * base))
    return Exchange(amount, ratio, demoted, why or f"{tightest} has the least left")


def _left(closing: Closing) -> Fraction:
    left = max(0, closing.grant - closing.spent - closing.lent_spent)
    return Fraction(left, max(closing.grant, closing.committed_grant or 0))


def _demotion(closings: list[Closing], *, may_fall: bool) -> tuple[bool, str]:
    """Exhausted, and not so by ours alone."""
    for each in closings:
        if not each.judged or each.planned is None or each.spent == 0 or each.spent < each.planned:
            continue
        if each.spent_ours >= each.planned:
            return False, f"{each.objective} is exhausted by our own doing"
        return may_fall, f"{each.objective} is exhausted" + ("" if may_fall else ", at the demotion floor")
    return False, ""

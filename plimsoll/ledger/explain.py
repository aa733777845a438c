"""Each figure of a budget with its formula and the numbers that went into it."""

from msgspec import Struct

from plimsoll.ledger.actions import UNKNOWN
from plimsoll.ledger.assessment import Row, member_of
from plimsoll.ledger.figures import Figures, PlannedBy
from plimsoll.ledger.pool import free
from plimsoll.ledger.promise import Promised
from plimsoll.policy.policy import Policy
from plimsoll.slo.budget import borrowable


class Explained(Struct, frozen=True):
    """One figure. `formula` has the numbers in it; where they are unknown, it says why."""

    figure: str
    value: str
    formula: str


def explain(row: Row, figures: Figures, promised: Promised, policy: Policy) -> list[Explained]:
    """All figures of one objective, in the order in which they follow from each other."""
    spans = " + ".join([f"{each.num:,} × (1 − {float(each.target):.6g})" for each in figures.judged]) or "0"
    charges = " + ".join([f"{num:,} {charge}" for charge, num in row.spent.items()]) or "nothing bad"
    pool = f"{float(policy.service.shared_pool):.3g}"
    return [
        Explained("judged", f"{row.num_judged:,}", f"good and bad {row.unit} of {row.period} in {row.zone}"),
        Explained("granted", f"{row.granted:,}", f"⌊{spans}⌋"),
        Explained("pool part", f"{row.part:,}", f"⌊{pool} × {row.granted:,}⌋"),
        Explained("bucket", f"{row.bucket:,}", f"{row.granted:,} − {row.part:,}"),
        _planned(row, promised),
        Explained("spent", f"{row.num_spent:,}", charges),
        Explained("remaining", f"{row.remaining:,}", f"granted {row.granted:,} − spent {row.num_spent:,}"),
        _draws(row),
        _free(row, figures, promised),
        _borrowable(row, promised),
        _health(row, policy),
    ]


def _planned(row: Row, promised: Promised) -> Explained:
    if row.planned is None:
        return Explained("planned", "no plan", "no commitment, and less than a day of traffic to take a mean of")
    committed = promised.committed
    source = "the mean of the last seven days"
    if row.planned_by == PlannedBy.COMMITMENT and committed is not None:
        source = f"{committed:,} committed a month"
        if promised.objective.counts_tokens:
            source += f" × {row.num_judged:,} ÷ {row.num_requests:,} tokens a request"
    elif committed is not None:
        source += f", since no request tells yet how many {row.unit} the {committed:,} committed ones have"
    more = row.planned - row.granted
    return Explained("planned", f"{row.planned:,}", f"granted {row.granted:,} + {more:,} for the rest, by {source}")


def _draws(row: Row) -> Explained:
    bucket = row.num_spent - row.from_part - row.from_loans - row.overdraft
    parts = f"{bucket:,} bucket, {row.from_part:,} own part, {row.from_loans:,} loans, {row.overdraft:,} overdraft"
    return Explained("drawn from", f"{row.num_spent:,}", f"in this order: {parts}")


def _free(row: Row, figures: Figures, promised: Promised) -> Explained:
    upper = row.outlook.upper
    if upper is None:
        return Explained("free to lend", "0", f"what it will need is unknown ({row.outlook.state})")
    num = free(member_of(promised, figures, row.outlook.ahead), row.lent)
    formula = f"part {row.part:,} − max(0, spent {row.num_spent:,} + upper 24 h {upper:,.1f} − bucket {row.bucket:,})"
    return Explained("free to lend", f"{num:,}", f"{formula} − lent {row.lent:,}, floored at 0")


def _borrowable(row: Row, promised: Promised) -> Explained:
    contract = promised.objective.contract
    if not promised.pooled:
        return Explained("may borrow", "0", "its months are not the service's: it takes no part in the pool")
    if contract is None:
        return Explained("may borrow", "0", "no contract, no loan")
    most = borrowable(row.num_judged, contract, row.num_spent)
    formula = f"⌊{row.num_judged:,} × (1 − {float(contract):.6g})⌋ − spent {row.num_spent:,}, floored at 0"
    return Explained("may borrow", f"{most:,}", formula)


def _health(row: Row, policy: Policy) -> Explained:
    rules = policy.budget
    if row.health in UNKNOWN or row.spent_ratio is None:
        return Explained("state", row.health.words, "nothing is done in this state")
    limits = f"warn at {float(rules.warn_at):.0%}, degrade at {float(rules.degrade_at):.0%}, exhausted at 100%"
    acted = "" if row.acted else "; not acted on: " + (row.overridden_by or "dry run")
    return Explained("state", row.health.words, f"{row.spent_ratio:.1%} of planned spent; {limits}{acted}")

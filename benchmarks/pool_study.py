"""What a shared pool is worth: `python -m benchmarks.pool_study [SEEDS]`.

Ten tenants of one objective (99 %, sold at 98 %) for a month of drifting load (`driftingmonths.py`), hour by hour, the
same dice twice: each with its own budget only, and with the pool that DESIGN describes (`ledger/pool.py`, forecasts of
`analytics/forecast.py` made once a day). A tenant that has spent its planned grant (less what it lent, plus what it
borrowed) is held back until the month ends: a fifth of its requests are not admitted, and of the others half as
many break the objective, since nothing risky is done for it any more. Utilisation is spent ÷ granted over tenants
whose contract held, overdrafts apart: what nobody granted is no use made of a grant. Goodput is good ÷ offered.
"""

import sys
import time
from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np
from msgspec import Struct

from benchmarks.driftingmonths import KINDS, START, Kind, drifting_months
from plimsoll.analytics.forecast import forecast
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.entry import EntryKind
from plimsoll.ledger.pool import Loan, Member, draws, free, plan
from plimsoll.sim.estimate import Estimate, estimate
from plimsoll.sim.randomness import stream
from plimsoll.slo.budget import HourCount, Judged, grant_to_date

NUM_TENANTS: Final = 10
PAST: Final = 30 * 24
MONTH: Final = 30 * 24
TARGET: Final = Fraction(99, 100)
CONTRACT: Final = Fraction(98, 100)
POOL: Final = Fraction(1, 5)
BORROW_CAP: Final = Fraction(1, 2)
HELD_BACK: Final = 0.2
"""Share of the requests of an exhausted tenant that are not admitted."""
CAREFUL: Final = 0.5
"""Of its breaches, those that happen still."""
USUAL: Final = 0.006
"""The median bad ratio of tenants; every second tenant-month spends more than that."""
BAD_MONTH: Final = 0.015
"""One in which contracts break: does lending break more of them?"""


class Tenant:
    """One tenant's month in one arm of the study."""

    def __init__(self, seed: int, number: int, bad_ratio: float) -> None:
        self.owner = Owner(f"tenant-{number}", "ttft")
        kind = _kind(seed, number, bad_ratio)
        self.hours = drifting_months(seed, kind, (PAST + MONTH) // 24)
        past = sum(each.num_judged for each in self.hours[:PAST])
        self.planned = int(past / PAST * MONTH * (1 - TARGET))
        self.dice = stream(seed, "held back", kind.name)
        self.spent = self.judged = self.good = self.offered = 0
        self.seen = list(self.hours[:PAST])
        self.ahead: int | None = None
        self.exhausted = self.exhausted_while_idle = False

    def live(self, hour: int, *, held_back: bool) -> None:
        """One hour."""
        offered = self.hours[PAST + hour]
        careful = int(self.dice.binomial(offered.num_bad, CAREFUL))
        missing = int(self.dice.binomial(offered.num_judged - offered.num_bad, HELD_BACK))
        bad = careful if held_back else offered.num_bad
        judged = offered.num_judged - missing if held_back else offered.num_judged
        self.offered += offered.num_judged
        self.judged += judged
        self.spent += bad
        self.good += judged - bad
        self.seen.append(HourCount(offered.hour, judged, bad))

    def look_ahead(self, hour: int) -> None:
        """The upper bound of the next 24 hours, from what was seen in this arm."""
        found = forecast(self.seen, float((START + PAST + hour) * 3600)).next_day
        self.ahead = None if found is None else ceil(found.upper)

    def member(self) -> Member:
        """As the pool sees it."""
        grant = grant_to_date([Judged(self.judged, TARGET)], POOL)
        own = Fraction(1, NUM_TENANTS)
        figures = (grant.bucket, grant.pool_part, self.spent, self.judged, CONTRACT, self.ahead)
        return Member(self.owner, "gold", own, Fraction(1), *figures)

    @property
    def kept(self) -> bool:
        """Whether the contract held."""
        return self.spent <= self.judged * (1 - CONTRACT)


class Arm(Struct, frozen=True):
    """One seed's month under one rule."""

    utilisation: float
    goodput: float
    num_exhausted: int
    num_exhausted_while_idle: int
    broken: frozenset[str]  # tenants whose contract did not hold


def month(seed: int, *, pooled: bool, bad_ratio: float = USUAL) -> Arm:
    """Ten tenants, hour by hour."""
    tenants = [Tenant(seed, number, bad_ratio) for number in range(NUM_TENANTS)]
    loans: dict[Loan, int] = {}
    for hour in range(MONTH):
        lent, borrowed = _totals(loans)
        members = {tenant.owner: tenant.member() for tenant in tenants}
        for tenant in tenants:
            limit = tenant.planned - lent.get(tenant.owner, 0) + borrowed.get(tenant.owner, 0)
            if tenant.spent >= limit:
                tenant.exhausted = True
                idle = sum(free(members[other], lent.get(other, 0)) for other in members if other != tenant.owner)
                tenant.exhausted_while_idle |= idle > 0
            tenant.live(hour, held_back=tenant.spent >= limit)
            if hour % 24 == 0:
                tenant.look_ahead(hour)
        if pooled:
            for change in plan([tenant.member() for tenant in tenants], loans, BORROW_CAP):
                signed = change.amount if change.kind is EntryKind.LOAN else -change.amount
                loans[change.loan] = loans.get(change.loan, 0) + signed
    return _arm(tenants, loans)


def _totals(loans: dict[Loan, int]) -> tuple[dict[Owner, int], dict[Owner, int]]:
    """Lent and borrowed by owner."""
    lent: dict[Owner, int] = {}
    borrowed: dict[Owner, int] = {}
    for loan, amount in loans.items():
        lent[loan.lender] = lent.get(loan.lender, 0) + amount
        borrowed[loan.borrower] = borrowed.get(loan.borrower, 0) + amount
    return lent, borrowed


def _arm(tenants: list[Tenant], loans: dict[Loan, int]) -> Arm:
    lent, borrowed = _totals(loans)
    kept = [tenant for tenant in tenants if tenant.kept]
    granted = sum(grant_to_date([Judged(tenant.judged, TARGET)], POOL).total for tenant in kept)
    drawn = [draws(tenant.member(), lent.get(tenant.owner, 0), borrowed.get(tenant.owner, 0)) for tenant in kept]
    return Arm(
        utilisation=sum(each.bucket + each.own + each.borrowed for each in drawn) / granted,
        goodput=sum(tenant.good for tenant in tenants) / sum(tenant.offered for tenant in tenants),
        num_exhausted=sum(tenant.exhausted for tenant in tenants),
        num_exhausted_while_idle=sum(tenant.exhausted_while_idle for tenant in tenants),
        broken=frozenset(tenant.owner.tenant for tenant in tenants if not tenant.kept),
    )


def _kind(seed: int, number: int, bad_ratio: float) -> Kind:
    """The kinds in turn, each with a bad ratio of its own around that one."""
    kind = KINDS[number % len(KINDS)]
    ratio = bad_ratio * float(np.exp(0.5 * stream(seed, "bad ratio", number).standard_normal()))
    return kind._replace(name=f"{kind.name} {number}", bad_ratio=ratio, incident_factor=kind.incident_factor / 3)


def _show(name: str, found: Estimate, scale: float = 1.0, unit: str = "") -> str:
    if found.mean is None or found.low is None or found.high is None:
        return f"{name} not known"
    return f"{name} {found.mean * scale:.3g}{unit} ({found.low * scale:.3g} to {found.high * scale:.3g})"


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    began = time.process_time()
    arms = {pooled: [month(seed, pooled=pooled) for seed in seeds] for pooled in (False, True)}
    for pooled, found in arms.items():
        print("bucket + pool:" if pooled else "static buckets:")
        print("  " + _show("utilisation", estimate([each.utilisation for each in found]), 100, " %"))
        print("  " + _show("goodput", estimate([each.goodput for each in found]), 100, " %"))
        print("  " + _show("tenants exhausted of 10", estimate([float(each.num_exhausted) for each in found])))
        idle = estimate([float(each.num_exhausted_while_idle) for each in found])
        print("  " + _show("of these while others had budget to lend", idle))
        print(f"  contracts broken: {sum(len(each.broken) for each in found)} of {NUM_TENANTS * len(found)}")
    pairs = list(zip(arms[True], arms[False], strict=True))
    print("with the pool, seed by seed:")
    print("  " + _show("utilisation", estimate([a.utilisation - b.utilisation for a, b in pairs]), 100, " points"))
    print("  " + _show("goodput", estimate([a.goodput - b.goodput for a, b in pairs]), 100, " points"))
    print("  " + _show("tenants exhausted", estimate([float(a.num_exhausted - b.num_exhausted) for a, b in pairs])))
    print(f"  contracts broken that held without it: {sum(len(a.broken - b.broken) for a, b in pairs)}")
    bad = [
        (month(seed, pooled=True, bad_ratio=BAD_MONTH), month(seed, pooled=False, bad_ratio=BAD_MONTH))
        for seed in seeds
    ]
    with_pool, without = (sum(len(arm[i].broken) for arm in bad) for i in (0, 1))
    print(f"in bad months: contracts broken with the pool {with_pool}, without {without}")
    print(f"  contracts broken that held without it: {sum(len(a.broken - b.broken) for a, b in bad)}")
    print(f"{time.process_time() - began:.0f} CPU s, {len(seeds)} seeds")


if __name__ == "__main__":
    main()

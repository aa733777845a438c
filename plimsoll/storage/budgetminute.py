"""One minute of the budget service as a pure step: what is known in; rows, standings, decisions and the report out."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.governor.events import BudgetsReported, BudgetState, Standing
from plimsoll.ledger.assessment import Assessor, Known, Row
from plimsoll.ledger.decided import Decided
from plimsoll.ledger.monthend import MonthEnds, TenantStanding
from plimsoll.ledger.promise import Promises
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.outlooks import Outlooks

_ACTED_ON: Final = frozenset({BudgetHealth.DEGRADED, BudgetHealth.EXHAUSTED})


class Minute(Struct, frozen=True):
    """What one assessment came to."""

    at: float
    rows: tuple[Row, ...]
    standings: tuple[TenantStanding, ...]
    decisions: tuple[Decided, ...]

    @property
    def report(self) -> BudgetsReported:
        """What the governor is told. Budgets without traffic are left out: nothing follows from them."""
        return BudgetsReported(
            self.at,
            tuple([_state(row) for row in self.rows if row.num_judged]),
            tuple([Standing(s.tenant, s.from_at, s.until_at, s.headroom, s.demoted) for s in self.standings]),
        )


def _state(row: Row) -> BudgetState:
    return BudgetState(
        row.tenant,
        row.objective,
        row.spent_ratio,
        exhausted=row.acted and row.health is BudgetHealth.EXHAUSTED,
        health=row.health,
        degrade=row.acted and row.health in _ACTED_ON,
    )


def assess(promises: Promises, known: Known, at: float, outlooks: Outlooks | None) -> Minute:
    """One minute, live or simulated. Forecasts are of the states without them, and then change what may be lent."""
    if outlooks is not None:
        first = Assessor(promises, known, at).rows_only()
        known = replace(known, outlooks=outlooks.of(first, known.histories, promises.policy.budget, at))
    assessed = Assessor(promises, known, at).assess()
    ends = MonthEnds(promises, known, at).settle()
    return Minute(at, tuple(assessed.rows), tuple(ends.standings), (*assessed.decisions, *ends.decisions))

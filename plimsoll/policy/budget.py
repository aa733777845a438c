"""Rules of error budgets, as values: when the service acts, what that closes, what it lends, what it does not count."""

from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from plimsoll.policy.knownchange import KnownChange


class Risk(StrEnum):
    """What bets on the future."""

    OVERSUBSCRIPTION = "oversubscription"  # of a pool, whoever's budget it is
    LENDING = "lending"  # of the tier's idle floor, on the promise that it comes back in time
    HEDGING = "hedging"  # asking a second replica


class ExceptionKind(StrEnum):
    """Planned changes that eat nobody's budget."""

    MODEL_UPGRADE = "model_upgrade"
    PLANNED_MOVE = "planned_move"  # between regions, or to greener power


class ExceptionWindow(Struct, frozen=True):
    """Requests that arrive in [from_at, until_at) neither grant nor spend: what breaks is booked on another account."""

    kind: ExceptionKind
    from_at: float  # UTC epoch s
    until_at: float
    tenants: tuple[str, ...] = ()  # (): all


class BudgetRules(Struct, frozen=True):
    """At which shares of the planned grant the service acts, and how budget is lent and exchanged."""

    warn_at: Fraction = Fraction(4, 5)
    degrade_at: Fraction = Fraction(19, 20)
    hysteresis: Fraction = Fraction(1, 50)  # of the planned grant: a state is left that far below where it is entered
    dry_run: bool = False  # states are told and kept on record, nothing is done
    borrow_cap: Fraction = Fraction(1, 2)  # of the borrower's own grant to date
    exchange_cap: Fraction = Fraction(1, 2)  # of the tenant's base concurrency
    demotion_floor: str | None = None  # the lowest tier in whose turn a demoted tenant waits; None: the lowest of all
    spent_forbids: tuple[str, ...] = tuple(Risk)  # what is closed while a tenant's budget calls for action …
    healthy_allows: tuple[str, ...] = ()  # … and what is open only while it is known to be healthy
    exceptions: tuple[ExceptionWindow, ...] = ()
    changes: tuple[KnownChange, ...] = ()

    def closes(self, risk: str, *, spent: bool, healthy: bool) -> bool:
        """Whether a tenant's budget in that state closes that risk."""
        return (spent and risk in self.spent_forbids) or (not healthy and risk in self.healthy_allows)

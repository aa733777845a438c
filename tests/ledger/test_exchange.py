"""Month's end: what is left becomes concurrency, what was blown costs a rank; states have hysteresis."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.ledger.actions import Override, health, override_of
from plimsoll.ledger.booking import closes_at, excepted, is_late, late, window_of
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.exchange import Closing, exchange
from plimsoll.policy.budget import BudgetRules, ExceptionKind, ExceptionWindow
from plimsoll.slo.budget import BudgetHealth, period_bounds

HALF, ONE = Fraction(1, 2), Fraction(1)
RULES = BudgetRules()


def closing(
    grant: int = 100,
    spent: int = 40,
    ours: int = 40,
    lent: int = 0,
    committed: int | None = None,
    *,
    judged: bool = True,
) -> Closing:
    return Closing("ttft", grant, spent, ours, lent, committed, max(grant, committed or 0), judged)


@pytest.mark.parametrize(
    ("closings", "base", "coefficient", "headroom"),
    [
        ([closing()], 64, ONE, 32),  # ⌊64 × 0.6⌋ = 38, capped at half
        ([closing(spent=80)], 64, ONE, 12),  # ⌊12.8⌋
        ([closing(spent=80)], 64, Fraction(7, 10), 8),  # ⌊8.96⌋
        ([closing(spent=80, lent=15)], 64, ONE, 3),
        ([closing(spent=80, committed=200)], 64, ONE, 6),  # less came than it had committed to: 20 of 200
        ([closing(spent=80), closing(spent=99)], 64, ONE, 0),  # the tightest decides
        ([closing(spent=150)], 64, ONE, 0),
        ([closing()], None, ONE, 0),
        ([closing(judged=False)], 64, ONE, 0),
        ([closing(grant=0, spent=0)], 64, ONE, 0),
        ([closing(spent=80), closing(grant=0, spent=0)], 64, ONE, 12),
        ([], 64, ONE, 0),
    ],
)
def test_headroom(closings: list[Closing], base: int | None, coefficient: Fraction, headroom: int) -> None:
    assert exchange(closings, base, coefficient, HALF).headroom == headroom


def test_who_falls() -> None:
    blown = closing(spent=120, ours=60)
    assert exchange([blown], 64, ONE, HALF).demoted
    assert not exchange([blown], 64, ONE, HALF, may_fall=False).demoted
    assert not exchange([closing(spent=120, ours=100)], 64, ONE, HALF).demoted, "by ours alone"
    assert not exchange([closing(spent=99)], 64, ONE, HALF).demoted
    assert not exchange([closing(grant=0, spent=0)], 64, ONE, HALF).demoted
    assert not exchange([closing(spent=120, ours=60, judged=False)], 64, ONE, HALF).demoted


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 500), st.integers(0, 10**6))
def test_headroom_is_bounded_and_grows_with_what_is_left(grant: int, spent: int, base: int, more: int) -> None:
    one = exchange([closing(grant, spent)], base, ONE, HALF).headroom
    assert 0 <= one <= base // 2
    assert exchange([closing(grant, spent + more)], base, ONE, HALF).headroom <= one


def test_states_are_entered_at_once_and_left_with_hysteresis() -> None:
    assert health(BudgetHealth.HEALTHY, 9, 79, 100, RULES) is BudgetHealth.HEALTHY
    assert health(BudgetHealth.HEALTHY, 9, 80, 100, RULES) is BudgetHealth.WARN
    assert health(BudgetHealth.HEALTHY, 9, 95, 100, RULES) is BudgetHealth.DEGRADED
    assert health(BudgetHealth.WARN, 9, 100, 100, RULES) is BudgetHealth.EXHAUSTED
    assert health(BudgetHealth.EXHAUSTED, 9, 98, 100, RULES) is BudgetHealth.EXHAUSTED
    assert health(BudgetHealth.EXHAUSTED, 9, 97, 100, RULES) is BudgetHealth.DEGRADED
    assert health(BudgetHealth.WARN, 9, 78, 100, RULES) is BudgetHealth.WARN
    assert health(BudgetHealth.WARN, 9, 77, 100, RULES) is BudgetHealth.HEALTHY
    assert health(BudgetHealth.EXHAUSTED, 9, 10, 100, RULES) is BudgetHealth.HEALTHY, "a plan that grew"


def test_what_is_unknown_is_a_state() -> None:
    before = BudgetHealth.DEGRADED
    assert health(before, 0, 0, 100, RULES) is BudgetHealth.NO_TRAFFIC
    assert health(before, 9, 9, 100, RULES, judged=False) is BudgetHealth.NOT_JUDGED
    assert health(before, 9, 9, None, RULES) is BudgetHealth.NO_PLAN
    assert health(before, 9, 0, 0, RULES) is BudgetHealth.TOO_FEW
    assert health(before, 9, 1, 0, RULES) is BudgetHealth.EXHAUSTED
    assert health(BudgetHealth.NO_PLAN, 9, 79, 100, RULES) is BudgetHealth.HEALTHY


def test_overrides_hold_until_they_end() -> None:
    short, long = Override("k1", "acme", "", 10.0, 20.0, "me"), Override("k2", "acme", "ttft", 10.0, 30.0, "me")
    assert override_of([short, long], "acme", "ttft", 15.0) == long
    assert override_of([short, long], "acme", "itl", 15.0) == short
    assert override_of([short, long], "acme", "itl", 20.0) is None
    assert override_of([short, long], "beta", "itl", 15.0) is None


def test_what_a_window_of_exception_books() -> None:
    window = ExceptionWindow(ExceptionKind.PLANNED_MOVE, 100.0, 200.0, ("acme",))
    assert [window_of(at, "acme", [window]) for at in (99.9, 100.0, 199.9, 200.0)] == [
        "",
        "planned_move",
        "planned_move",
        "",
    ]
    assert window_of(150.0, "beta", [window]) == ""
    spend = Entry(EntryKind.SPEND, "acme/ttft/bucket", "acme/ttft/spent:joint", 3, "2026-11")
    (moved,) = excepted([spend], "planned_move")
    assert (moved.source, moved.target) == ("acme/ttft/exception:planned_move", "acme/ttft/excepted:joint")
    assert (moved.kind, moved.amount, moved.period) == (EntryKind.SPEND, 3, "2026-11")


def test_what_is_late_is_a_correction_of_the_month_that_is_open() -> None:
    end = period_bounds("2026-11", "Asia/Shanghai")[1]
    assert closes_at("2026-11", "Asia/Shanghai") == end + 86_400
    assert not is_late("2026-11", "Asia/Shanghai", end + 86_399.9)
    assert is_late("2026-11", "Asia/Shanghai", end + 86_400.0)
    spend = Entry(EntryKind.SPEND, "acme/ttft/bucket", "acme/ttft/spent:ours", 3, "2026-11")
    (moved,) = late([spend], end + 90_000, "Asia/Shanghai")
    assert moved == Entry(EntryKind.CORRECT, "acme/ttft/late", "acme/ttft/late:ours", 3, "2026-12")

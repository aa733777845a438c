"""A minute's assessment: states, actions, loans; a month's end, whoever was up at midnight."""

from fractions import Fraction

import msgspec
import pytest
from msgspec.structs import replace

from plimsoll.ledger.accounts import Owner, headroom_of
from plimsoll.ledger.actions import Action, Override
from plimsoll.ledger.assessment import Assessor, Known, Outlook, Row
from plimsoll.ledger.decided import CloseEvidence, Decided, DecisionKind
from plimsoll.ledger.entry import EntryKind
from plimsoll.ledger.figures import Figures, History, Month, PlannedBy, plan_of
from plimsoll.ledger.ledger import Ledger
from plimsoll.ledger.monthend import MonthEnds
from plimsoll.ledger.pool import Loan
from plimsoll.ledger.promise import Promises, month_after, month_before
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Limits, Policy, Service, Tenant, Tier
from plimsoll.slo.budget import BudgetHealth, Judged, period_bounds

BEGIN, END = period_bounds("2026-11", "Asia/Shanghai")
MIDDLE = (BEGIN + END) / 2
TARGET = Fraction(99, 100)
TTFT = Objective("ttft", Sli.TTFT, 0.8, TARGET, Fraction(95, 100))
ACME, BETA, FAR = Owner("acme", "ttft"), Owner("beta", "ttft"), Owner("far", "ttft")
POLICY = Policy(
    service=Service(timezone="Asia/Shanghai"),
    tiers=(
        Tier("gold", 0, Fraction(1, 2), objectives=(TTFT,)),
        Tier("tin", 1, Fraction(1, 4), exchange=Fraction(1, 2), objectives=(TTFT,)),
    ),
    tenants=(
        Tenant("acme", "gold", limits=Limits(concurrency=64), committed=100_000),
        Tenant("beta", "gold", limits=Limits(concurrency=10), committed=20_000),
        Tenant("far", "tin", timezone="America/New_York"),
    ),
)
QUIET = Outlook("forecast", 0.0, 0.0, 0.0)


def figures(owner: Owner, num: int, spent: int, **charges: int) -> Figures:
    grant = int(num * (1 - TARGET))
    part = grant // 5
    return Figures(owner, (Judged(num, TARGET),), num, 0, grant - part, part, charges or {"ours": spent})


def known(*of_november: Figures, **more: object) -> Known:
    months = {"2026-11": Month("2026-11", {each.owner: each for each in of_november})}
    return Known(**{"months": months, "outlooks": {ACME: QUIET, BETA: QUIET}, **more})  # type: ignore[arg-type]


def row_of(tenant: str, what: Known, policy: Policy = POLICY, at: float = MIDDLE) -> Row:
    return next(row for row in Assessor(Promises(policy), what, at).assess().rows if row.tenant == tenant)


def test_shares_are_of_the_planned_grant() -> None:
    """Half the month over, 60,000 of 100,000 judged: 600 granted, 500 more are to come."""
    row = row_of("acme", known(figures(ACME, 60_000, 880)))
    assert (row.granted, row.planned, row.remaining) == (600, 1100, -280)
    assert (row.health, row.spent_ratio, row.acted) == (BudgetHealth.WARN, 0.8, True)
    assert (row.bucket, row.part, row.from_part, row.from_loans, row.overdraft) == (480, 120, 120, 0, 280)


def test_a_week_stands_in_for_a_commitment() -> None:
    now = int(MIDDLE // 3600)
    week = History(hours=dict.fromkeys(range(now - 168, now), (100, 1)))
    assert week.weekly_rate(MIDDLE) == Fraction(100, 3600)
    plan = plan_of(figures(FAR, 1000, 5), TARGET, (BEGIN, END), MIDDLE, None, week, tokens=False)
    assert plan == (int(10 + Fraction(100, 3600) * int(END - MIDDLE) / 100), PlannedBy.LAST_WEEK)
    young = History(hours=dict.fromkeys(range(now - 20, now), (100, 1)))
    assert plan_of(figures(FAR, 1000, 5), TARGET, (BEGIN, END), MIDDLE, None, young, tokens=False) is None


def test_plans_of_tokens_go_by_the_tokens_of_a_request() -> None:
    tokens = replace(figures(ACME, 600_000, 5), num_requests=2000)
    plan = plan_of(tokens, TARGET, (BEGIN, END), MIDDLE, 4000, History(), tokens=True)
    assert plan == (6000 + 2000 * 300 // 100, PlannedBy.COMMITMENT)


def test_committed_requests_without_one_that_tells_their_tokens_plan_nothing() -> None:
    """Ten requests, all censored: the last week's tokens stand in, and the explanation says so."""
    now = int(MIDDLE // 3600)
    week = History(hours=dict.fromkeys(range(now - 168, now), (3600, 1)))
    empty = figures(ACME, 0, 0)
    assert plan_of(empty, TARGET, (BEGIN, END), MIDDLE, 4000, History(), tokens=True) is None
    plan = plan_of(empty, TARGET, (BEGIN, END), MIDDLE, 4000, week, tokens=True)
    assert plan == (int(END - MIDDLE) // 100, PlannedBy.LAST_WEEK)


def test_unknown_states_lead_to_nothing() -> None:
    assert row_of("far", known()).health is BudgetHealth.NO_TRAFFIC
    no_plan = row_of("far", known(figures(FAR, 1000, 10)))
    assert (no_plan.health, no_plan.planned, no_plan.acted) == (BudgetHealth.NO_PLAN, None, False)
    censored = row_of("acme", known(replace(figures(ACME, 1000, 900), num_censored=300)))
    assert (censored.health, censored.acted) == (BudgetHealth.NOT_JUDGED, False)


def test_a_change_of_state_is_kept_with_its_evidence() -> None:
    assessor = Assessor(Promises(POLICY), known(figures(ACME, 60_000, 1060)), MIDDLE).assess()
    (decided,) = [each for each in assessor.decisions if each.kind is DecisionKind.ACTION]
    action = msgspec.msgpack.decode(decided.data, type=Action)
    assert (action.before, action.after, action.spent, action.planned) == ("healthy", "degraded", 1060, 1100)
    assert decided.key.startswith("action/acme/ttft/2026-11/")
    told = known(figures(ACME, 60_000, 1060), before={ACME: ("2026-11", BudgetHealth.DEGRADED)})
    assert Assessor(Promises(POLICY), told, MIDDLE).assess().decisions == []


def test_dry_run_and_overrides_act_on_nothing() -> None:
    blown = figures(ACME, 60_000, 1200)
    dry = replace(POLICY, budget=BudgetRules(dry_run=True))
    assert (row_of("acme", known(blown), dry).health, row_of("acme", known(blown), dry).acted) == ("exhausted", False)
    override = Override("o1", "acme", "", MIDDLE - 10, MIDDLE + 10, "me")
    held = row_of("acme", known(blown, overrides=(override,)))
    assert (held.acted, held.overridden_by) == (False, "o1")
    assert row_of("acme", known(blown, overrides=(replace(override, until_at=MIDDLE),))).acted


def test_loans_are_decisions_under_counted_keys() -> None:
    what = known(figures(ACME, 60_000, 650), figures(BETA, 50_000, 0), num_pool=4)
    (decided,) = [
        each for each in Assessor(Promises(POLICY), what, MIDDLE).assess().decisions if each.kind is DecisionKind.POOL
    ]
    assert decided.key == "pool/2026-11/ttft/5"
    (entry,) = decided.entries
    assert (entry.kind, entry.source, entry.amount) == (EntryKind.LOAN, "beta/ttft/part", 50)
    lent = Month("2026-11", {ACME: figures(ACME, 60_000, 650), BETA: figures(BETA, 50_000, 0)}, {Loan(BETA, ACME): 50})
    after = known(months={"2026-11": lent})
    row = row_of("acme", after)
    assert (row.borrowed, row.from_loans, row.overdraft) == (50, 50, 0)
    assert row_of("beta", after).lent == 50
    assert not [e for e in Assessor(Promises(POLICY), after, MIDDLE).assess().decisions if e.kind is DecisionKind.POOL]


def test_what_a_tenant_that_left_had_lent_is_not_lent_again() -> None:
    """acme has what it asks for from gone already, who is no longer in the policy; beta need not lend it anew."""
    gone = Owner("gone", "ttft")
    november = {ACME: figures(ACME, 60_000, 650), BETA: figures(BETA, 50_000, 0)}
    for lender in (BETA, gone):
        what = known(months={"2026-11": Month("2026-11", november, {Loan(lender, ACME): 50})})
        assert row_of("acme", what).overdraft == 0
        made = [e for e in Assessor(Promises(POLICY), what, MIDDLE).assess().decisions if e.kind is DecisionKind.POOL]
        assert made == [], lender


def test_other_zones_take_no_part() -> None:
    policy = replace(POLICY, tenants=(POLICY.tenants[0], replace(POLICY.tenants[2], committed=10)))
    what = known(figures(ACME, 60_000, 650), figures(FAR, 50_000, 0), outlooks={ACME: QUIET, FAR: QUIET})
    assert not [e for e in Assessor(Promises(policy), what, MIDDLE).assess().decisions if e.kind is DecisionKind.POOL]


def month_end(what: Known, at: float, policy: Policy = POLICY) -> MonthEnds:
    return MonthEnds(Promises(policy), what, at).settle()


def in_shanghai(what: Known, at: float) -> list[Decided]:
    """New York's month ends thirteen hours later."""
    return [each for each in month_end(what, at).decisions if "Asia" in each.key]


def evidence(decided: Decided) -> CloseEvidence:
    return msgspec.msgpack.decode(decided.data, type=CloseEvidence)


NOVEMBER = (figures(ACME, 100_000, 400), figures(BETA, 20_000, 210, ours=100, upstream=110))


def test_the_next_month_stands_ready_before_midnight() -> None:
    standings = month_end(known(*NOVEMBER), END - 1).standings
    assert [(s.tenant, s.headroom, s.demoted, s.from_at, s.final) for s in standings] == [
        ("acme", 32, False, END, False),  # ⌊64 × 0.6⌋ = 38, capped at half
        ("beta", 0, True, END, False),
    ]
    assert month_end(known(*NOVEMBER), END - 1).decisions == []


def test_from_midnight_provisional_then_closed() -> None:
    first = month_end(known(*NOVEMBER), END)
    (provisional,) = first.decisions
    assert provisional.key == "provisional/Asia/Shanghai/2026-11"
    assert [(e.target, e.amount, e.period) for e in provisional.entries] == [(headroom_of("acme"), 32, "2026-12")]
    assert {(s.tenant, s.headroom, s.demoted, s.from_at) for s in first.standings} >= {
        ("acme", 32, False, END),
        ("beta", 0, True, END),
    }
    zone = ("Asia/Shanghai", "2026-11")
    then = known(figures(ACME, 100_000, 800), NOVEMBER[1], provisional={zone: (evidence(provisional),)})
    assert in_shanghai(then, END + 86_399) == []
    (close,) = in_shanghai(then, END + 86_400)
    moved = {(e.kind, e.source, e.target, e.period): e.amount for e in close.entries}
    assert moved[EntryKind.CORRECT, headroom_of("acme"), "world/@concurrency/headroom", "2026-12"] == 32 - 12
    assert moved[EntryKind.EXPIRE, "acme/ttft/part", "world/ttft/expired", "2026-11"] == 200
    assert moved[EntryKind.CONVERT, "beta/ttft/overdraft", "beta/ttft/bucket", "2026-11"] == 10
    assert ("acme", 12) in {(s.tenant, s.headroom) for s in month_end(then, END + 86_400).standings}
    done = replace(then, closed={zone: (evidence(close),)})
    assert in_shanghai(done, END + 90_000) == []
    assert MonthEnds(Promises(POLICY), done, END + 90_000).close(*zone) is None, "run again it has nothing to add"
    assert {s.final for s in month_end(done, END + 90_000).standings if s.period == "2026-12"} == {True}


def test_a_close_run_again_posts_the_difference() -> None:
    zone = ("Asia/Shanghai", "2026-11")
    first = MonthEnds(Promises(POLICY), known(*NOVEMBER), END + 86_400).close(*zone)
    assert first is not None
    more = known(figures(ACME, 100_000, 470), NOVEMBER[1], closed={zone: (evidence(first),)})
    again = MonthEnds(Promises(POLICY), more, END + 90_000).close(*zone)
    assert again is not None
    assert again.key == "close/Asia/Shanghai/2026-11/2"
    assert [(e.kind, e.source, e.target, e.amount) for e in again.entries] == [
        (EntryKind.CORRECT, "world/ttft/expired", "acme/ttft/bucket", 70)
    ]
    whole = MonthEnds(Promises(POLICY), known(figures(ACME, 100_000, 470), NOVEMBER[1]), END + 90_000).close(*zone)
    assert whole is not None
    one, two = Ledger(), Ledger()
    one.post_all(1, [*first.entries, *again.entries])
    two.post_all(1, whole.entries)
    assert {k: v for k, v in one.balances().items() if v} == {k: v for k, v in two.balances().items() if v}


@pytest.mark.parametrize("late", [0.0, 3600.0, 86_400.0, 40 * 86_400.0])
def test_whoever_comes_late_finds_what_is_due(late: float) -> None:
    kinds = [each.kind for each in in_shanghai(known(*NOVEMBER), END + late)]
    assert kinds == [DecisionKind.PROVISIONAL if late < 86_400 else DecisionKind.CLOSE]


def test_an_override_spares_the_demotion() -> None:
    spared = known(*NOVEMBER, overrides=(Override("o1", "beta", "", END - 10, END + 10 * 86_400, "me"),))
    assert [s.tenant for s in month_end(spared, END).standings if s.demoted and s.from_at == END] == []
    over = month_end(spared, END + 10 * 86_400)
    assert [s.tenant for s in over.standings if s.demoted and s.from_at == END] == ["beta"]


def test_floors_dry_runs_and_rolling_periods() -> None:
    floor = replace(POLICY, budget=BudgetRules(demotion_floor="gold"))
    assert not any(s.demoted for s in month_end(known(*NOVEMBER), END, floor).standings)
    dry = month_end(known(*NOVEMBER), END, replace(POLICY, budget=BudgetRules(dry_run=True)))
    assert (dry.standings, [each.entries for each in dry.decisions]) == ([], [()])
    rolling = month_end(known(*NOVEMBER), END, replace(POLICY, service=Service(period="30d")))
    assert (rolling.standings, rolling.decisions) == ([], [])


def test_a_tenant_that_left_is_closed_with_the_rest() -> None:
    gone = figures(Owner("gone", "ttft"), 10_000, 30)
    close = MonthEnds(Promises(POLICY), known(*NOVEMBER, gone), END + 86_400).close("Asia/Shanghai", "2026-11")
    assert close is not None
    assert {e.source: e.amount for e in close.entries if e.source.startswith("gone/")} == {
        "gone/ttft/bucket": 50,
        "gone/ttft/part": 20,
    }


@pytest.mark.parametrize(("before", "after"), [("2026-12", "2027-01"), ("2024-02", "2024-03"), ("2026-09", "2026-10")])
def test_months_follow_each_other(before: str, after: str) -> None:
    assert month_after(before) == after
    assert month_before(after) == before

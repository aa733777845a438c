"""Law 4 for what the governor does beyond admitting and routing: hedges, drafts, the ladder, reports from outside."""

from collections import Counter
from fractions import Fraction
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.features import Speculation
from plimsoll.governor.decisions import Decision, Dispatch, RunPlugins, Settle
from plimsoll.governor.events import BudgetsReported, BudgetState, CapabilitiesReported
from plimsoll.governor.shown import ReplicaSteadiness
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import CAPABLE, Degradation, Hedging, Policy, Scheduling, Trigger
from plimsoll.policy.schedulingrules import SpeculationRules
from plimsoll.sim.outage import Outage
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Reason
from tests.parity.histories import KEYED, POOL, SMALL, Around, same, wanted
from tests.parity.liveexchange import Wanted

TENANTS = ("acme", "noisy", "eel")
THREE = replace(POOL, replicas=("http://r1", "http://r2", "http://r3"))

# --- hedges ---

HEDGED = replace(
    KEYED,
    pools=(THREE,),
    scheduling=Scheduling(routing="round_robin", hedging=Hedging(beyond=Fraction(3, 4))),
)


def mixed_lengths(num: int) -> list[Wanted]:
    """Mostly short prompts, some of which come to stand behind a long one."""
    return [
        Wanted(0.05, TENANTS[i % 3], 0, 24_000 if i % 13 == 5 else 300, 12, 200, 1, inf, i % 10 != 7)
        for i in range(num)
    ]


def hedges(decisions: list[Decision]) -> list[Dispatch]:
    return [each for each in decisions if isinstance(each, Dispatch) and each.reason is Reason.HEDGED]


def ended_hedges(decisions: list[Decision]) -> Counter[str]:
    return Counter(each.record.hedge for each in decisions if isinstance(each, Settle) and each.record.hedge)


def test_hedges_are_asked_won_and_lost_alike() -> None:
    decisions = same(HEDGED, mixed_lengths(400))
    dispatched = sum(isinstance(each, Dispatch) for each in decisions)
    assert 20 <= len(hedges(decisions)) <= 0.1 * dispatched
    assert ended_hedges(decisions).keys() >= {"won", "lost"}
    settled = [each.record.request_id for each in decisions if isinstance(each, Settle)]
    assert len(settled) == len(set(settled)) == 400


def test_hedges_of_which_either_place_is_lost_with_its_replica() -> None:
    down = tuple(Outage(6.03 + 1.37 * n, f"http://r{n % 3 + 1}", 0.25) for n in range(16))
    decisions = same(HEDGED, mixed_lengths(600), Around(outages=down))
    failed = {each.record.reason for each in decisions if isinstance(each, Settle)}
    assert Reason.CONNECTION_LOST in failed, "answers that had begun broke off"
    retried = [each for each in decisions if isinstance(each, Dispatch) and each.attempt > 1]
    assert len(retried) > len(hedges(decisions)) > 20


def test_nobody_is_hedged_whose_budget_is_spent() -> None:
    spent = BudgetState("acme", "ttft", 1.2, exhausted=True, health=BudgetHealth.EXHAUSTED)
    decisions = same(HEDGED, mixed_lengths(400), Around(told=(BudgetsReported(0.01, (spent,)),)))
    tenants = {each.record.request_id: each.record.tenant for each in decisions if isinstance(each, Settle)}
    assert "acme" not in {tenants[each.request_id] for each in hedges(decisions)}
    assert hedges(decisions)


@settings(max_examples=5, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25), st.sampled_from([0.3, 1.1, 2.7]))
def test_any_clients_after_the_usual_is_known(history: list[Wanted], down_at: float) -> None:
    """What 130 quiet requests showed is the usual; then anything may come, and a replica goes."""
    same(HEDGED, mixed_lengths(140) + history, Around(outages=(Outage(7.2 + down_at, "http://r2", 1.0),)))


# --- drafts ---

GUESSES = Speculation(
    source="a test",
    draft_tokens=4,
    acceptance={"default": (0.8, 0.68, 0.58, 0.5), "noisy": (0.08, 0.01, 0.0, 0.0)},
    draft_time=0.0015,
    draft_time_per_sequence=2e-5,
)
DRAFTING = replace(SMALL, name="drafting", speculation=GUESSES)
WITH_DRAFTS = {"small": SMALL, "drafting": DRAFTING}
RULES = Scheduling(speculation=SpeculationRules(explore=8))
SWITCHED = replace(
    KEYED, pools=(replace(POOL, engine="llamacpp", profile="drafting", speculation="switch"),), scheduling=RULES
)
APART = replace(
    KEYED,
    pools=(
        replace(POOL, name="drafting", replicas=("http://r1",), profile="drafting", speculation="on"),
        replace(POOL, name="plain", replicas=("http://r2",), speculation="off"),
    ),
    scheduling=RULES,
)


def steady(num: int, every: float = 0.25, output: int = 60) -> list[Wanted]:
    return [Wanted(every, TENANTS[i % 3], 0, 500, output, 200, 1, inf, i % 11 != 4) for i in range(num)]


def drafted(decisions: list[Decision], tenant: str) -> list[bool]:
    """In order of dispatch, whether drafts were allowed for the tenant's requests."""
    tenants = {each.record.request_id: each.record.tenant for each in decisions if isinstance(each, Settle)}
    return [
        each.drafts and each.pool != "plain"
        for each in decisions
        if isinstance(each, Dispatch) and tenants[each.request_id] == tenant
    ]


def test_the_switch_is_learnt_and_explored_alike() -> None:
    decisions = same(SWITCHED, steady(150), Around(WITH_DRAFTS))
    noisy = drafted(decisions, "noisy")
    assert noisy[0], "nothing is known yet"
    assert not all(noisy)
    assert any(noisy[noisy.index(False) :]), "one in so many is drafted all the same"
    assert all(drafted(decisions, "acme"))


def test_replicas_that_draft_and_others_apart_are_chosen_alike() -> None:
    decisions = same(APART, steady(150), Around(WITH_DRAFTS))
    assert drafted(decisions, "noisy").count(False) > 20
    assert all(drafted(decisions, "acme"))


@settings(max_examples=8, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25))
def test_two_clocks_with_drafts(history: list[Wanted]) -> None:
    same(SWITCHED, steady(15) + history, Around(WITH_DRAFTS))


# --- the ladder ---

LITE = replace(POOL, name="lite", model="small-m", replicas=("http://r9",), degrade_target=True)
LADDER = replace(
    KEYED,
    pools=(POOL, LITE),
    plugins=(Plugin("guard", simulated=0.0313), Plugin("topic", core=False, simulated=0.0717)),
    degradation=Degradation(
        Trigger(saturation=Fraction(9, 10), for_=1.0), ("drop_plugins", "batch_of_one", "small_model")
    ),
)


def wave(num: int) -> list[Wanted]:
    """Quiet, a flood, quiet again; every third request is not critical."""
    return [
        Wanted(
            0.03 if num // 5 < i < 3 * num // 5 else 0.7,
            TENANTS[i % 3],
            2048,
            3000,
            90,
            200,
            1,
            1.5 if i % 9 == 4 else inf,
            True,
            "default" if i % 3 == 1 else "critical",
        )
        for i in range(num)
    ]


def taken(decisions: list[Decision]) -> list[str]:
    """What was taken from each request that was dispatched, in order."""
    return [each.degraded for each in decisions if isinstance(each, Dispatch)]


def test_the_ladder_is_climbed_and_left_alike() -> None:
    decisions = same(LADDER, wave(200))
    levels = taken(decisions)
    assert set(levels) >= {"", "drop_plugins", "drop_plugins,batch_of_one", "drop_plugins,batch_of_one,small_model"}
    assert levels[0] == levels[-1] == "", "it came down again"
    asked = {each.plugins for each in decisions if isinstance(each, RunPlugins)}
    assert asked == {("guard", "topic"), ("guard",)}
    small = [each for each in decisions if isinstance(each, Dispatch) and each.model]
    assert {(each.model, each.replica) for each in small} == {("small-m", "http://r9")}


def test_a_tail_takes_the_ladder_up_alike() -> None:
    brisk = [Wanted(0.035 if 40 < i < 120 else 0.3, TENANTS[i % 3], 0, 1000, 20, 200, 1, inf, True) for i in range(150)]
    for sli, above in (("ttft", 0.018), ("itl", 0.0125), ("e2e", 0.25)):
        rules = Degradation(Trigger(p99_of=sli, above=above, for_=1.0), ("batch_of_one",))
        levels = taken(same(replace(LADDER, plugins=(), degradation=rules), brisk))
        assert set(levels) == {"", "batch_of_one"}, sli


def test_a_tenant_whose_budget_is_spent_climbs_and_comes_down_alike() -> None:
    degrade = BudgetState("acme", "ttft", 0.97, health=BudgetHealth.DEGRADED, degrade=True)
    told = (
        *[BudgetsReported(3.01 + n, (degrade,)) for n in range(3)],
        *[BudgetsReported(20.01 + n, ()) for n in range(3)],
    )
    quiet = [
        Wanted(0.3, TENANTS[i % 3], 0, 900, 40, 200, 1, inf, True, "default" if i % 2 else "critical")
        for i in range(120)
    ]
    decisions = same(LADDER, quiet, Around(told=told))
    settled = [each.record for each in decisions if isinstance(each, Settle)]
    degraded = [each for each in settled if each.degraded]
    assert {each.tenant for each in degraded} == {"acme"}
    assert max(len(each.degraded.split(",")) for each in degraded) >= 2
    assert not settled[-1].degraded


# --- what replicas have shown in a week ---

CAPABLE_FIRST: Policy = replace(
    KEYED, pools=(THREE,), tiers=tuple(replace(tier, prefer=CAPABLE if tier.rank == 0 else "") for tier in KEYED.tiers)
)


def test_replicas_that_stall_are_avoided_alike_from_the_report_on() -> None:
    stalls = tuple(ReplicaSteadiness(f"http://r{n}", 0.2 if n == 2 else 0.001) for n in (1, 2, 3))
    fine = tuple(ReplicaSteadiness(f"http://r{n}", 0.001) for n in (1, 2, 3))
    told = (CapabilitiesReported(5.0, stalls), CapabilitiesReported(25.0, fine))
    history = [Wanted(0.1, TENANTS[i % 3], 0, 900, 100, 200, 1, inf, True) for i in range(350)]
    decisions = same(CAPABLE_FIRST, history, Around(told=told))
    rows = {each.record.request_id: each.record for each in decisions if isinstance(each, Settle)}
    gold = [(rows[d.request_id].arrived_at - 1000.0, d.replica) for d in decisions
            if isinstance(d, Dispatch) and rows[d.request_id].tenant == "acme"]  # fmt: skip
    share = [
        sum(replica == "http://r2" for at, replica in gold if since < at < until)
        / sum(since < at < until for at, _ in gold)
        for since, until in ((0.0, 5.0), (5.0, 25.0), (25.0, inf))
    ]
    assert share[1] < min(share[0], share[2]) / 2

"""The ladder: one level at a time, hysteresis both ways, what is taken at each level, and for whose sake."""

from fractions import Fraction
from itertools import pairwise
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.governor.degradation import Ladder
from plimsoll.governor.events import BudgetsReported, BudgetState, Criticality, PolicyChanged
from plimsoll.policy.policy import Degradation, Policy, Pool, Tenant, Tier, Trigger
from plimsoll.slo.measured import ItlSketch
from tests.governor.service import Service, all_of, only, row
from tests.laws.histories import START, objectives, policy_of

LEVELS = ("drop_plugins", "batch_of_one", "small_model")
RULES = Degradation(Trigger("ttft", 1.0, 30.0), LEVELS)


def levels(ladder: Ladder, start: int, seconds: int, ttft: float) -> list[int]:
    """The level after each second in which ten requests ended with that TTFT."""
    found = []
    for at in range(start, start + seconds):
        for num in range(10):
            ladder.ended(at + num / 10, ttft, 0.0, 5.0, None)
        ladder.look(at + 0.95)
        found.append(ladder.level)
    return found


def test_one_level_at_a_time_each_after_its_time() -> None:
    seen = levels(Ladder(RULES), 1000, 120, 2.0)
    assert [seen.index(level) for level in (1, 2, 3)] == sorted([seen.index(level) for level in (1, 2, 3)])
    assert seen.index(2) - seen.index(1) >= 30
    assert seen.index(3) - seen.index(2) >= 30
    assert max(seen) == 3


def test_it_comes_down_below_four_fifths_and_holds_in_between() -> None:
    ladder = Ladder(RULES)
    assert levels(ladder, 1000, 70, 2.0)[-1] == 2
    assert levels(ladder, 1070, 300, 0.9)[30:] == [2] * 270  # neither high nor low
    down = levels(ladder, 1370, 150, 0.5)
    assert down[-1] == 0
    assert down.index(0) - down.index(1) >= 30


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(1, 20)), max_size=40))
def test_it_never_jumps_nor_flaps(phases: list[tuple[float, int]]) -> None:
    """Whatever comes: a step is one level, and no two steps are closer than the policy's time."""
    ladder = Ladder(RULES)
    seen = [0]
    at = 1000
    for ttft, seconds in phases:
        seen += levels(ladder, at, seconds, ttft)
        at += seconds
    steps = [i for i in range(1, len(seen)) if seen[i] != seen[i - 1]]
    assert all(abs(seen[i] - seen[i - 1]) == 1 for i in steps)
    assert all(later - earlier >= 29 for earlier, later in pairwise(steps))


def test_itl_counts_tokens() -> None:
    """One gap in a hundred above the limit: P99 is what 99 of 100 stay below; two in a hundred move it."""

    def level(num_slow: int) -> int:
        ladder = Ladder(Degradation(Trigger("itl", 0.2, 10.0), LEVELS))
        sketch = ItlSketch(0, {-150: 1000 - num_slow, -32: num_slow})  # 39 ms and half a second
        for at in range(1000, 1030):
            ladder.ended(float(at), 0.0, 0.0, 1.0, (sketch, ItlSketch(), ItlSketch()))
            ladder.look(at + 0.9)
        return ladder.level

    assert level(5) == 0
    assert level(20) > 0


def policy(levels: tuple[str, ...]) -> Policy:
    made = policy_of(
        tiers=(Tier("gold", 0, Fraction(1, 2), objectives=objectives(1.0)),),
        tenants=(Tenant("ada", "gold"), Tenant("bob", "gold")),
        pools=(
            Pool("chat", "m", "vllm", ("http://r0",)),
            Pool("lite", "small", "vllm", ("http://s0",), degrade_target=True),
        ),
    )
    return Policy(made.service, made.tiers, made.tenants, made.pools, degradation=Degradation(RULES.when, levels))


def climb(service: Service, num: int) -> None:
    """So many levels, by slow first tokens, ten a second."""
    at = 1.0
    ladder = service.governor.pools()[0].ladder
    assert ladder is not None
    while ladder.level < num:
        asked = service.ask(at, prompt=16, output=16)
        if all_of(Dispatch, asked):
            service.done(at + 2.0, service.num, output=10, began=at + 1.9)
        at += 2.1 if ladder.holds("batch_of_one") else 0.1
    assert at < 400


def test_levels_take_plugins_batches_and_the_model() -> None:
    service = Service(policy(LEVELS))
    climb(service, 1)
    sent = only(Dispatch, service.ask(500, prompt=16, output=16))
    assert (sent.degraded, sent.model) == ("drop_plugins", "")
    assert row(service.done(501, sent.request_id)).degraded == "drop_plugins"


def test_batch_of_one_is_one_request_a_replica() -> None:
    service = Service(policy(("batch_of_one",)))
    assert len([d for _ in range(2) for d in all_of(Dispatch, service.ask(0.1, prompt=16, output=16))]) == 2
    for request in (1, 2):
        service.done(0.2, request)
    climb(service, 1)
    running = [d.request_id for _ in range(3) for d in all_of(Dispatch, service.ask(500, prompt=16, output=16))]
    assert len(running) == 1
    assert only(Dispatch, service.done(501, running[0])).degraded == "batch_of_one"
    assert service.governor.snapshot(START + 502).degradation_level == 1


def test_a_reload_leaves_the_level_where_it_is() -> None:
    service = Service(policy(("batch_of_one",)))
    climb(service, 1)
    service.governor.handle(PolicyChanged(START + 499, replace(service.governor.policy, version="v2")))
    running = [d.request_id for _ in range(3) for d in all_of(Dispatch, service.ask(500, prompt=16, output=16))]
    assert len(running) == 1
    assert only(Dispatch, service.done(501, running[0])).degraded == "batch_of_one"
    other = replace(service.governor.policy.degradation, levels=("drop_plugins", "batch_of_one"))
    service.governor.handle(PolicyChanged(START + 502, replace(service.governor.policy, degradation=other)))
    assert service.governor.snapshot(START + 502).degradation_level == 0  # another ladder, at its foot


def test_the_small_model_takes_what_is_not_critical() -> None:
    service = Service(policy(("small_model",)))
    climb(service, 1)
    sent = only(Dispatch, service.ask(500, prompt=16, output=16, criticality=Criticality.DEFAULT))
    assert (sent.pool, sent.model, sent.degraded) == ("lite", "small", "small_model")
    told = row(service.done(501, sent.request_id))
    assert (told.model, told.pool, told.degraded, told.tier) == ("m", "lite", "small_model", "gold")
    assert only(Dispatch, service.ask(502, prompt=16, output=16)).pool == "chat"


def test_a_spent_budget_degrades_its_own_tenant_one_level_a_report() -> None:
    service = Service(policy(("drop_plugins", "small_model")))
    spent = BudgetState("ada", "ttft", 0.96, degrade=True)

    def taken(tenant: str, at: float, criticality: Criticality = Criticality.DEFAULT) -> str:
        return only(Dispatch, service.ask(at, tenant, prompt=16, output=16, criticality=criticality)).degraded

    seen = []
    for minute in range(5):
        service.governor.handle(BudgetsReported(START + 60 * minute, (spent,) if minute < 2 else ()))
        seen.append(taken("ada", 60 * minute + 1.0))
        assert taken("bob", 60 * minute + 2.0) == ""
        assert taken("ada", 60 * minute + 3.0, Criticality.CRITICAL) == ""
    assert seen == ["drop_plugins", "drop_plugins,small_model", "drop_plugins", "", ""]


def test_who_waits_as_the_policy_changes_is_sent_the_model_of_its_new_pool() -> None:
    """It waited for the small model; the new policy takes nothing, so it asks the large one for the large one."""
    service = Service(policy(("small_model",)), kv_blocks=20)
    spent = BudgetState("ada", "ttft", 0.96, degrade=True)
    service.governor.handle(BudgetsReported(START, (spent,)))
    for at in (1.0, 2.0):
        asked = service.ask(at, criticality=Criticality.DEFAULT)
    assert only(Enqueue, asked).request_id == 2
    sent = only(Dispatch, service.governor.handle(PolicyChanged(START + 3, policy(()))))
    assert (sent.request_id, sent.pool, sent.model, sent.degraded) == (2, "chat", "", "")


def test_who_waits_as_the_policy_changes_stays_degraded_where_its_budget_is_spent() -> None:
    service = Service(policy(("small_model",)), kv_blocks=20)
    service.governor.handle(BudgetsReported(START, (BudgetState("ada", "ttft", 0.96, degrade=True),)))
    for at in (1.0, 2.0):
        service.ask(at, criticality=Criticality.DEFAULT)
    service.governor.handle(PolicyChanged(START + 3, policy(("small_model",))))
    sent = only(Dispatch, service.done(4, 1))
    assert (sent.request_id, sent.pool, sent.model, sent.degraded) == (2, "lite", "small", "small_model")


def test_a_pool_of_a_new_policy_degrades_whom_the_last_report_told() -> None:
    service = Service(policy(("drop_plugins",)))
    service.governor.handle(BudgetsReported(START, (BudgetState("ada", "ttft", 0.96, degrade=True),)))
    more = (*service.governor.policy.pools, Pool("new", "n", "vllm", ("http://n0",)))
    service.governor.handle(PolicyChanged(START + 1, replace(service.governor.policy, pools=more)))
    service.report(2.0)
    assert only(Dispatch, service.ask(3, model="n", criticality=Criticality.DEFAULT)).degraded == "drop_plugins"


def test_without_levels_nothing_is_watched() -> None:
    service = Service(policy(()))
    assert service.governor.pools()[0].ladder is None
    assert Degradation().when.above == inf
    assert all_of(Enqueue, service.ask(1, prompt=16, output=16)) == []


def test_the_end_of_batches_of_one_is_used_at_once() -> None:
    """One replica takes one quick request after the other, the other one a long one, two wait: when the level ends
    with one of the quick ones, those that wait go to both replicas, and wait for no report."""
    made = policy(("batch_of_one",))
    (chat, lite) = made.pools
    service = Service(replace(made, pools=(replace(chat, replicas=("http://r0", "http://r1")), lite)))
    climb(service, 1)
    service.report(600)
    at = 600.0
    asked = [only(Dispatch, service.ask(at, prompt=16, output=16)) for _ in range(2)]
    running, long = asked[0].request_id, asked[1].request_id
    sent: list[Dispatch] = []
    while len(sent) < 2:
        service.ask(at, prompt=16, output=16)
        if service.num == long + 1:
            service.ask(at, prompt=16, output=16)
        at += 0.2
        assert at < 800
        sent = all_of(Dispatch, service.done(at, running, output=10, began=at - 0.1))
        running = sent[0].request_id
    assert {each.replica for each in sent} == {"http://r0", "http://r1"}


def test_a_full_pool_climbs_and_an_empty_one_comes_down() -> None:
    ladder = Ladder(Degradation(Trigger(saturation=Fraction(9, 10), for_=10.0), LEVELS))
    for at in range(1000, 1030):
        ladder.look(float(at), 0.95)
    assert ladder.level == 2
    for at in range(1030, 1060):
        ladder.look(float(at), 0.85)
    assert ladder.level == 2, "neither high nor low"
    for at in range(1060, 1090):
        ladder.look(float(at), None)
    assert ladder.level == 2, "not known is not low"
    for at in range(1090, 1120):
        ladder.look(float(at), 0.3)
    assert ladder.level == 0


def test_the_pools_own_saturation_takes_it_up() -> None:
    made = policy(("drop_plugins",))
    rules = Degradation(Trigger(saturation=Fraction(9, 10), for_=5.0), ("drop_plugins",))
    service = Service(replace(made, degradation=rules), kv_blocks=20)
    service.ask(1)
    for at in range(2, 10):
        service.report(float(at))
    assert service.governor.snapshot(START + 10).degradation_level == 1
    service.done(10, 1, output=10)
    for at in range(11, 18):
        service.report(float(at))
    assert service.governor.snapshot(START + 18).degradation_level == 0

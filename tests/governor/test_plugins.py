"""Which plugins look at a request, and what becomes of one that was looked at: the governor's word, none is run."""

from fractions import Fraction

from msgspec.structs import replace

from plimsoll.governor.decisions import Decision, Dispatch, Enqueue, Expire, RunPlugins
from plimsoll.governor.events import (
    BudgetsReported,
    BudgetState,
    Checked,
    Criticality,
    PolicyChanged,
    RequestArrived,
    RequestRead,
)
from plimsoll.governor.pathway import path
from plimsoll.governor.recording import decode, encode
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Degradation, Policy, Pool, Tenant, Tier, Trigger
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.verdict import Judgement
from tests.governor.service import Service, all_of, only, refused, row
from tests.laws.histories import START, objectives, policy_of

PLUGINS = (Plugin("guard"), Plugin("topic", core=False), Plugin("pii", core=False))
ALL = ("guard", "topic", "pii")


def policy(levels: tuple[str, ...] = ("drop_plugins",), saturation: Fraction = Fraction(1, 2)) -> Policy:
    made = policy_of(
        tiers=(Tier("gold", 0, Fraction(1, 2), objectives=objectives(1.0)),),
        tenants=(Tenant("ada", "gold"), Tenant("bob", "gold")),
        pools=(Pool("chat", "m", "vllm", ("http://r0",)),),
    )
    ladder = Degradation(Trigger(saturation=saturation, for_=5.0), levels)
    return replace(made, degradation=ladder, plugins=PLUGINS)


def asked(
    service: Service, at: float, tenant: str = "ada", criticality: Criticality = Criticality.CRITICAL, model: str = "m"
) -> RunPlugins:
    read = RequestRead(START + at, 10_000 + service.num, tenant, model, 160, criticality)
    assert decode(encode(read)) == read
    return only(RunPlugins, service.governor.handle(read))


def full(service: Service, at: float) -> float:
    """Fill the pool and wait until its ladder has climbed; the instant then."""
    service.ask(at)
    for second in range(8):
        service.report(at + 1.0 + second)
    assert service.governor.snapshot(START + at + 9).degradation_level == 1
    return at + 9


def checked(at: float, told: str = "guard:allow", reason: Reason | None = None, dropped: bool = False) -> Checked:
    return Checked(START + at, told, reason, dropped)


def test_all_look_at_it_in_the_policys_order() -> None:
    service = Service(policy())
    decision = asked(service, 1)
    assert (decision.plugins, decision.dropped) == (ALL, ())
    assert asked(service, 2, model="nobody serves this").plugins == ALL, "nobody slips past by asking for nothing"


def test_the_ladder_leaves_out_what_is_not_core() -> None:
    service = Service(policy(), kv_blocks=20)
    at = full(service, 1)
    decision = asked(service, at)
    assert (decision.plugins, decision.dropped) == (("guard",), ("topic", "pii"))
    assert asked(Service(policy(("batch_of_one",)), kv_blocks=20), 1).plugins == ALL


def test_the_ladder_of_the_pool_holds_though_no_replica_is_up() -> None:
    service = Service(policy(), kv_blocks=20)
    at = full(service, 1)
    service.report(at, down=["http://r0"])
    assert asked(service, at).dropped == ("topic", "pii")


def test_a_spent_budget_drops_them_for_what_is_not_critical() -> None:
    service = Service(policy())
    service.governor.handle(BudgetsReported(START, (BudgetState("ada", "ttft", 0.96, degrade=True),)))
    assert asked(service, 1, criticality=Criticality.DEFAULT).dropped == ("topic", "pii")
    assert asked(service, 1).dropped == ()
    assert asked(service, 1, "bob", Criticality.DEFAULT).dropped == ()


def sent(service: Service, at: float, **more: object) -> tuple[Dispatch, Record]:
    dispatch = only(Dispatch, service.ask(at, **more))  # type: ignore[arg-type]
    return dispatch, row(service.done(at + 2, dispatch.request_id, began=at + 1))


def test_their_time_is_told_apart_and_is_part_of_what_was_promised() -> None:
    dispatch, told = sent(Service(policy()), 5.5, checked=checked(5.0, "guard:allow,topic:timeout"))
    assert (told.arrived_at, told.plugin_time, told.plugins) == (START + 5.0, 0.5, "guard:allow,topic:timeout")
    assert (told.queued_for, told.ttft, told.e2e) == (0.0, 1.5, 2.5)
    assert told.dispatched_at == START + 5.5
    assert dispatch.degraded == ""
    verdicts = {verdict.objective: verdict.judgement for verdict in told.verdicts}
    assert verdicts["ttft"] is Judgement.BAD, "1 s was promised from when it was read"


def test_without_plugins_nothing_is_told() -> None:
    _, told = sent(Service(replace(policy(), plugins=())), 5.5)
    assert (told.plugin_time, told.plugins, told.queued_for) == (None, "", 0.0)


def test_who_waits_waits_from_after_them() -> None:
    service = Service(replace(policy(), degradation=Degradation()), kv_blocks=20)
    service.ask(1)
    only(Enqueue, service.ask(5.5, checked=checked(5.0)))
    only(Dispatch, service.done(7, 1))
    told = row(service.done(9, 2, began=8))
    assert (told.plugin_time, told.queued_for, told.ttft) == (0.5, 1.5, 3.0)


def test_its_time_in_the_queue_counts_from_after_them() -> None:
    service = Service(policy(), kv_blocks=20)
    service.ask(1)
    only(Enqueue, service.ask(7, checked=checked(5.0)))
    assert all_of(Expire, service.timer(66)) == [], "60 s in the queue, not since it was read"
    only(Expire, service.timer(67.1))


def test_a_denial_is_the_clients_and_charged_to_nobody() -> None:
    service = Service(policy())
    decisions = service.ask(5.5, checked=checked(5.0, "guard:deny", Reason.PLUGIN_DENIED))
    assert refused(decisions) == (Reason.PLUGIN_DENIED, "")
    told = row(decisions)
    assert (told.outcome, told.phase, told.plugin_time) == (Outcome.REJECTED, Phase.ARRIVAL, 0.5)
    assert {verdict.judgement for verdict in told.verdicts} == {Judgement.EXCLUDED}
    assert told.charge is None
    assert service.governor.snapshot(START + 6).counts[0].by_state["rejected"] == 1


def test_a_plugin_that_must_answer_and_cannot_is_our_own_fault() -> None:
    told = row(Service(policy()).ask(5.5, checked=checked(5.0, "guard:timeout", Reason.PLUGIN_FAILED)))
    assert told.reason is Reason.PLUGIN_FAILED
    judged = {verdict.objective: verdict.judgement for verdict in told.verdicts}
    assert judged["availability"] is Judgement.BAD


def test_a_deadline_that_passes_meanwhile_refuses() -> None:
    decisions = Service(policy()).ask(5.5, checked=checked(5.0), deadline_at=START + 5.2)
    assert refused(decisions)[0] is Reason.DEADLINE


def degraded(decisions: list[Decision]) -> str:
    return only(Dispatch, decisions).degraded


def test_what_was_left_out_is_told_whatever_the_level_is_by_then() -> None:
    service = Service(policy())
    assert degraded(service.ask(5, checked=checked(5.0, "guard:allow,topic:dropped", dropped=True))) == "drop_plugins"
    assert degraded(service.ask(6, checked=checked(6.0))) == ""
    small = Service(policy(), kv_blocks=40)
    at = full(small, 1)
    assert degraded(small.ask(at, checked=checked(at))) == "", "all had looked at it before the level came"


def test_a_reload_changes_who_is_asked() -> None:
    service = Service(policy())
    service.governor.handle(PolicyChanged(START + 1, replace(policy(), plugins=PLUGINS[:1])))
    assert asked(service, 2).plugins == ("guard",)


def test_explain_says_who_would_be_asked_and_who_is_left_out() -> None:
    def told(service: Service, at: float) -> tuple[str, str]:
        found = path(service.governor, RequestArrived(START + at, 99, "ada", "m", 160))
        (step,) = [each for each in found.steps if each.step == "plugins"]
        return step.answer, step.why

    answer, why = told(Service(policy()), 1)
    assert answer == "guard, topic, pii"
    assert "left out" not in why
    service = Service(policy(), kv_blocks=20)
    answer, why = told(service, full(service, 1))
    assert (answer, "left out by the ladder: topic, pii" in why) == ("guard", True)

"""Drafts: how many of their tokens are accepted is learnt by tenant and cause; who is kept from them goes elsewhere."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.governor.decisions import Dispatch, Enqueue
from plimsoll.governor.events import PolicyChanged, ReplicaReport, ReplicasReported, RequestArrived
from plimsoll.governor.pathway import path
from plimsoll.governor.speculating import ENOUGH, Acceptance
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.policy import Policy, Pool, Scheduling, Tenant, Tier
from plimsoll.policy.schedulingrules import SpeculationRules
from plimsoll.requestlog.enginestate import EngineState
from tests.governor.service import Service, all_of, only
from tests.laws.histories import START, objectives, policy_of

RULES = SpeculationRules(Fraction(3, 10), explore=4)


def policy(*pools: Pool, classes: TierClasses | None = None) -> Policy:
    return policy_of(
        tiers=(Tier("gold", 0, objectives=objectives(), classes=classes),),
        tenants=(Tenant("ada", "gold"), Tenant("bob", "gold")),
        pools=pools,
        scheduling=Scheduling(speculation=RULES),
    )


def pool(name: str, speculation: str, sla_class: str = "", engine: str = "vllm") -> Pool:
    return Pool(name, "m", engine, (f"http://{name}",), speculation=speculation, sla_class=sla_class)


ON, OFF = pool("drafting", "on"), pool("plain", "off")


def taught(service: Service, ratio: float, tenant: str = "ada", cause: str = "", at: float = 1.0) -> None:
    """Two requests of it ended, for which 400 tokens were drafted in all."""
    for number in range(2):
        sent = only(Dispatch, service.ask(at + number, tenant, cause=cause))
        service.done(at + number + 0.5, sent.request_id, draft_tokens=200, accepted_tokens=round(200 * ratio))


def sent_to(service: Service, at: float, tenant: str = "ada", cause: str = "") -> str:
    sent = only(Dispatch, service.ask(at, tenant, cause=cause))
    service.done(at + 0.1, sent.request_id)
    return sent.pool


def test_who_is_not_known_is_drafted_and_who_is_badly_guessed_goes_elsewhere() -> None:
    service = Service(policy(OFF, ON))
    assert sent_to(service, 0.5) == "drafting", "whatever the document's order"
    taught(service, 0.05, "ada")
    taught(service, 0.7, "bob", at=3.0)
    assert [sent_to(service, at) for at in (6, 7, 8)] == ["plain"] * 3
    assert [sent_to(service, at, "bob") for at in (9, 10, 11)] == ["drafting"] * 3


def test_one_in_so_many_is_drafted_all_the_same_and_a_change_is_seen() -> None:
    service = Service(policy(ON, OFF))
    taught(service, 0.05)
    assert [sent_to(service, 5 + at) for at in range(8)] == (["plain"] * 3 + ["drafting"]) * 2
    for number in range(10):
        taught(service, 0.95, at=20 + 5 * number)
    assert [sent_to(service, 100 + at) for at in range(4)] == ["drafting"] * 4


def test_causes_are_told_apart_and_a_new_one_goes_by_its_tenant() -> None:
    service = Service(policy(ON, OFF))
    taught(service, 0.05, cause="prose")
    assert sent_to(service, 5, cause="poem") == "plain"
    for number in range(4):
        taught(service, 0.9, cause="code", at=10 + 5 * number)
    assert [sent_to(service, 40, cause=cause) for cause in ("prose", "code")] == ["plain", "drafting"]


def test_room_matters_more_than_drafts() -> None:
    service = Service(policy(ON, OFF), kv_blocks=20)
    taught(service, 0.05)
    pools = [only(Dispatch, service.ask(5 + at)).pool for at in range(2)]
    assert pools == ["plain", "drafting"]
    assert all_of(Enqueue, service.ask(8))


def test_the_tiers_classes_come_first() -> None:
    classes = TierClasses(("fast", "slow"), ("fast", "slow"), ("fast", "slow"))
    pools = (pool("a", "on", "fast"), pool("b", "off", "slow"), pool("c", "off", "fast"))
    service = Service(policy(*pools, classes=classes))
    taught(service, 0.05)
    assert sent_to(service, 5) == "c"
    fewer = Service(policy(*pools[:2], classes=classes))
    taught(fewer, 0.05)
    assert sent_to(fewer, 5) == "a"


def test_an_engine_that_drafts_though_asked_not_to_is_counted() -> None:
    service = Service(policy(pool("switched", "switch", engine="llamacpp")))
    taught(service, 0.05)
    for number, told in enumerate(
        ({}, {"draft_tokens": 0, "accepted_tokens": 0}, {"draft_tokens": 9, "accepted_tokens": 1})
    ):
        sent = only(Dispatch, service.ask(5 + number))
        assert not sent.drafts
        service.done(5.5 + number, sent.request_id, **told)
    (replica,) = service.governor.snapshot(START + 9).pools[0].replicas
    assert replica.drafted_anyway == 1


def test_an_engine_with_a_switch_is_asked_not_to_draft() -> None:
    service = Service(policy(pool("llama", "switch", engine="llamacpp")))
    taught(service, 0.05)
    assert only(Dispatch, service.ask(5)).drafts is False
    assert only(Dispatch, service.ask(6, "bob")).drafts is True
    plain = Service(policy(ON))
    taught(plain, 0.05)
    assert only(Dispatch, plain.ask(5)).drafts is True, "nobody is asked what it cannot do"


def test_without_rules_nothing_is_learnt_into_a_choice() -> None:
    made = policy(ON, OFF)
    service = Service(replace(made, scheduling=Scheduling()))
    taught(service, 0.05)
    assert sent_to(service, 5) == "drafting"
    service.governor.handle(PolicyChanged(START + 6, made))
    service.report(6.5)
    assert sent_to(service, 7) == "plain", "what was seen before the rules came counts"


def test_snapshot_and_explain_tell_it() -> None:
    service = Service(policy(ON, OFF))
    taught(service, 0.05)
    tenants = {each.tenant: each.draft_acceptance for each in service.governor.snapshot(START + 5).tenants}
    assert tenants == {"ada": pytest.approx(0.05), "bob": None}
    steps = {step.step: step for step in path(service.governor, RequestArrived(START + 6, 99, "ada", "m", 160)).steps}
    assert steps["drafts"].answer == "not wanted"
    assert "5% of the tokens drafted" in steps["drafts"].why


# --- from the counters of replicas ---------------------------------------------------------------------------------


def counted(service: Service, at: float, drafted: int, accepted: int) -> None:
    state = EngineState(draft_tokens=drafted, accepted_tokens=accepted)
    report = ReplicaReport("http://drafting", True, START + at, kv_blocks=1000, block_size=16, engine=state)
    service.governor.handle(ReplicasReported(START + at, (report,)))


def ratio_of(service: Service, tenant: str) -> float | None:
    register = service.governor.register
    return register.acceptance.ratio(register.account(tenant).index, "")


def running(service: Service, at: float, tenant: str) -> int:
    sent = only(Dispatch, service.ask(at, tenant))
    service.first(at + 0.1, sent.request_id)
    return sent.request_id


def test_counters_teach_where_answers_tell_nothing() -> None:
    service = Service(policy(ON))
    running(service, 1, "ada")
    counted(service, 2, 1000, 100)
    assert ratio_of(service, "ada") is None, "a first report says nothing of now"
    counted(service, 3, 1600, 160)
    assert ratio_of(service, "ada") == pytest.approx(0.1)
    assert ratio_of(service, "bob") is None
    counted(service, 4, 30, 30)
    assert ratio_of(service, "ada") == pytest.approx(0.1), "a new process counts from zero"
    counted(service, 5, 630, 330)
    assert ratio_of(service, "ada") == pytest.approx(0.3, abs=0.05)


def test_answers_that_tell_are_believed_before_counters() -> None:
    service = Service(policy(ON))
    taught(service, 0.8)
    running(service, 5, "ada")
    counted(service, 6, 0, 0)
    counted(service, 7, 5000, 0)
    assert ratio_of(service, "ada") == pytest.approx(0.8)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(0, 1 << 30))
def test_kinds_that_run_together_are_told_apart(ada: float, bob: float, seed: int) -> None:
    """Counters see sums only; as the mixture changes, each tenant's own ratio comes out, within two minutes here."""
    dice = Random(seed)
    service = Service(policy(ON), kv_blocks=100_000)
    open_of: dict[str, list[int]] = {"ada": [], "bob": []}
    drafted, accepted, at = 1, 0, 1.0
    counted(service, at, drafted, accepted)
    for _ in range(120):
        for tenant, requests in open_of.items():
            wanted = dice.randint(0, 6)
            while len(requests) > wanted:
                service.done(at, requests.pop())
            while len(requests) < wanted:
                requests.append(running(service, at, tenant))
        at += 1.0
        num_ada, num_bob = len(open_of["ada"]), len(open_of["bob"])
        drafted += 100 * (num_ada + num_bob)
        accepted += round(100 * (num_ada * ada + num_bob * bob))
        counted(service, at, drafted, accepted)
    assert ratio_of(service, "ada") == pytest.approx(ada, abs=0.1)
    assert ratio_of(service, "bob") == pytest.approx(bob, abs=0.1)


def test_few_tokens_are_not_enough() -> None:
    acceptance = Acceptance()
    acceptance.rules = RULES
    acceptance.learn(1, "x", "r", int(ENOUGH) - 1, 0)
    assert acceptance.ratio(1, "x") is None
    assert not acceptance.keeps_from(1, "x")
    acceptance.learn(1, "x", "r", 1, 0)
    assert acceptance.ratio(1, "x") == 0.0

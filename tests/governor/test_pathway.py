"""The path of a request in words: it ends as the governor decides, and a snapshot is enough to ask about a live one."""

from fractions import Fraction

import msgspec
import pytest

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Dispatch, Enqueue, Reject
from plimsoll.governor.events import (
    BudgetsReported,
    BudgetState,
    Criticality,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
)
from plimsoll.governor.governor import Governor
from plimsoll.governor.pathway import Path, path
from plimsoll.governor.restoring import restore
from plimsoll.governor.snapshot import Snapshot
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.policy import (
    Adapt,
    Adaptive,
    Hedging,
    Limits,
    Order,
    Policy,
    Pool,
    RoutingRule,
    Scheduling,
    Tenant,
)
from plimsoll.policy.schedulingrules import RequestClass
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, only
from tests.laws.histories import START, policy_of
from tests.laws.test_every_rule import policy_under

TENANTS = (Tenant("ada", "gold", limits=Limits(concurrency=3, tokens_per_minute=100_000)), Tenant("dan", "bronze"))


def asked(at: float = 5.0, tenant: str = "ada", prompt: int = 160, output: int = 160, **more: object) -> RequestArrived:
    told: dict[str, object] = {"model": "m", "prompt_tokens": prompt, "max_output_tokens": output, **more}
    named = {"at": START + at, "request_id": 77_777, "tenant": tenant, "type": "RequestArrived"}
    return msgspec.convert(named | told, RequestArrived)


def through_a_snapshot(service: Service, event: RequestArrived, known: dict[str, EngineProfile] | None = None) -> Path:
    """What a governor that only knows the JSON of the snapshot says."""
    text = msgspec.json.encode(service.governor.snapshot(event.at))
    again = Governor(service.governor.policy, known)
    restore(again, msgspec.json.decode(text, type=Snapshot), event)
    return path(again, event)


def answers(told: Path) -> dict[str, str]:
    return {step.step: f"{step.answer}: {step.why}" for step in told.steps}


def test_it_ends_as_the_governor_decides_and_says_by_which_numbers() -> None:
    service = Service(policy_of(tenants=TENANTS))
    told = path(service.governor, asked())
    assert (told.decision, told.reason, told.replica) == ("dispatch", "fits", "http://r0")
    assert [replica.right for replica in told.replicas] == ["own floor", "own floor"]
    assert answers(told)["reservation"].startswith("160 prompt + 1 × 160 output tokens: as the client asked")
    assert "100000 of 100000 tokens left this minute, it takes 320" in answers(told)["limits"], "before it is taken"


@pytest.mark.parametrize(
    ("event", "reason", "words"),
    [
        (asked(tenant="nobody"), Reason.UNKNOWN_KEY, "names no tenant 'nobody'"),
        (asked(model="x"), Reason.UNKNOWN_MODEL, "known: m"),
        (asked(tier="gold", tenant="dan"), Reason.FORBIDDEN_TIER, "may use bronze"),
        (asked(prompt=300_000), Reason.TENANT_TOKENS, "it takes 300160"),
    ],
)
def test_a_refusal_is_explained(event: RequestArrived, reason: Reason, words: str) -> None:
    service = Service(policy_of(tenants=TENANTS))
    if reason is Reason.TENANT_TOKENS:
        service.ask(1, prompt=60_000)
    told = path(service.governor, event)
    assert (told.decision, told.reason) == ("reject", reason.value)
    assert words in "; ".join([*answers(told).values(), told.why])


def test_a_snapshot_says_who_is_in_the_way() -> None:
    """One replica of 60 blocks, 30 of them gold's floor: each tier runs one of 20, dan's second waits."""
    service = Service(policy_of(tenants=TENANTS, num_replicas=1), kv_blocks=60)
    service.ask(1, "ada")
    service.ask(1, "dan")
    service.ask(2, "dan")
    waits = through_a_snapshot(service, asked(tenant="dan"))
    assert (waits.decision, waits.replica) == ("enqueue", "")
    assert waits.replicas[0].why_not == "20 are free, but floors of other tiers hold them"
    assert "1 of bronze" in answers(waits)["queue"]
    full = through_a_snapshot(service, asked(tenant="dan", prompt=640))
    assert full.replicas[0].why_not == "50 needed, 20 free"
    limited = through_a_snapshot(service, asked())
    assert limited.decision == "dispatch"
    service.ask(3, "ada", output=2)
    service.ask(3, "ada", output=2)
    assert through_a_snapshot(service, asked()).reason == Reason.TENANT_CONCURRENCY.value


def test_a_snapshot_without_accounts_is_the_same_but_for_them() -> None:
    service = Service(policy_of(tenants=TENANTS, num_replicas=1), kv_blocks=60)
    for tenant in ("ada", "dan", "dan"):
        service.ask(1, tenant)
    whole = service.governor.snapshot(START + 2)
    assert whole.counts
    assert len(whole.tenants) == len(TENANTS)
    bare = msgspec.structs.replace(whole, counts=(), tenants=())
    assert service.governor.snapshot(START + 2, with_accounts=False) == bare


def test_a_snapshot_says_what_is_wrong_with_replicas() -> None:
    service = Service(policy_of(tenants=TENANTS, num_replicas=3))
    service.report(2, down=("http://r0",))
    service.ask(3)
    service.failed(3.1, 1, Reason.ENGINE_BUSY, 30.0)
    told = through_a_snapshot(service, asked())
    why = {replica.replica: replica.why_not for replica in told.replicas}
    assert why["http://r0"] == "it is down"
    assert why["http://r1"].startswith("it is left alone for 28.1 s")
    assert (told.replica, why["http://r2"]) == ("http://r2", "")


def test_a_snapshot_carries_budgets_ladder_and_learnt_outputs() -> None:
    policy = policy_under(Scheduling(oversubscription=Fraction(1, 10)))
    service = Service(policy, profiles={"h100-llama70b-tp4": profiles.load("h100-llama70b-tp4")})
    for num in range(20):
        service.ask(num, "dan", output=400)
        service.done(num + 0.5, num + 1, output=100)
    for at in (30, 31, 32):
        service.governor.handle(BudgetsReported(START + at, (BudgetState("dan", "ttft", 0.97, degrade=True),)))
    event = asked(40, "dan", output=400, criticality="default")
    told = through_a_snapshot(service, event, {"h100-llama70b-tp4": profiles.load("h100-llama70b-tp4")})
    assert told.pool == "lite"
    assert "small_model" in told.degraded
    assert "spent: ttft" in answers(told)["budget"]
    assert 95 <= told.reserved_output_tokens <= 105
    critical = msgspec.structs.replace(event, criticality=Criticality.CRITICAL)
    told = through_a_snapshot(service, critical, {"h100-llama70b-tp4": profiles.load("h100-llama70b-tp4")})
    assert (told.pool, told.degraded) == ("chat", "")


def test_it_tells_predictions_where_routing_goes_by_them() -> None:
    known = {"h100-llama70b-tp4": profiles.load("h100-llama70b-tp4")}
    pools = (Pool("chat", "m", "vllm", ("http://r0", "http://r1"), profile="h100-llama70b-tp4"),)
    policy = policy_of(tenants=TENANTS, pools=pools, scheduling=Scheduling(routing=RoutingRule.PREDICTED))
    service = Service(policy, profiles=known)
    service.ask(1, "dan", prompt=8000)
    first, second = through_a_snapshot(service, asked(1.1), known).replicas
    assert first.predicted_ttft is not None
    assert second.predicted_ttft is not None
    assert first.predicted_ttft > second.predicted_ttft + 0.5, "8,000 tokens are before it there"


@pytest.mark.parametrize("seed", range(6))
def test_what_a_snapshot_is_enough_for_agrees_with_the_live_governor(seed: int) -> None:
    """Slots, no lending to guess, no prefixes: then a snapshot holds everything."""
    policy = policy_of(tenants=(Tenant("ada", "gold"), Tenant("dan", "bronze")), num_replicas=3)
    policy = _with_slots(policy, 4)
    service = Service(policy, kv_blocks=None)
    for num in range(5 + seed * 3):
        service.ask(1 + num / 10, "ada" if (num + seed) % 3 else "dan")
    for tenant in ("ada", "dan"):
        told = through_a_snapshot(service, asked(6, tenant))
        decisions = service.ask(6, tenant)
        kinds = {Dispatch: "dispatch", Enqueue: "enqueue", Reject: "reject"}
        (really,) = [decision for decision in decisions if type(decision) in kinds]
        assert told.decision == kinds[type(really)]
        assert told.replica == getattr(really, "replica", "")


def _with_slots(policy: Policy, slots: int) -> Policy:
    (pool,) = policy.pools
    return msgspec.structs.replace(policy, pools=(msgspec.structs.replace(pool, max_concurrency=slots),))


def told_of(scheduling: Scheduling, budget: BudgetRules | None = None, **more: object) -> dict[str, str]:
    policy = msgspec.structs.replace(policy_of(tenants=TENANTS, scheduling=scheduling), budget=budget or BudgetRules())
    service = Service(policy)
    return answers(path(service.governor, asked(**more)))  # type: ignore[arg-type]


def test_it_tells_by_which_order_and_as_what_a_request_would_wait() -> None:
    classes = (RequestClass("log", ("log",), Fraction(1, 2), 5.0, True),)
    rules = Scheduling(order=Order.EDF, classes=classes, bypasses=3, bypass_for=20.0)
    turn = told_of(rules, cause="log", criticality="critical")["turn"]
    log = "edf: class log of its tenant's turns, weight 0.5, half of it after each 5s of pressure; critical"
    assert turn.startswith(log)
    assert "gives its place in a full queue" in turn
    assert turn.endswith("may be passed 3 times, for 20s at most")
    plain = told_of(Scheduling(), criticality="default")["turn"]
    assert plain.startswith("fair: in an overload that lasts")
    assert plain.endswith("may be passed 16 times")
    assert "hedging" not in told_of(Scheduling())


def test_it_tells_who_computes_the_prompt_and_with_whom_a_pool_shares_its_replicas() -> None:
    apart = Pool("apart", "p", "vllm", ("http://d0",), prefill=("http://p0", "http://p1"), prefill_from=100)
    own = Pool("mixed", "m", "vllm", ("http://r0", "http://r1"), max_prompt_tokens=32_000)
    long = Pool("long", "m", "vllm", ("http://l0",), min_prompt_tokens=32_000, adaptive=Adaptive("mixed", 2))
    service = Service(policy_of(tenants=TENANTS, pools=(apart, own, long)))
    reports = tuple(ReplicaReport(name, True, START) for name in apart.prefill)
    service.governor.handle(ReplicasReported(START, reports))
    service.ask(1, model="p", prompt=500)
    told = answers(path(service.governor, asked(2, model="p", prompt=500)))
    assert told["prefill"] == "http://p1: 0 prompt tokens are before it there, the fewest"
    short = answers(path(service.governor, asked(3, model="p", prompt=50, request_id=2_000)))
    assert short["prefill"].startswith("where it is decoded")
    shares = answers(path(service.governor, asked(4, prompt=50, request_id=2_001)))["pool"]
    assert shares.endswith("shares its replicas with long: it has 2 now, long 1")


def test_it_tells_how_a_token_rate_has_adapted() -> None:
    limits = Limits(tokens_per_minute=100_000, adapt=Adapt())
    service = Service(policy_of(tenants=(Tenant("ada", "gold", limits=limits),)))
    flow = service.governor.register.account("ada").flow
    assert flow is not None
    flow.factor = 0.8
    assert "the token rate is 80% of the policy's" in answers(path(service.governor, asked()))["limits"]


def test_it_tells_whether_it_would_be_hedged() -> None:
    service = Service(policy_of(tenants=TENANTS, num_replicas=2, scheduling=Scheduling(hedging=Hedging())))
    assert answers(path(service.governor, asked(4, streaming=False)))["hedging"].startswith("no: only streams")
    assert answers(path(service.governor, asked(4.1, request_id=77_778)))["hedging"].startswith("not yet: too few")
    for num in range(120):
        sent = only(Dispatch, service.ask(5 + num, "dan", prompt=16, output=16))
        service.first(5.25 + num, sent.request_id)
        service.done(5.5 + num, sent.request_id)
    told = answers(path(service.governor, asked(200, request_id=77_779)))["hedging"]
    assert told.startswith("if late: a first token later than 25")
    service.governor.handle(BudgetsReported(START + 201, (BudgetState("ada", "ttft", 1.1, exhausted=True),)))
    assert (
        answers(path(service.governor, asked(202, request_id=77_780)))["hedging"] == "no: its tenant's budget closes it"
    )


def test_it_tells_what_budgets_close_as_the_policy_says() -> None:
    assert told_of(Scheduling(), BudgetRules(healthy_allows=("lending", "hedging")))["budget"] == (
        "not reported: not known to be healthy: its tier's idle floor is not lent on time; "
        "it is asked of no second replica"
    )
    assert told_of(Scheduling())["budget"] == "not reported: risky choices are open"

"""What is refused on arrival, with which reason and numbers; nothing refused so reaches an engine."""

from fractions import Fraction

from plimsoll.governor.decisions import Dispatch, Settle
from plimsoll.governor.events import DrainStarted, ReplicaReport, ReplicasReported, RequestRefused
from plimsoll.governor.governor import Governor
from plimsoll.ledger.ledger import Ledger
from plimsoll.policy.policy import Limits, Pool, Tenant
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, only, refused, row
from tests.laws.histories import START, policy_of


def test_unknown_model_lists_the_known() -> None:
    assert refused(Service(policy_of()).ask(1, model="gpt-9")) == (Reason.UNKNOWN_MODEL, "known: m")


def test_a_model_that_is_an_adapter_is_told_as_such() -> None:
    """vLLM takes the adapter's name as the model; the row says both."""
    policy = policy_of(pools=(Pool("chat", "m", "vllm", ("http://r0",), adapters=("law",)),))
    service = Service(policy)
    assert only(Dispatch, service.ask(1, model="law")).model == ""
    assert (row(service.done(2, 1)).adapter, only(Dispatch, service.ask(3)).replica) == ("law", "http://r0")
    assert row(service.done(4, 2)).adapter == ""


def test_aliases_are_known() -> None:
    policy = policy_of(pools=(Pool("chat", "m", "vllm", ("http://r0",), aliases=("gpt-4",)),))
    assert only(Dispatch, Service(policy).ask(1, model="gpt-4")).model == ""


def test_engines_that_schedule_by_priority_are_told_the_rank() -> None:
    plain, ranked = (Pool("chat", "m", "vllm", ("http://r0",), engine_priority=flag) for flag in (False, True))
    assert only(Dispatch, Service(policy_of(pools=(plain,))).ask(1)).priority is None
    asked = [("ada", 0), ("cyd", 1), ("dan", 2)]  # gold, silver, bronze
    for tenant, rank in asked:
        assert only(Dispatch, Service(policy_of(pools=(ranked,))).ask(1, tenant)).priority == rank


def test_prompt_too_long_says_both_numbers() -> None:
    policy = policy_of(pools=(Pool("chat", "m", "vllm", ("http://r0",), max_context=32_768),))
    reason, detail = refused(Service(policy).ask(1, prompt=40_000))
    assert (reason, detail) == (Reason.PROMPT_TOO_LONG, "prompt 40000 tokens, largest context 32768")
    assert only(Dispatch, Service(policy, kv_blocks=5000).ask(1, prompt=32_767)).pool == "chat"


def test_prompt_ranges_are_half_open() -> None:
    policy = policy_of(
        pools=(
            Pool("chat", "m", "vllm", ("http://r0",), max_prompt_tokens=1000),
            Pool("long", "m", "vllm", ("http://r1",), min_prompt_tokens=1000),
        )
    )
    service = Service(policy)
    assert only(Dispatch, service.ask(1, prompt=999)).pool == "chat"
    assert only(Dispatch, service.ask(1, prompt=1000)).pool == "long"


def test_context_is_learnt_from_reports() -> None:
    service = Service(policy_of())
    service.report(0.5, max_context=4096)
    reason, detail = refused(service.ask(1, prompt=5000))
    assert (reason, detail) == (Reason.PROMPT_TOO_LONG, "prompt 5000 tokens, largest context 4096")


def test_a_replica_that_has_not_reported_gets_nothing() -> None:
    governor = Governor(policy_of())
    service = Service(policy_of())
    service.governor = governor
    assert refused(service.ask(1))[0] is Reason.NO_REPLICA
    governor.handle(ReplicasReported(START + 2, (ReplicaReport("http://r1", True, START + 2),)))
    assert only(Dispatch, service.ask(3)).replica == "http://r1"


def test_tiers_and_labels() -> None:
    tenants = (Tenant("ada", "gold", require_cause=True), Tenant("eve", "bronze", tiers=("silver",)))
    service = Service(policy_of(tenants=tenants))
    assert refused(service.ask(1))[0] is Reason.LABEL_REQUIRED
    assert only(Dispatch, service.ask(1, cause="checkout")).tier_served == "gold"
    assert only(Dispatch, service.ask(1, "eve", tier="silver")).tier_served == "silver"
    assert refused(service.ask(1, "eve", tier="gold")) == (
        Reason.FORBIDDEN_TIER,
        "asked for tier 'gold', may use bronze, silver",
    )


def test_what_names_no_cause_is_tagged_where_the_policy_says_so() -> None:
    """In its row and in the classes that divide its tenant's turns; what names one keeps it."""
    service = Service(policy_of(tenants=(Tenant("ada", "gold", default_cause="unlabelled"),)))
    for number, cause in enumerate(("", "checkout"), 1):
        request_id = only(Dispatch, service.ask(number, cause=cause)).request_id
        (settled,) = [each for each in service.done(number + 0.5, request_id) if isinstance(each, Settle)]
        assert settled.record.cause == (cause or "unlabelled")


def test_tenants_nobody_knows_and_a_passed_deadline() -> None:
    service = Service(policy_of())
    assert refused(service.ask(1, "mallory"))[0] is Reason.UNKNOWN_KEY
    assert refused(service.ask(1, deadline_at=START + 0.5))[0] is Reason.DEADLINE


def test_limits_and_what_they_give_back() -> None:
    tenants = (
        Tenant("ada", "gold", limits=Limits(concurrency=1)),
        Tenant("bob", "gold", limits=Limits(requests_per_minute=2)),
        Tenant("cyd", "gold", limits=Limits(tokens_per_minute=1000)),
    )
    service = Service(policy_of(tenants=tenants))
    first = only(Dispatch, service.ask(1)).request_id
    assert refused(service.ask(1))[0] is Reason.TENANT_CONCURRENCY
    service.done(2, first)
    assert only(Dispatch, service.ask(2))
    service.ask(1, "bob")
    service.ask(1, "bob")
    assert refused(service.ask(1, "bob"))[0] is Reason.TENANT_RATE
    assert only(Dispatch, service.ask(31.1, "bob"))
    big = only(Dispatch, service.ask(1, "cyd", prompt=160, output=800)).request_id
    assert refused(service.ask(2, "cyd"))[0] is Reason.TENANT_TOKENS
    service.done(3, big, output=10)  # 790 of the 800 reserved come back
    assert only(Dispatch, service.ask(4, "cyd"))


def test_refusals_by_a_tenants_own_limits_cost_no_budget_ours_do() -> None:
    service = Service(policy_of(tenants=(Tenant("ada", "gold", limits=Limits(concurrency=0)), Tenant("bob", "gold"))))
    assert only(Settle, service.ask(1)).entries == ()
    service.report(2, down=("http://r0", "http://r1"))
    settle = only(Settle, service.ask(3, "bob"))
    assert settle.record.reason is Reason.NO_REPLICA
    ledger = Ledger()
    ledger.post_all(settle.record.request_id, settle.entries)
    assert ledger.balance("bob/availability/spent:ours", "2025-11") == 1
    assert ledger.balance("bob/ttft/bucket", "2025-11") == -1


def test_what_the_hands_refused_is_counted_and_settled() -> None:
    service = Service(policy_of())
    record = row(service.governor.handle(RequestRefused(START + 1, 99, "ada", Reason.BAD_REQUEST, "m", "mine")))
    assert (record.outcome, record.reason, record.client_request_id) == (
        Outcome.REJECTED,
        Reason.BAD_REQUEST,
        "mine",
    )
    counts = {(c.tenant, c.tier): c for c in service.governor.snapshot(START + 1).counts}
    assert counts["ada", "gold"].by_state["rejected"] == 1


def test_nothing_new_is_taken_while_draining() -> None:
    service = Service(policy_of())
    service.governor.handle(DrainStarted(START + 1, 5.0))
    assert refused(service.ask(2))[0] is Reason.DRAINING


def test_output_is_reserved_by_what_is_usual() -> None:
    """Before anything is known: what the client asks; then a high quantile of the tenant's outputs, never more."""
    service = Service(policy_of(), kv_blocks=100_000)
    assert only(Dispatch, service.ask(1, output=2000)).reserved_output_tokens == 2000
    for num in range(30):
        service.done(2 + num, only(Dispatch, service.ask(2 + num)).request_id, output=100)
    assert 100 <= only(Dispatch, service.ask(50, output=2000)).reserved_output_tokens <= 103
    assert only(Dispatch, service.ask(50, output=50)).reserved_output_tokens == 50
    assert 100 <= only(Dispatch, service.ask(50, output=0)).reserved_output_tokens <= 103


def test_weights_are_exact_at_load() -> None:
    policy = policy_of(tenants=(Tenant("ada", "gold", weight=Fraction(1, 3)),))
    assert only(Dispatch, Service(policy).ask(1))

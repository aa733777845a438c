"""Law 8, the governor's part: what is not known is None or a state of its own, never a number that looks measured."""

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.governor.baseline import AT_LEAST, Baseline
from plimsoll.governor.decisions import Settle
from plimsoll.governor.estimates import DrainRate, Histogram
from plimsoll.governor.events import Endpoint
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Limits, Pool, Tenant
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement
from tests.governor.service import Service, all_of, only, row
from tests.laws.histories import START, policy_of

PROFILE = EngineProfile("p", "a test", StepCoefficients(a=0.02), StepCoefficients(a=0.02, e=1e-4))


def test_nothing_is_estimated_from_too_little() -> None:
    histogram, drain = Histogram(20), DrainRate()
    median = histogram.follow(1, 2)
    for _ in range(19):
        histogram.add(3.0)
    assert median.upper() is None
    assert median.middle() is None
    drain.departed(START)
    assert drain.gap(START + 1) is None


def test_a_baseline_says_where_it_is_from() -> None:
    unknown, predicted = Baseline(None), Baseline(PROFILE)
    assert unknown.of(START, 1000, 0) == (None, None, "")
    ttft, tpot, source = predicted.of(START, 1000, 0)
    assert source == "profile"
    assert ttft is not None
    assert tpot is not None
    for num in range(AT_LEAST):
        assert predicted.of(START, 1000, 0)[2] == "profile"
        predicted.add(START + num, 1000, 0, 0.5, 0.03)
    ttft, tpot, source = predicted.of(START + 200, 1000, 0)
    assert source == "median"
    assert ttft is not None
    assert abs(ttft - 0.5) < 0.5 * 0.011
    assert predicted.of(START, 1000, 500)[2] == "profile", "a cache hit is another class"
    assert predicted.of(START + 8 * 86_400, 1000, 0)[2] == "profile", "older than seven days is forgotten"


def test_a_row_without_reports_tokens_or_usage_has_no_such_numbers() -> None:
    pools = (Pool("chat", "m", "openai", ("http://r0",)),)
    service = Service(policy_of(pools=pools), kv_blocks=None)
    service.ask(1, output=0)
    record = row(service.done(2, 1, output=0, prompt_tokens=0))
    assert (record.report_running, record.report_waiting, record.report_kv_usage) == (None, None, None)
    assert (record.ttft, record.tpot, record.itl_max, record.itl_sketches) == (None, None, None, None)
    assert (record.cached_tokens, record.baseline, record.baseline_from) == (None, None, "")
    assert (record.prompt_tokens, record.kv_blocks_reserved) == (160, 0)


def test_what_was_refused_never_ran() -> None:
    service = Service(policy_of(tenants=(Tenant("ada", "gold", limits=Limits(concurrency=0)),)))
    record = row(service.ask(1))
    assert (record.dispatched_at, record.first_token_at, record.e2e) == (None, None, None)
    assert (record.pool, record.replica, record.tier_served, record.attempts) == ("", "", "", 0)
    assert all(v.judgement is Judgement.EXCLUDED for v in record.verdicts)


def test_no_promise_is_made_where_nothing_can_be_predicted() -> None:
    service = Service(policy_of())
    service.report(1, down=("http://r0", "http://r1"))
    decisions = service.ask(2)
    assert [getattr(d, "retry_after", None) for d in decisions if not isinstance(d, Settle)] == [0.0]


def test_a_pool_without_replicas_has_no_saturation() -> None:
    governor = Governor(policy_of())
    state = governor.snapshot(START).pools[0]
    assert state.saturation is None
    assert {replica.report_age for replica in state.replicas} == {None}


def test_an_embedding_reserves_no_output_and_is_not_judged_by_tokens() -> None:
    service = Service(policy_of())
    service.ask(1, endpoint=Endpoint.EMBEDDINGS, streaming=False)
    record = row(service.done(2, 1, output=0))
    assert record.kv_blocks_reserved == 10
    judged = {v.objective: v.judgement for v in record.verdicts}
    assert judged == {
        "ttft": Judgement.EXCLUDED,
        "itl": Judgement.EXCLUDED,
        "e2e": Judgement.GOOD,
        "availability": Judgement.GOOD,
    }


def test_a_deadline_that_no_engine_could_meet_is_not_held_against_us() -> None:
    pools = (Pool("chat", "m", "vllm", ("http://r0",), profile="p"),)
    service = Service(policy_of(pools=pools), kv_blocks=20, profiles={"p": PROFILE})
    service.ask(1)
    service.ask(2, deadline_at=START + 2.001)
    service.ask(2, deadline_at=START + 5)
    settled = all_of(Settle, service.timer(2.5)) + all_of(Settle, service.timer(5.5))
    assert [(s.record.outcome, s.record.reason) for s in settled] == [(Outcome.EXPIRED, Reason.DEADLINE)] * 2
    assert settled[0].entries == ()
    assert len(settled[1].entries) > 0
    assert only(Settle, service.done(6, 1)).record.outcome is Outcome.COMPLETED

"""The settlement of a request that was open when the gateway died: who was promised what, and that we failed."""

from plimsoll.governor.decisions import Settle
from plimsoll.governor.settlement import spend
from plimsoll.policy.objective import Objective
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import Open
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import Charge, Facts, Verdict, judge
from plimsoll.storage.periods import period_for


def settlement(opened: Open, policy: Policy, at: float) -> Settle:
    """Judge it as DESIGN's table says of interrupted requests, by the policy that was in force, at the instant `at`.

    What died with the gateway (tokens that came, the replica) is unknown and stays so. A tier that the policy does not
    have promises nothing.
    """
    verdicts = judge(
        _objectives(policy, opened.tier),
        Facts(
            Outcome.INTERRUPTED,
            Reason.GATEWAY_DIED,
            opened.arrived_at,
            at,
            Timing(),
            generative=opened.endpoint != "embeddings",
            streaming=opened.streaming,
            num_choices=opened.num_choices,
            judge_non_streaming=policy.service.judge_non_streaming,
            upstream_time=opened.upstream_time,
        ),
    )
    period = period_for(opened.arrived_at, opened.tenant, policy)
    return Settle(_record(opened, policy, at, verdicts), spend(opened.tenant, verdicts, period))


def _objectives(policy: Policy, tier: str) -> tuple[Objective, ...]:
    return next((known.objectives for known in policy.tiers if known.name == tier), ())


def _record(opened: Open, policy: Policy, at: float, verdicts: tuple[Verdict, ...]) -> Record:
    return Record(
        request_id=opened.request_id,
        client_request_id="",
        trace_id="",
        session=opened.session,
        tenant=opened.tenant,
        tier=opened.tier,
        tier_served="",
        model=opened.model,
        adapter="",
        precision="",
        pool="",
        replica="",
        region="",
        cause=opened.cause,
        criticality="",
        endpoint=opened.endpoint,
        streaming=opened.streaming,
        deadline=None,
        arrived_at=opened.arrived_at,
        dispatched_at=None,
        first_token_at=None,
        finished_at=at,
        upstream_time=opened.upstream_time,
        upstream_trust="",
        queued_for=0.0,
        ttft=None,
        tpot=None,
        e2e=None,
        itl_max=None,
        itl_sketches=None,
        prompt_tokens=0,
        cached_tokens=None,
        output_tokens=0,
        outcome=Outcome.INTERRUPTED,
        phase=Phase.NONE,
        reason=Reason.GATEWAY_DIED,
        degraded="",
        client_stall=0.0,
        baseline=None,
        baseline_from="",
        upstream_baseline=None,
        kv_blocks_reserved=0,
        kv_blocks_used=0,
        attempts=0,
        verdicts=verdicts,
        charge=Charge.OURS if any(verdict.num_bad for verdict in verdicts) else None,
        policy_version=policy.version,
        report_running=None,
        report_waiting=None,
        report_kv_usage=None,
        report_age=None,
    )

"""Records for tests: what the governor would have written, judged by the very code that it uses."""

from typing import Any

from msgspec.structs import replace

from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import Facts, itl_thresholds, judge
from plimsoll.slo.timing import Timing, TokenClock

START = 1_793_500_000.0  # 2026-11-01 in Shanghai as in UTC

POLICY_TEXT = """plimsoll: 1
service: {timezone: Asia/Shanghai}
tiers:
  - name: gold
    rank: 0
    objectives:
      - {sli: ttft, below: 1s, target: 99%, contract: 90%}
      - {sli: itl, below: 100ms, target: 90%}
      - {sli: e2e, below: 10s, target: 95%}
  - {name: bronze, rank: 1, objectives: [{sli: e2e, below: 30s, target: 90%}]}
tenants:
  - {name: acme, tier: gold}
  - {name: globex, tier: gold, weight: 2}
  - {name: batch, tier: bronze}
pools: []
"""
POLICY: Policy = document.parse(POLICY_TEXT)

_BLANK = Record(
    request_id=0, client_request_id="", trace_id="", session="", tenant="acme", tier="gold", tier_served="gold",
    model="m", adapter="", precision="", pool="chat", replica="http://a", region="", cause="", criticality="critical",
    endpoint="chat", streaming=True, deadline=None, arrived_at=START, dispatched_at=None, first_token_at=None,
    finished_at=START, upstream_time=None, upstream_trust="none", queued_for=0.0, ttft=None, tpot=None, e2e=None,
    itl_max=None, itl_sketches=None, prompt_tokens=100, cached_tokens=None, output_tokens=0,
    outcome=Outcome.COMPLETED, phase=Phase.NONE, reason=Reason.DONE, degraded="", client_stall=0.0, baseline=None,
    baseline_from="", upstream_baseline=None, kv_blocks_reserved=0, kv_blocks_used=0, attempts=1, verdicts=(),
    charge=None, policy_version=POLICY.version, report_running=None, report_waiting=None, report_kv_usage=None,
    report_age=None,
)  # fmt: skip


def record(number: int, after: float = 0.0, *, ttft: float | None = 0.5, gap: float = 0.05, num: int = 10,
           lasted: float | None = None, **changes: Any) -> Record:  # fmt: skip
    """Request `number`, arrived `after` s from the start; `ttft` None: no token came, and it ended after `lasted` s."""
    changes = {"tenant": "acme", "tier": "gold", "outcome": Outcome.COMPLETED, "reason": Reason.DONE} | changes
    arrived = START + after
    objectives = POLICY.tier(changes["tier"]).objectives
    timing = Timing()
    if ttft is not None:
        clock = TokenClock(itl_thresholds(objectives))
        for i in range(num):
            clock.tokens(arrived + ttft + i * gap, 1)
        timing = clock.finish(None)
    finished = arrived + lasted if lasted is not None else max(arrived, timing.last_token_at)
    facts = Facts(changes["outcome"], changes["reason"], arrived, finished, timing)
    completed = changes["outcome"] is Outcome.COMPLETED
    verdicts = judge(objectives, facts)
    return replace(
        _BLANK,
        request_id=number,
        arrived_at=arrived,
        first_token_at=timing.first_token_at or None,
        finished_at=finished,
        ttft=ttft,
        tpot=gap if ttft is not None and num > 1 else None,
        e2e=finished - arrived if completed else None,
        itl_sketches=timing.sketches if ttft is not None and num > 1 else None,
        output_tokens=timing.num_tokens,
        verdicts=verdicts,
        charge=next((verdict.charge for verdict in verdicts if verdict.num_bad), None),
        **changes,
    )


ENDINGS = (
    (Outcome.REJECTED, Reason.BAD_REQUEST, False),
    (Outcome.REJECTED, Reason.TENANT_RATE, False),
    (Outcome.REJECTED, Reason.QUEUE_FULL, False),
    (Outcome.SHED, Reason.OVERLOAD, False),
    (Outcome.EXPIRED, Reason.QUEUE_TIMEOUT, False),
    (Outcome.CANCELLED, Reason.CLIENT_LEFT, False),
    (Outcome.COMPLETED, Reason.DONE, True),
    (Outcome.COMPLETED, Reason.DONE, True),
    (Outcome.FAILED, Reason.CONNECTION_LOST, True),
    (Outcome.FAILED, Reason.CONNECT_FAILED, False),
    (Outcome.ABORTED, Reason.CLIENT_LEFT, True),
    (Outcome.EVICTED, Reason.DRAIN_TIMEOUT, True),
    (Outcome.INTERRUPTED, Reason.GATEWAY_DIED, False),
)
"""(outcome, reason, whether tokens came) as they occur."""

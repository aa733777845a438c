"""Settlements to write in tests: real values, shaped as the governor makes them."""

from fractions import Fraction

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import Charge, Judgement, Verdict

NOVEMBER = 1_793_500_000.0
"""An instant of 1 November 2026 (UTC)."""

POLICY = Policy(
    tiers=(
        Tier(
            "gold",
            0,
            objectives=(
                Objective("ttft", Sli.TTFT, 0.8, Fraction(199, 200), Fraction(99, 100)),
                Objective("itl", Sli.ITL, 0.15, Fraction(99, 100)),
                Objective("availability", Sli.AVAILABILITY, float("inf"), Fraction(999, 1000)),
            ),
        ),
    ),
    tenants=(Tenant("acme", "gold", keys=("sha256:00",)), Tenant("beta", "gold", timezone="Asia/Shanghai")),
    version="v1",
)


def record(request_id: int, *, bad: bool = False, tenant: str = "acme", arrived_at: float = NOVEMBER) -> Record:
    """A completed request of 300 tokens, or one whose first token came late."""
    judgement = Judgement.BAD if bad else Judgement.GOOD
    ttft = 1.5 if bad else 0.5
    return Record(
        request_id=request_id,
        client_request_id=f"cli-{request_id}",
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        session="",
        tenant=tenant,
        tier="gold",
        tier_served="gold",
        model="llama-3.1-70b",
        adapter="",
        precision="",
        pool="chat",
        replica="http://10.0.0.1:8000",
        region="",
        cause="",
        criticality="critical",
        endpoint="chat",
        streaming=True,
        deadline=None,
        arrived_at=arrived_at,
        dispatched_at=arrived_at + 0.1,
        first_token_at=arrived_at + ttft,
        finished_at=arrived_at + 9.0,
        upstream_time=None,
        upstream_trust="none",
        queued_for=0.1,
        ttft=ttft,
        tpot=0.03,
        e2e=9.0,
        itl_max=0.2,
        itl_sketches=(
            ItlSketch(3, dict.fromkeys(range(-170, -150), 5)),
            ItlSketch(0, dict.fromkeys(range(-170, -155), 9)),
            ItlSketch(),
        ),
        prompt_tokens=1000,
        cached_tokens=None,
        output_tokens=300,
        outcome=Outcome.COMPLETED,
        phase=Phase.NONE,
        reason=Reason.DONE,
        degraded="",
        client_stall=0.0,
        baseline=0.3,
        baseline_from="profile",
        upstream_baseline=None,
        kv_blocks_reserved=30,
        kv_blocks_used=25,
        attempts=1,
        verdicts=(
            Verdict("ttft", judgement, int(not bad), int(bad), Charge.OURS if bad else None),
            Verdict("itl", Judgement.BAD, 297, 2, Charge.OURS),
            Verdict("availability", Judgement.GOOD, 1, 0),
        ),
        charge=Charge.OURS if bad else None,
        policy_version="v1",
        report_running=5,
        report_waiting=0,
        report_kv_usage=0.3,
        report_age=0.2,
    )


def settle(request_id: int, *, bad: bool = False, tenant: str = "acme", arrived_at: float = NOVEMBER) -> Settle:
    """Its settlement: one spend for each objective with bad events."""
    row = record(request_id, bad=bad, tenant=tenant, arrived_at=arrived_at)
    entries = tuple(
        Entry(
            EntryKind.SPEND,
            f"{tenant}/{verdict.objective}/bucket",
            f"{tenant}/{verdict.objective}/spent:ours",
            verdict.num_bad,
            "2026-11",
        )
        for verdict in row.verdicts
        if verdict.num_bad
    )
    return Settle(row, entries)

"""Makes the one row and the ledger entries of a request that is over."""

from typing import Final

from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import Endpoint
from plimsoll.governor.months import Month
from plimsoll.governor.pool import Pool
from plimsoll.governor.request import Request
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.policy import UpstreamTrust
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import judge
from plimsoll.slo.verdict import Charge, Facts, Verdict

_NO_TIMING: Final = Timing()
_NO_TOKENS: Final = frozenset({Endpoint.EMBEDDINGS, Endpoint.OTHER})
_NONE: Final = UpstreamTrust.NONE
_COMPLETED: Final = Outcome.COMPLETED
_SPEND: Final = EntryKind.SPEND
_OURS: Final = Charge.OURS


class Ending:
    """What is known when a request is over."""

    def __init__(self, at: float, outcome: Outcome, reason: Reason, phase: Phase) -> None:
        self.at = at
        self.outcome = outcome
        self.reason = reason
        self.phase = phase
        self.timing: Timing = _NO_TIMING
        self.prompt_tokens = 0  # 0: not known, the estimate stands
        self.output_tokens = 0
        self.cached_tokens: int | None = None
        self.infeasible_deadline = False
        self.upstream_baseline: float | None = None  # upstream's own median for the cause; None below 100 seen
        self.baseline_from = ""


class Settler:
    """Judges, charges and writes rows; knows the medians that charging compares with."""

    def __init__(self, policy_version: str, *, judge_non_streaming: bool) -> None:
        self.policy_version = policy_version
        self.judge_non_streaming = judge_non_streaming

    def settle(self, request: Request, pool: Pool | None, end: Ending, month: Month) -> Settle:
        """The request's row and entries."""
        event = request.arrived
        prompt = end.prompt_tokens or request.prompt_tokens
        cached = request.cached_estimate if end.cached_tokens is None else end.cached_tokens
        ttft_usual: float | None = None
        tpot_usual: float | None = None
        if pool is not None:
            ttft_usual, tpot_usual, end.baseline_from = pool.baseline.of(end.at, prompt, cached)
        facts = Facts(
            end.outcome,
            end.reason,
            request.arrived_at,
            end.at,
            end.timing,
            event.endpoint not in _NO_TOKENS,
            event.streaming,
            request.num_choices,
            self.judge_non_streaming,
            end.infeasible_deadline,
            event.upstream_time,
            event.upstream_trust is not _NONE,
            ttft_usual,
            tpot_usual,
            end.upstream_baseline or 0.0,
        )
        verdicts = judge(request.tier.objectives, facts)
        record = self._record(request, pool, end, verdicts, ttft_usual)
        return Settle(record, spend(request.account.name, verdicts, month.of(request.arrived_at)))

    def _record(
        self,
        request: Request,
        pool: Pool | None,
        end: Ending,
        verdicts: tuple[Verdict, ...],
        baseline: float | None,
    ) -> Record:
        event = request.arrived
        timing = end.timing
        arrived_at = request.arrived_at
        dispatched = request.dispatched_at > 0.0
        first_at = timing.first_token_at or request.first_token_at
        report = request.report
        prompt = end.prompt_tokens or request.prompt_tokens
        block_size = _block_size(request, pool)
        # fmt: off
        return Record(
            request.id, event.client_request_id, event.trace_id, event.session,
            request.account.name, request.tier.name, request.tier.name if dispatched else "",
            event.model, event.adapter, "", "" if pool is None else pool.name, request.replica_name, "",
            event.cause, event.criticality, event.endpoint, event.streaming,
            None if event.deadline_at == _NEVER else event.deadline_at,
            arrived_at,
            request.dispatched_at if dispatched else None,
            first_at if first_at > 0.0 else None,
            end.at,
            event.upstream_time, event.upstream_trust,
            (request.dispatched_at if dispatched else end.at) - arrived_at,
            first_at - arrived_at if first_at > 0.0 else None,
            _tpot(timing),
            (timing.last_token_at or end.at) - arrived_at if end.outcome is _COMPLETED else None,
            timing.itl_max if timing.num_tokens > 1 else None,
            timing.sketches if timing.num_tokens > 1 else None,
            prompt, end.cached_tokens, end.output_tokens,
            end.outcome, end.phase, end.reason, "", timing.client_stall,
            baseline, end.baseline_from, end.upstream_baseline,
            request.blocks_reserved,
            -(-(prompt + end.output_tokens) // block_size) if block_size else 0,
            request.attempts, verdicts, _charge_of(verdicts), self.policy_version,
            None if report is None else report.running,
            None if report is None else report.waiting,
            None if report is None else report.kv_usage,
            None if report is None else request.report_age,
        )
        # fmt: on


_NEVER: Final = float("inf")
_WORST: Final = (Charge.OURS, Charge.JOINT, Charge.UNLABELLED, Charge.UPSTREAM, Charge.INFEASIBLE)


def spend(tenant: str, verdicts: tuple[Verdict, ...], period: str) -> tuple[Entry, ...]:
    """An entry for each objective with bad events; none where all is well."""
    entries: list[Entry] = []
    for verdict in verdicts:
        if verdict.num_bad:
            charge = verdict.charge or _OURS
            account = f"{tenant}/{verdict.objective}"
            entries.append(
                Entry(_SPEND, f"{account}/bucket", f"{account}/spent:{charge.value}", verdict.num_bad, period)
            )
    return tuple(entries)


def _charge_of(verdicts: tuple[Verdict, ...]) -> Charge | None:
    """The row's one word for its breaches: ours before anybody else's."""
    found: Charge | None = None
    for verdict in verdicts:
        charge = verdict.charge
        if charge is not None and (found is None or _WORST.index(charge) < _WORST.index(found)):
            found = charge
    return found


def _tpot(timing: Timing) -> float | None:
    if timing.num_tokens < 2 or timing.first_token_at <= 0.0:
        return None
    return (timing.last_token_at - timing.first_token_at) / (timing.num_tokens - 1)


def _block_size(request: Request, pool: Pool | None) -> int:
    if pool is None or request.replica_index < 0:
        return 0
    return pool.replicas[request.replica_index].block_size

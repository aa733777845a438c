"""Makes the one row and the ledger entries of a request that is over."""

from typing import Final

from msgspec.structs import astuple

from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import RequestFinished
from plimsoll.governor.months import Month
from plimsoll.governor.pool import Pool
from plimsoll.governor.request import Request
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.policy import UpstreamTrust
from plimsoll.requestlog.record import Record
from plimsoll.slo.facts import Facts
from plimsoll.slo.measured import UNCOUNTED, ItlSketch, Timing
from plimsoll.slo.outcome import REASONS, Blame, Outcome, Phase, Reason
from plimsoll.slo.sli import judge
from plimsoll.slo.verdict import Charge, Verdict

# Bound once: compiled code looks names of the uncompiled world up by their text.
_astuple: Final = astuple
_Record: Final = Record
_Settle: Final = Settle
_UNCOUNTED: Final = UNCOUNTED
_NO_TIMING: Final = Timing()
_NONE: Final = UpstreamTrust.NONE
_HEADER: Final = UpstreamTrust.HEADER
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
        self.request_id = 0
        self.timing: Timing = _NO_TIMING
        self.first_token_at = 0.0
        self.last_token_at = 0.0
        self.num_tokens = 0
        self.itl_max = 0.0
        self.sketches: tuple[ItlSketch, ItlSketch, ItlSketch] | None = None
        self.client_stall = 0.0
        self.stall_before = 0.0
        self.stall_between = 0.0
        self.prompt_tokens = 0  # 0: not known, the estimate stands
        self.output_tokens = 0
        self.cached_tokens: int | None = None
        self.infeasible_deadline = False
        self.upstream_baseline: float | None = None  # upstream's own median for the cause; None below 100 seen
        self.baseline_from = ""
        self.engine_rtt: float | None = None
        self.engine_retransmits: int | None = None
        self.client_rtt: float | None = None
        self.client_retransmits: int | None = None
        self.draft_tokens: int | None = None
        self.accepted_tokens: int | None = None

    def tpot(self) -> float:
        """Seconds a token after the first; 0.0 where that is not known."""
        if self.num_tokens < 2 or self.first_token_at <= 0.0:
            return 0.0
        return (self.last_token_at - self.first_token_at - self.stall_between) / (self.num_tokens - 1)

    def is_clients_fault(self) -> bool:
        """Whether the request itself was wrong: then neither engine nor service did badly."""
        return REASONS[self.reason].blame is Blame.CLIENT

    def ttft(self, arrived_at: float) -> float:
        """Seconds to the first token without what the client held back; 0.0 where there was none."""
        return self.first_token_at - self.stall_before - arrived_at if self.first_token_at > 0.0 else 0.0


def ending_of(event: RequestFinished) -> Ending:
    """What the hands say of the end; fields are read at once, which is cheaper than one by one."""
    # fmt: off
    (
        at, request_id, outcome, reason, timing, prompt_tokens, output_tokens, cached_tokens, phase,
        engine_rtt, engine_retransmits, client_rtt, client_retransmits, draft_tokens, accepted_tokens,
    ) = _astuple(event)
    # fmt: on
    end = Ending(at, outcome, reason, phase)
    end.request_id = request_id
    end.timing = timing
    fields = _astuple(timing)
    end.first_token_at, end.last_token_at, end.num_tokens, end.itl_max, end.sketches, _, end.client_stall = fields[:7]
    end.stall_before, end.stall_between = fields[8:10]
    end.prompt_tokens, end.output_tokens, end.cached_tokens = prompt_tokens, output_tokens, cached_tokens
    end.engine_rtt, end.engine_retransmits = engine_rtt, engine_retransmits
    end.client_rtt, end.client_retransmits = client_rtt, client_retransmits
    end.draft_tokens, end.accepted_tokens = draft_tokens, accepted_tokens
    return end


class Settler:
    """Judges, charges and writes rows; knows the medians that charging compares with."""

    def __init__(self, policy_version: str, *, judge_non_streaming: bool) -> None:
        self.policy_version = policy_version
        self.judge_non_streaming = judge_non_streaming

    def settle(self, request: Request, pool: Pool | None, end: Ending, month: Month) -> Settle:
        """The request's row and entries."""
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
            request.makes_tokens,
            request.streaming,
            request.num_choices,
            self.judge_non_streaming,
            end.infeasible_deadline,
            request.upstream_time,
            request.upstream_trust is not _NONE,
            ttft_usual,
            tpot_usual,
            end.upstream_baseline or 0.0,
            request.upstream_trust is not _HEADER,
        )
        verdicts = judge(request.objectives, facts)
        entries = _NOTHING
        if any_bad(verdicts):
            entries = spend(request.account.name, verdicts, month.of(request.arrived_at))
        record = self._record(request, pool, end, verdicts, entries, ttft_usual)
        return _Settle(record, entries)

    def _record(  # noqa: PLR0917 - called once, and keywords cost time on this path
        self,
        request: Request,
        pool: Pool | None,
        end: Ending,
        verdicts: tuple[Verdict, ...],
        entries: tuple[Entry, ...],
        baseline: float | None,
    ) -> Record:
        arrived_at = request.arrived_at
        dispatched = request.dispatched_at > 0.0
        first_at = end.first_token_at or request.first_token_at
        report = request.report
        prompt = end.prompt_tokens or request.prompt_tokens
        block_size = _block_size(request, pool)
        checked = request.checked
        # fmt: off
        return _Record(
            request.id, request.client_request_id, request.trace_id, request.session,
            request.account.name, request.tier_name, request.tier_name if dispatched else "",
            request.model, request.adapter, "", "" if pool is None else pool.name, request.replica_name, "",
            request.cause, request.criticality, request.endpoint, request.streaming,
            None if request.deadline_at == _NEVER else request.deadline_at,
            arrived_at,
            request.dispatched_at if dispatched else None,
            first_at if first_at > 0.0 else None,
            end.at,
            request.upstream_time, request.upstream_trust,
            (request.dispatched_at if dispatched else end.at) - request.came_at,
            first_at - end.stall_before - arrived_at if first_at > 0.0 else None,
            end.tpot() or None,
            (end.last_token_at or end.at) - arrived_at if end.outcome is _COMPLETED else None,
            end.itl_max if end.num_tokens > 1 else None,
            end.sketches if end.num_tokens > 1 and end.sketches is not _UNCOUNTED else None,
            prompt, end.cached_tokens, end.output_tokens,
            end.outcome, end.phase, end.reason, request.degraded, end.client_stall,
            baseline, end.baseline_from, end.upstream_baseline,
            request.blocks_reserved,
            -(-(prompt + end.output_tokens) // block_size) if block_size else 0,
            request.attempts, verdicts, None if entries is _NOTHING else _charge_of(verdicts), self.policy_version,
            None if report is None else report.running,
            None if report is None else report.waiting,
            None if report is None else report.kv_usage,
            None if report is None else request.report_age,
            request.parent_span_id,
            request.prompt_entropy, end.engine_rtt, end.engine_retransmits, end.client_rtt, end.client_retransmits,
            request.hedge,
            "" if request.prefiller is None else request.prefiller.name,
            None if checked is None else request.came_at - arrived_at,
            "" if checked is None else checked.told,
            request.cached_estimate if dispatched and request.cached_from else None,
            request.cached_from if dispatched else "",
            request.learned_ttft or request.predicted_ttft or None, request.predicted_itl or None,
        )
        # fmt: on


_NEVER: Final = float("inf")
_WORST: Final = (Charge.OURS, Charge.JOINT, Charge.UNLABELLED, Charge.UPSTREAM, Charge.INFEASIBLE, Charge.CLIENT)


_NOTHING: Final[tuple[Entry, ...]] = ()


def any_bad(verdicts: tuple[Verdict, ...]) -> bool:
    """Whether there is anything to spend."""
    for verdict in verdicts:  # noqa: SIM110 - a generator costs more, and this is on the path
        if verdict.num_bad:
            return True
    return False


def spend(tenant: str, verdicts: tuple[Verdict, ...], period: str) -> tuple[Entry, ...]:
    """An entry for each objective with bad events; `period` is the month of the request's arrival in its zone."""
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


def _block_size(request: Request, pool: Pool | None) -> int:
    if pool is None or request.replica_index < 0:
        return 0
    return pool.replicas[request.replica_index].block_size

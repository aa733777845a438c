"""Visits as rows of our own request log, judged by the code that judges our own requests."""

from typing import Final

from plimsoll.foreign.endings import OPEN
from plimsoll.foreign.visit import Visit
from plimsoll.governor.baseline import Baseline
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.facts import Facts
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Phase
from plimsoll.slo.sli import judge
from plimsoll.slo.timing import TokenClock
from plimsoll.slo.verdict import Verdict

EMBEDDINGS: Final = "embeddings"
_UNBLAMED: Final = frozenset({OPEN})


class Rows:
    """Makes rows of visits in the order in which they are given; what is usual for a request is learned meanwhile."""

    def __init__(self, policy: Policy) -> None:
        self._objectives = {tier.name: tier.objectives for tier in policy.tiers}
        self._version = policy.version
        self._usual: dict[str, Baseline] = {}
        self.num = 0

    def row(self, visit: Visit, tenant: str, tier: str, pool: str, *, streams: bool) -> Record:
        """The row of a visit. `streams`: answers in this file are streamed where a row does not say."""
        self.num += 1
        first = None if visit.ttft is None else visit.arrived_at + visit.ttft
        streaming = (first is not None or streams) if visit.streaming is None else visit.streaming
        timing = _timing(visit, first, self._objectives.get(tier, ()))
        usual_ttft, from_where = self._baseline(visit, pool)
        verdicts = self._judge(visit, tier, timing, streaming, usual_ttft)
        return Record(
            request_id=self.num, client_request_id=visit.request_id, trace_id=visit.trace_id, session=visit.session,
            tenant=tenant, tier=tier, tier_served=tier, model=visit.model, adapter=visit.adapter, precision="",
            pool=pool, replica=visit.replica, region="", cause=visit.cause, criticality="critical",
            endpoint=visit.endpoint, streaming=streaming, deadline=None, arrived_at=visit.arrived_at,
            dispatched_at=_dispatched_at(visit), first_token_at=first, finished_at=visit.finished_at,
            upstream_time=visit.upstream_time, upstream_trust="none" if visit.upstream_time is None else "header",
            queued_for=visit.queued_for, ttft=visit.ttft, tpot=visit.tpot,
            e2e=visit.finished_at - visit.arrived_at if visit.outcome is Outcome.COMPLETED else None,
            itl_max=max(visit.gaps, default=None), itl_sketches=timing.sketches if visit.gaps else None,
            prompt_tokens=visit.prompt_tokens, cached_tokens=visit.cached_tokens, output_tokens=visit.output_tokens,
            outcome=visit.outcome, phase=_phase(visit), reason=visit.reason, degraded="", client_stall=0.0,
            baseline=usual_ttft, baseline_from=from_where, upstream_baseline=None, kv_blocks_reserved=0,
            kv_blocks_used=0, attempts=visit.attempts, verdicts=verdicts,
            charge=next((verdict.charge for verdict in verdicts if verdict.charge is not None), None),
            policy_version=self._version, report_running=None, report_waiting=None, report_kv_usage=None,
            report_age=None,
        )  # fmt: skip

    def _judge(
        self, visit: Visit, tier: str, timing: Timing, streaming: bool, usual_ttft: float | None
    ) -> tuple[Verdict, ...]:
        """By what its tier was promised; an objective for which the log lacks the figure says nothing."""
        if (visit.outcome, visit.reason) in _UNBLAMED:
            return ()
        facts = Facts(
            visit.outcome, visit.reason, visit.arrived_at, visit.finished_at, timing, visit.endpoint != EMBEDDINGS,
            streaming, upstream_time=visit.upstream_time, baseline_ttft=usual_ttft,
        )  # fmt: skip
        verdicts = judge(self._objectives.get(tier, ()), facts)
        if visit.outcome is not Outcome.COMPLETED or visit.ttft is not None or not streaming:
            return verdicts
        known = {each.name for each in self._objectives.get(tier, ()) if each.sli in {Sli.E2E, Sli.AVAILABILITY}}
        return tuple([verdict for verdict in verdicts if verdict.objective in known])

    def _baseline(self, visit: Visit, pool: str) -> tuple[float | None, str]:
        """The median TTFT of like requests before it in the file; and it counts for those after it."""
        usual = self._usual.setdefault(pool, Baseline(None))
        at, prompt, cached = visit.arrived_at, visit.prompt_tokens, visit.cached_tokens or 0
        median, _, from_where = usual.of(at, prompt, cached)
        if visit.ttft is not None and visit.ttft > 0.0:
            usual.add(at, prompt, cached, visit.ttft, visit.tpot or 0.0)
        return median, from_where


def _dispatched_at(visit: Visit) -> float | None:
    """Where a log knows of no queue in front of the engine, whatever was waited was waited in it."""
    return None if visit.outcome is Outcome.REJECTED else visit.arrived_at + (visit.queued_for or 0.0)


def _timing(visit: Visit, first: float | None, objectives: tuple[Objective, ...]) -> Timing:
    if visit.gaps and first is not None:
        clock = TokenClock(tuple([each.below for each in objectives if each.sli is Sli.ITL]))
        at = first
        clock.tokens(at, 1)
        for gap in visit.gaps:
            at += gap
            clock.tokens(at, 1)
        return clock.finish(visit.output_tokens or None)
    if first is None:
        return Timing(num_tokens=visit.output_tokens)
    last = first if visit.tpot is None else first + visit.tpot * max(0, visit.output_tokens - 1)
    return Timing(first_token_at=first, last_token_at=last, num_tokens=visit.output_tokens)


def _phase(visit: Visit) -> Phase:
    if visit.outcome is Outcome.COMPLETED:
        return Phase.NONE
    if visit.outcome is Outcome.REJECTED:
        return Phase.ARRIVAL
    return Phase.PREFILL if visit.ttft is None else Phase.DECODE

"""Every way in which a request ends: its accounts are closed, its row and entries are made."""

from typing import Final

from plimsoll.governor.decisions import Expire, Fail, Reject, Settle, Shed
from plimsoll.governor.dispatching import Dispatcher, Outbox
from plimsoll.governor.estimates import Cursor, Histogram
from plimsoll.governor.lifecycle import ABORT, CANCEL, COMPLETE, EVICT, EXPIRE, FAIL, REJECT, TAKE_OUT
from plimsoll.governor.limits import give_back, retry_after, settle_tokens
from plimsoll.governor.pool import Pool
from plimsoll.governor.queueing import charge_of
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.saturation import look_at_ladder
from plimsoll.governor.settlement import Ending, Settler
from plimsoll.policy.objective import Sli
from plimsoll.policy.schedulingrules import Drafts
from plimsoll.slo.outcome import Outcome, Phase, Reason

_COMPLETED: Final = Outcome.COMPLETED
_SWITCH: Final = Drafts.SWITCH
_STEP_OF: Final = {
    Outcome.COMPLETED: COMPLETE,
    Outcome.FAILED: FAIL,
    Outcome.ABORTED: ABORT,
    Outcome.EVICTED: EVICT,
}
_ERRORS: Final = frozenset({Outcome.FAILED, Outcome.EVICTED, Outcome.EXPIRED, Outcome.SHED})
UPSTREAM_AT_LEAST: Final = 100  # requests of a cause before upstream's median counts


class Endings:
    """Owns what is learnt from endings: outputs, times, upstream medians."""

    def __init__(self, register: Register, dispatcher: Dispatcher, outbox: Outbox) -> None:
        self.register = register
        self.dispatcher = dispatcher
        self.outbox = outbox
        self.requests: dict[int, Request] = {}
        self.settler = Settler("", judge_non_streaming=False)
        self._upstream: dict[str, tuple[Histogram, Cursor]] = {}

    def apply(self) -> None:
        """Take over the policy in force."""
        policy = self.register.policy
        self.settler = Settler(policy.version, judge_non_streaming=policy.service.judge_non_streaming)

    # --- before dispatch -------------------------------------------------------------------------------------------

    def reject(
        self, request: Request, reason: Reason, detail: str, at: float, *, say: bool = True, pool: Pool | None = None
    ) -> None:
        """Refused on arrival; `say` is False where the hands have answered already.

        The pool that would have served it, where that is known, says what was to be expected: whose breach it is.
        """
        request.step(REJECT)
        if say:
            after = retry_after(request.account, request, reason, at)
            self.outbox.decisions.append(Reject(request.id, reason, after, detail))
        self._settle(request, pool, Ending(at, Outcome.REJECTED, reason, Phase.ARRIVAL))

    def shed(self, pool: Pool, request: Request, reason: Reason, at: float) -> None:
        """Taken from the queue by us."""
        after = request.tier_queue.retry_after_waiting(at, request.likeness) if reason is Reason.OVERLOAD else 0.0
        self.outbox.decisions.append(Shed(request.id, reason, after))
        self._leave_queue(pool, request, TAKE_OUT, Ending(at, Outcome.SHED, reason, Phase.QUEUE))

    def expire(self, pool: Pool, request: Request, at: float) -> None:
        """Its time in the queue is over."""
        deadline_at = request.deadline_at
        late = deadline_at <= request.expire_at
        reason = Reason.DEADLINE if late else Reason.QUEUE_TIMEOUT
        end = Ending(at, Outcome.EXPIRED, reason, Phase.QUEUE)
        if late:
            end.infeasible_deadline = self._is_infeasible(pool, request)
        after = request.tier_queue.retry_after_waiting(at, request.likeness)
        self.outbox.decisions.append(Expire(request.id, reason, after))
        self._leave_queue(pool, request, EXPIRE, end)

    def cancel(self, pool: Pool, request: Request, at: float) -> None:
        """Its client left while it waited."""
        end = Ending(at, Outcome.CANCELLED, Reason.CLIENT_LEFT, Phase.QUEUE)
        self._leave_queue(pool, request, CANCEL, end)

    # --- after dispatch --------------------------------------------------------------------------------------------

    def finish(self, pool: Pool, replica: Replica, request: Request, end: Ending) -> bool:
        """A dispatched request ended, as the hands say; whether there may be room on other replicas, too, now."""
        elsewhere = request.twin is not None
        outcome = end.outcome
        request.step(COMPLETE if outcome is _COMPLETED else _STEP_OF.get(outcome, REJECT))  # REJECT is illegal here
        self.dispatcher.vacate(pool, replica, request)
        if request.twin is not None:
            self.dispatcher.end_hedge(pool, request)
        self._correct(pool, request, end)
        settle_tokens(request.account, request, (end.prompt_tokens or request.prompt_tokens) + end.output_tokens)
        self._close(request, end.at)
        self._settle(request, pool, end)
        if pool.ladder is not None:
            arrived_at = request.arrived_at
            pool.ladder.ended(end.at, end.ttft(arrived_at), end.tpot(), end.at - arrived_at, end.sketches)
            elsewhere = look_at_ladder(pool, end.at) or elsewhere
        if outcome is _COMPLETED:
            replica.num_busy = 0
            self._learn(pool, request, end)
        return elsewhere

    def attempt_over(self, pool: Pool, replica: Replica, request: Request) -> None:
        """An attempt failed: what it booked and was charged is taken back."""
        self.dispatcher.vacate(pool, replica, request)
        pool.lanes[request.lane].correct(request, -request.charged)
        request.charged = 0.0
        request.grown_at = request.booked_before = 0
        request.tried |= replica.bit

    def fail(self, pool: Pool, request: Request, end: Ending, retry_after: float) -> None:
        """No further attempt is made."""
        request.step(FAIL)
        self.outbox.decisions.append(Fail(request.id, end.reason, retry_after))
        give_back(request.account, request)
        self._close(request, end.at)
        self._settle(request, pool, end)

    # --- below -----------------------------------------------------------------------------------------------------

    def _leave_queue(self, pool: Pool, request: Request, step: int, end: Ending) -> None:
        request.step(step)
        self.dispatcher.left_queue(pool, request, end.at)
        give_back(request.account, request)
        self._close(request, end.at)
        self._settle(request, pool, end)

    def _close(self, request: Request, at: float) -> None:
        account = request.account
        account.num_open -= 1
        held = at - request.arrived_at
        account.open_time = held if account.open_time == 0.0 else account.open_time + (held - account.open_time) / 16.0

    def _settle(self, request: Request, pool: Pool | None, end: Ending) -> None:
        del self.requests[request.id]
        seen = request.upstream_time
        if seen is not None:
            usual = self._upstream.get(request.cause)
            if usual is None:
                histogram = Histogram(UPSTREAM_AT_LEAST, 5000)
                usual = self._upstream[request.cause] = (histogram, histogram.follow(1, 2))
            end.upstream_baseline = usual[1].middle()
            usual[0].add(seen)
        if request.account.flow is not None and end.outcome is not Outcome.REJECTED:
            self._follow(request, end)
        month = self.register.month(request.account)
        settle: Settle = self.settler.settle(request, pool, end, month)
        self.outbox.decisions.append(settle)

    def _follow(self, request: Request, end: Ending) -> None:
        """Let the tenant's token rate follow how this one was served."""
        account = request.account
        if account.flow is None or account.tokens is None:
            return
        ratio = 0.0
        for objective in request.objectives:
            if objective.sli is Sli.TTFT and request.streaming:
                ratio = end.ttft(request.arrived_at) / objective.below
        error = end.outcome in _ERRORS and not end.is_clients_fault()
        if account.flow.ended(end.at, ratio, error=error):
            account.tokens.retune(account.flow.factor, end.at)

    def _correct(self, pool: Pool, request: Request, end: Ending) -> None:
        """Replace what the tenant was charged by what it used."""
        prompt = end.prompt_tokens or request.prompt_tokens
        cached = request.cached_estimate if end.cached_tokens is None else end.cached_tokens
        actual = charge_of(prompt, cached, end.output_tokens)
        pool.lanes[request.lane].correct(request, actual - request.charged)
        if pool.num_waiting:
            pool.lending.service.charged(request.lane, actual - request.charged)

    def _learn(self, pool: Pool, request: Request, end: Ending) -> None:
        if end.draft_tokens is not None and end.accepted_tokens is not None:
            self.register.acceptance.learn(
                request.account.index, request.cause, request.replica_name, end.draft_tokens, end.accepted_tokens
            )
            if end.draft_tokens and not request.drafts and pool.policy.speculation == _SWITCH:
                pool.replicas[request.replica_index].num_drafted_anyway += 1
        pool.lending.finished(request, end.at)
        if end.output_tokens > 0:
            request.made = max(1, end.output_tokens // request.num_choices)
            request.account.outputs.lengths.add(request.made)
        if not request.streaming and request.makes_tokens:
            pool.prompt_pace.came_whole(end.at - request.dispatched_at, request.prompt_ahead)
        elif end.first_token_at > 0.0:
            tpot = end.tpot() if request.num_choices == 1 else 0.0
            cached = request.cached_estimate if end.cached_tokens is None else end.cached_tokens
            prompt = end.prompt_tokens or request.prompt_tokens
            pool.baseline.add(end.at, prompt, cached, end.ttft(request.arrived_at), tpot)

    def _is_infeasible(self, pool: Pool, request: Request) -> bool:
        """Whether even an idle replica could not have met its deadline; not known without a profile, so not said."""
        needed = pool.baseline.unloaded_ttft(request.prompt_tokens)
        return needed is not None and request.deadline_at - request.arrived_at < needed

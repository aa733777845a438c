"""Decides: events in, decisions out. Read this file first, then `turns.py` (whose turn) and `admission.py` (what fits).

    governor = Governor(policy, profiles)
    for decision in governor.handle(event): …

One writer; `handle` never calls out, never blocks, reads no clock. An event that the state of its request does not
allow raises IllegalTransition: a bug in the hands.
"""

from collections.abc import Mapping
from math import inf
from typing import Final, cast

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import IllegalTransition
from plimsoll.governor import prefilling
from plimsoll.governor.attempts import Attempts
from plimsoll.governor.decisions import Decision, WakeAt
from plimsoll.governor.dispatching import Dispatcher, Outbox
from plimsoll.governor.endings import Endings
from plimsoll.governor.events import (
    AttemptFailed,
    DrainStarted,
    Event,
    FirstToken,
    PrefillFailed,
    ReplicasReported,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    RequestRead,
    RequestRefused,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.governor.hedging import Hedging
from plimsoll.governor.lifecycle import FIRST_TOKEN, QUEUED, RECEIVED, STATES
from plimsoll.governor.limits import hold, queue_is_full, refused_by, withdraw
from plimsoll.governor.matrix import place
from plimsoll.governor.placing import degrade, is_sheddable, refused_for_itself, reserve
from plimsoll.governor.plugins import plugins_for
from plimsoll.governor.pool import Pool
from plimsoll.governor.prefill import SAMPLED
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.settlement import ending_of
from plimsoll.governor.snapshot import Snapshot, take
from plimsoll.governor.timers import Timers
from plimsoll.governor.upkeep import Upkeep
from plimsoll.policy.policy import Policy
from plimsoll.slo.outcome import Reason

# Bound once: compiled code looks names of the uncompiled world up by their text.
_RequestArrived: Final = RequestArrived
_FirstToken: Final = FirstToken
_RequestFinished: Final = RequestFinished
_ReservationOutgrown: Final = ReservationOutgrown
_ReplicasReported: Final = ReplicasReported


class Governor:
    """The pure deciding core of one service. `profiles` are those that the policy's pools name.

    `register` and `dispatcher` are for those who look inside (tests, explanations); nobody else may change them.
    """

    def __init__(self, policy: Policy, profiles: Mapping[str, EngineProfile] | None = None) -> None:
        self._outbox = Outbox()
        self.register = Register({} if profiles is None else profiles)
        self._timers = Timers()
        self.dispatcher = Dispatcher(self.register, self._timers, self._outbox)
        self._endings = Endings(self.register, self.dispatcher, self._outbox)
        self._hedging = Hedging(self.register, self._timers, self.dispatcher)
        self._attempts = Attempts(self.register, self._timers, self.dispatcher, self._endings, self._hedging)
        self._upkeep = Upkeep(self.register, self._timers, self.dispatcher, self._endings)
        self._requests = self._endings.requests  # all open ones, by id
        self._unsaid: list[Decision] = []  # of an event that a fault cut short
        self._sequence = 0
        self._draining = False
        self.register.apply(policy, 0.0)
        self._endings.apply()

    def handle(self, event: Event) -> list[Decision]:
        """Take in what happened; returns what to do, in order. Raises IllegalTransition, see above.

        What was decided before an event raised holds all the same (others expired meanwhile, were settled or sent): the
        next event brings it, so that nobody's row or answer is lost with it.
        """
        decisions: list[Decision] = []
        if self._unsaid:
            decisions, self._unsaid = self._unsaid, decisions
        self._outbox.decisions = decisions
        at = event.at
        try:
            self._upkeep.expire_due(at)
            kind = type(event)  # msgspec's classes make isinstance slow where it fails
            if kind is _RequestArrived:
                self._arrived(cast(RequestArrived, event))
            elif kind is _FirstToken:
                self._first_token(cast(FirstToken, event))
            elif kind is _RequestFinished:
                self._finished(cast(RequestFinished, event))
            else:
                self._rarer(kind, event)
        except BaseException:
            self._unsaid = decisions
            raise
        if (wake_at := self._timers.wake_at()) != inf:
            decisions.append(WakeAt(wake_at))
        return decisions

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.register.policy

    def snapshot(self, at: float, *, with_accounts: bool = True) -> Snapshot:
        """The state at an instant, for people and metrics; those need no accounts, and a thousand take milliseconds."""
        return take(self.register, draining=self._draining, at=at, with_accounts=with_accounts)

    def pools(self) -> list[Pool]:
        """The pools at work, for those who look inside (tests, explanations); nobody else may change them."""
        return self.register.pools

    def charged(self, request_id: int) -> float:
        """Tokens of service that an open request was charged at dispatch; 0.0 while it waits."""
        return self._open(request_id, "look at").charged

    # --- a request comes -------------------------------------------------------------------------------------------

    def _arrived(self, event: RequestArrived) -> None:
        request = self._receive(event)
        at = event.at
        account = request.account
        refusal = refused_for_itself(self.register, request, draining=self._draining)
        if refusal is not None:
            self._endings.reject(request, refusal.reason, refusal.detail, request.came_at)
            return
        pool, refusal = place(self.register, request, at)
        if refusal is not None or pool is None:
            reason = Reason.NO_REPLICA if refusal is None else refusal.reason
            self._endings.reject(request, reason, "" if refusal is None else refusal.detail, at)
            return
        if pool.ladder is not None and (pool.ladder.level or self.register.has_degraded_tenants or request.checked):
            pool = degrade(self.register, pool, request)
        reserve(pool, request)
        rule = self.register.rules.admission
        if rule is not None and (detail := rule.refuses(request, pool, at)):
            self._endings.reject(request, Reason.ADMISSION_RULE, detail, at)
            return
        if (limit := refused_by(account, request, at)) is not None:
            self._endings.reject(request, limit, "", at)
            return
        hold(request)
        if self.dispatcher.try_at_once(pool, request, at):
            return
        request.sheddable = is_sheddable(pool, request)
        full = queue_is_full(account, request, at)
        if full is not None and not request.sheddable and self._upkeep.make_place(request, full, at):
            full = None
        if full is not None:
            withdraw(request)
            self._endings.reject(request, full, "", at, pool=pool)
            return
        self.dispatcher.enqueue(pool, request, at)

    def _receive(self, event: RequestArrived) -> Request:
        self._sequence += 1
        request = self.owned(event)
        known = self._requests.get(request.id)
        if known is not None:
            raise IllegalTransition(request.id, STATES[known.state], "arrive")
        request.counts.arrived()
        self._requests[request.id] = request
        return request

    def owned(self, event: RequestArrived) -> Request:
        """The request with all that its tenant and tier say of it."""
        request = Request(event, self._sequence)
        account = self.register.account(request.tenant)
        if account.stands_until <= request.arrived_at and account.standings:
            account.stand(request.arrived_at)
        tier, counts, lane = account.own_tier, account.own_counts, account.own_lane
        if request.asked_tier:
            asked = self.register.tier_of(account.tenant, request.asked_tier)
            if asked is not None:
                tier, counts = asked, account.counts_in(request.asked_tier)
                lane = self.register.lane_of(request.asked_tier)
        request.belongs_to(account, tier, counts, self.register.demoted(lane) if account.demoted else lane)
        if not request.cause and account.default_cause:
            request.cause = account.default_cause
        if self.register.adapters and not request.adapter and request.model in self.register.adapters:
            request.adapter = request.model
        return request

    # --- a request runs and ends -----------------------------------------------------------------------------------

    def _first_token(self, event: FirstToken) -> None:
        request = self._open(event.request_id, "first_token")
        request.step(FIRST_TOKEN)
        request.first_token_at = at = event.at
        pool = self._pool(request)
        if request.prefiller is not None:
            prefilling.first_token(request)
        if pool.hedges is not None or request.twin is not None or event.hedge:
            self._hedging.first_token(pool, request, event)
        replica = pool.replicas[request.replica_index]
        replica.prompt_done(request)
        if replica.predictor is not None:
            replica.predictor.clock.ended(at)
        replica.first_token_came(request, at - request.dispatched_at)
        if request.sequence & SAMPLED == 0:
            pool.prompt_pace.streamed(at - request.dispatched_at, request.prompt_ahead)
        if replica.paced:
            replica.paced = False
            self.dispatcher.fill(pool, replica, at)

    def _finished(self, event: RequestFinished) -> None:
        end = ending_of(event)
        request = self._open(end.request_id, "finish")
        if request.replica_index < 0 or request.state == QUEUED:
            raise IllegalTransition(request.id, STATES[request.state], "finish")
        pool = self.register.pools[request.pool_index]
        replica = pool.replicas[request.replica_index]
        elsewhere = self._endings.finish(pool, replica, request, end)
        if replica.predictor is not None:
            self._attempts.ended(pool, replica, request, end)
        if elsewhere:
            self.dispatcher.drain(pool, end.at)
        elif pool.num_waiting:
            self.dispatcher.fill(pool, replica, end.at)

    def _cancelled(self, event: RequestCancelled) -> None:
        if event.request_id not in self._requests and self._outbox.has_just_expired(event.request_id):
            return  # its time was over before its client left; the timer was late
        request = self._open(event.request_id, "cancel")
        if request.state != QUEUED:
            raise IllegalTransition(request.id, STATES[request.state], "cancel")
        pool = self._pool(request)
        self._endings.cancel(pool, request, event.at)
        self.dispatcher.drain(pool, event.at)

    def _refused(self, event: RequestRefused) -> None:
        """Counted and settled like one that came whole; one that a fault struck before it was decided upon ends too."""
        known = self._requests.get(event.request_id)
        if known is not None and known.state == RECEIVED:
            withdraw(known)
            self._endings.reject(known, event.reason, "", event.at, say=False)
            return
        if known is None and self._outbox.has_settled(event.request_id):
            return  # the fault came after its end, for which it is given up
        names = {name: getattr(event, name) for name in ("client_request_id", "trace_id", "parent_span_id")}
        request = self._receive(RequestArrived(event.at, event.request_id, event.tenant, event.model, 0, **names))
        self._endings.reject(request, event.reason, "", event.at, say=False)

    def _rarer(self, kind: type, event: Event) -> None:
        if isinstance(event, RequestRead):
            self._outbox.decisions.append(plugins_for(self.register, event))
        elif kind is _ReservationOutgrown:
            outgrown = cast(ReservationOutgrown, event)
            self._attempts.outgrown(self._open(outgrown.request_id, "outgrow"), outgrown)
        elif kind is _ReplicasReported:
            self._upkeep.replicas_reported(cast(ReplicasReported, event))
        elif isinstance(event, TimerFired):
            self._hedging.look(event.at)
            self._upkeep.timer_fired(event.at)
        elif isinstance(event, AttemptFailed):
            self._attempts.failed(self._open(event.request_id, "attempt_failed"), event)
        elif isinstance(event, PrefillFailed):
            prefilling.failed(self.register.pools, self._open(event.request_id, "prefill_failed"), event)
        elif isinstance(event, RequestCancelled):
            self._cancelled(event)
        elif isinstance(event, RequestRefused):
            self._refused(event)
        else:
            self._draining = self._draining or isinstance(event, DrainStarted)
            self._upkeep.take(event)

    def _open(self, request_id: int, event: str) -> Request:
        request = self._requests.get(request_id)
        if request is None:
            raise IllegalTransition(request_id, "not open", event)
        return request

    def _pool(self, request: Request) -> Pool:
        return self.register.pools[request.pool_index]

"""Sends requests to replicas and lets them wait: everything that books, queues and unqueues goes through here."""

from typing import Final

from plimsoll.governor.admission import LENT
from plimsoll.governor.decisions import Decision, Dispatch, Enqueue, Expire, Settle
from plimsoll.governor.hedgebudget import watch
from plimsoll.governor.keeping import is_kept
from plimsoll.governor.lifecycle import DISPATCH, ENQUEUE, QUEUED, REQUEUE
from plimsoll.governor.pool import Pool
from plimsoll.governor.predicting import Predictor
from plimsoll.governor.preferring import due_at
from plimsoll.governor.prefilling import leave_prefiller, send_to_prefiller
from plimsoll.governor.queueing import charge_for
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import choose, facts_of
from plimsoll.governor.saturation import holds
from plimsoll.governor.shedding import Sheddable
from plimsoll.governor.timers import Timers
from plimsoll.governor.turns import earn_credit, next_for
from plimsoll.policy.schedulingrules import Drafts
from plimsoll.slo.outcome import Reason

PLACES_LOOKED_AT: Final = 3  # replicas that one who comes while others wait is tried on
_SWITCH: Final = Drafts.SWITCH
_Dispatch: Final = Dispatch  # bound once: compiled code looks such names up by their text
_FITS: Final = Reason.FITS
_LENT: Final = Reason.LENT
_RETRIED: Final = Reason.RETRIED  # said where rank is all that there is to say
_RANK: Final = Reason.RANK
_POOL_FULL: Final = Reason.POOL_FULL
_SATURATED: Final = Reason.SATURATED


class Outbox:
    """The decisions of the event in hand."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def has_just_expired(self, request_id: int) -> bool:
        """Whether this very event found that the request's time was over."""
        return any(type(d) is Expire and d.request_id == request_id for d in self.decisions)

    def has_settled(self, request_id: int) -> bool:
        """Whether a request's end is among what is to be said."""
        return any(type(d) is Settle and d.record.request_id == request_id for d in self.decisions)


class Dispatcher:
    """Keeps the numbers of replicas, lanes, tiers and tenants in step with what waits and what runs."""

    def __init__(self, register: Register, timers: Timers, outbox: Outbox) -> None:
        self.register = register
        self.timers = timers
        self.outbox = outbox
        self.num_waiting = 0
        self.sheddable = Sheddable()

    def try_at_once(self, pool: Pool, request: Request, at: float) -> bool:
        """Dispatch a request that just came, if nobody waits before it and a replica has room."""
        if pool.num_waiting or holds(pool, at):
            return False
        replica, right = choose(pool, request, at)
        if replica is None:
            return False
        if pool.classes is not None:
            request.class_number = pool.classes.of(request.cause)
        self.dispatch(pool, replica, request, _LENT if right == LENT else _FITS, at)
        return True

    def enqueue(self, pool: Pool, request: Request, at: float, *, again: bool = False) -> None:
        """Let it wait (`again`: in front, after a failed attempt), unless its turn has come at once."""
        others_wait = pool.num_waiting > 0
        self.put_in_queue(pool, request, at, again=again)
        if others_wait or again:
            self._take_turn(pool, request, at)
        if request.state == QUEUED:
            reason = _SATURATED if holds(pool, at) else _POOL_FULL
            self.outbox.decisions.append(Enqueue(request.id, request.tier_name, reason, request.degraded))
            for waited_for in pool.replicas:
                if waited_for.paced:
                    self._watch_prompts(waited_for)

    def _take_turn(self, pool: Pool, request: Request, at: float) -> None:
        """Fill where it would go best, if it fits anywhere; where room is kept for another, the next best."""
        tried = request.tried
        for _ in range(PLACES_LOOKED_AT):
            if holds(pool, at):
                break
            replica, _ = choose(pool, request, at)
            request.holders = None
            if replica is None:
                break
            self.fill(pool, replica, at)
            if request.state != QUEUED or not is_kept(pool, replica, at):
                break  # it is not its turn, and would be no more so elsewhere
            request.tried |= replica.bit
        request.tried = tried

    def put_in_queue(self, pool: Pool, request: Request, at: float, *, again: bool = False) -> None:
        """Book it as waiting; says nothing to the hands."""
        if request.state != QUEUED:  # else a policy change moves it
            request.step(REQUEUE if again else ENQUEUE)
        request.queued_at = at
        request.pool_index = pool.index
        if pool.classes is not None:
            request.class_number = pool.classes.of(request.cause)
        request.late = False
        if pool.late_last or pool.preference == "edf":
            request.due_at = due_at(pool, request)
        lane = pool.lanes[request.lane]
        if lane.num == 0:
            lane.waits_since = at
        lane.push(request, front=again)
        if pool.num_waiting == 0:
            pool.pressed_since = at
        pool.num_waiting += 1
        if request.sheddable:
            self.sheddable.waits(request)
        self.num_waiting += 1
        request.account.num_waiting += 1
        request.tier_queue.num_waiting += 1
        self.timers.watch(request, self.num_waiting)

    def left_queue(self, pool: Pool, request: Request, at: float) -> None:
        """It waits no more; its state has changed already."""
        pool.lanes[request.lane].left(request)
        pool.num_waiting -= 1
        self.num_waiting -= 1
        account = request.account
        account.num_waiting -= 1
        account.departures.departed(at)
        tier = request.tier_queue
        tier.num_waiting -= 1
        tier.departures.departed(at)

    def fill(self, pool: Pool, replica: Replica, at: float) -> None:
        """Dispatch to a replica that has room until nobody's turn fits it."""
        while pool.num_waiting and replica.routable(at) and not holds(pool, at):
            request, reason = next_for(pool, replica, at)
            if request is None:
                if replica.paced:
                    self._watch_prompts(replica)
                return
            self.dispatch(pool, replica, request, reason, at)

    def _watch_prompts(self, replica: Replica) -> None:
        """Somebody waits for prompts to be computed there: look again when that is predicted, if no event will tell."""
        if replica.unseen and replica.unseen[0][0] != replica.watched_at:
            replica.watched_at = replica.unseen[0][0]
            self.timers.watch_backoff(replica.watched_at)

    def drain(self, pool: Pool, at: float) -> None:
        """Room may be anywhere: fill all replicas, the emptiest first, one request at a time."""
        progress = True
        while progress and pool.num_waiting and not holds(pool, at):
            progress = False
            for replica in sorted(pool.replicas, key=_fullness):
                if pool.num_waiting and replica.routable(at):
                    request, reason = next_for(pool, replica, at)
                    if request is not None:
                        self.dispatch(pool, replica, request, reason, at)
                        progress = True
                    elif replica.paced:
                        self._watch_prompts(replica)

    def dispatch(self, pool: Pool, replica: Replica, request: Request, reason: Reason, at: float) -> None:
        """Book the request on the replica and tell the hands to send it."""
        waited = request.state == QUEUED
        request.step(DISPATCH)
        if waited:
            self.left_queue(pool, request, at)
        if pool.prefillers:
            send_to_prefiller(pool, request, at)
        self._occupy(pool, replica, request, at)
        self._charge(pool, request, at, waited=waited)
        request.attempts += 1
        self._say(pool, replica, request, _RETRIED if request.attempts > 1 and reason is _RANK else reason)
        if pool.hedges is not None:
            watch(pool.hedges, self.timers, request, at)

    def hedge(self, pool: Pool, replica: Replica, request: Request, at: float) -> None:
        """Book a second place for a dispatched request and tell the hands to try there too."""
        request.twin = twin = request.second_place()
        self._occupy(pool, replica, twin, at)
        request.attempts += 1
        self._say(pool, replica, request, Reason.HEDGED)

    def _say(self, pool: Pool, replica: Replica, request: Request, reason: Reason) -> None:
        self.outbox.decisions.append(
            _Dispatch(
                request.id,
                pool.name,
                replica.name,
                request.tier_name,
                reason,
                request.output_tokens if replica.in_blocks else 0,
                0,
                request.sent_model,
                request.tier.rank if pool.engine_priority else None,
                request.degraded,
                request.attempts,
                "" if request.prefiller is None or reason is Reason.HEDGED else request.prefiller.name,
                request.drafts or pool.policy.speculation != _SWITCH,
            )
        )

    def vacate(self, pool: Pool, replica: Replica, request: Request) -> None:
        """The request is no longer on the replica."""
        if request.prefill_tokens:
            leave_prefiller(request)
        pool.lending.unbook(request)
        replica.release(request)
        pool.num_in_flight -= 1

    def end_hedge(self, pool: Pool, request: Request) -> None:
        """A request with two places is over: the second comes back too."""
        twin, request.twin = request.twin, None
        if twin is not None:
            self.vacate(pool, pool.replicas[twin.replica_index], twin)

    def _occupy(self, pool: Pool, replica: Replica, request: Request, at: float) -> None:
        cached = 0
        if request.prefix_hashes:
            holders = request.holders
            if holders is None:
                holders = pool.prefixes.holders(request.prefix_hashes)
            request.holders = None
            cached = min(holders.held(replica.bit) * request.prefix_block_tokens, request.prompt_tokens)
            pool.prefixes.sent(request.prefix_hashes, holders, replica.bit)
            request.cached_from = "sent"
        if request.matched is not None:
            cached = min(request.held_by(replica.name, cached), request.prompt_tokens)
            if replica.name in request.known:
                request.cached_from = "events"
        request.cached_estimate = cached
        request.pending_prompt = request.prompt_tokens - cached if request.prefiller is None else 0
        request.prompt_ahead = replica.pending_prompt + request.pending_prompt
        if not request.streaming:
            token_time = pool.prompt_pace.token_time()
            if token_time is not None:
                replica.expect_prompt(request, at + token_time * request.prompt_ahead)
        request.pool_index, request.replica_index = pool.index, replica.index
        request.replica_name = replica.name
        request.dispatched_at = at
        if request.prefiller is not None:
            request.predicted_ttft = request.predicted_itl = request.learned_ttft = request.late_ttft = 0.0
        elif replica.predictor is not None:
            _predict(pool, replica, replica.predictor, request, at)
        if replica.loaded is not None and request.adapter:
            replica.loaded.sent(request.adapter)
        request.report = replica.report
        request.report_age = at - replica.reported_at
        prompts = pool.lending.prompts
        if prompts.token_time > 0.0:
            seconds = prompts.costs(request.pending_prompt, request.expected_output * request.num_choices)
            pool.lending.service.computes(request.lane, seconds, at)
            if request.lane > 0 and request.pending_prompt > replica.prompt_limit:
                prompts.started(request.lane, seconds, at)
        replica.book(request, replica.units_for(request))
        pool.lending.book(request, at)
        pool.num_in_flight += 1
        use = pool.oversubscription.use
        if use is not None and replica.in_blocks and request.usual and request.attempts == 0:
            use.sent(request)

    def _charge(self, pool: Pool, request: Request, at: float, *, waited: bool) -> None:
        charged = charge_for(request, request.cached_estimate)
        request.charged = charged
        pressed = at - pool.pressed_since if pool.num_waiting else 0.0
        pool.lanes[request.lane].charge(request, charged, waited=waited, pressed=pressed)
        if pool.num_waiting:
            pool.lending.service.charged(request.lane, charged)
            earn_credit(pool, request.lane, charged)


def _predict(pool: Pool, replica: Replica, predictor: Predictor, request: Request, at: float) -> None:
    """Note what is predicted of a request on a replica that is about to book it."""
    running, context, own = replica.num_in_flight, replica.context, request.pending_prompt
    request.predicted_ttft = predictor.ttft_now(own, replica.pending_prompt, running, context, at)
    request.learned_ttft = request.late_ttft = 0.0
    if replica.learned is not None:
        facts = facts_of(replica, request.predicted_ttft, own, request.cached_estimate, at)
        request.learned_ttft = replica.learned.ttft(facts)
        request.late_ttft = 0.0 if pool.hedges is None else replica.learned.late_ttft(facts)
    predictor.clock.sent(own)
    request.ttft_pace, request.itl_pace = predictor.ttft_pace(), predictor.itl_pace()
    request.predicted_itl = predictor.itl(running + request.num_choices, context + request.prompt_tokens)


def _fullness(replica: Replica) -> tuple[float, int]:
    return replica.saturation(), replica.index

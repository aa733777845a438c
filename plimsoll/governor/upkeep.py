"""What happens to the service rather than to one request: reports, timers, a new policy, a drain."""

from math import inf
from typing import Final

from plimsoll.governor.dispatching import Dispatcher
from plimsoll.governor.endings import Endings
from plimsoll.governor.events import (
    BudgetsReported,
    BudgetState,
    CachesCleared,
    CapabilitiesReported,
    DrainStarted,
    Event,
    PolicyChanged,
    ReplicasReported,
    Standing,
)
from plimsoll.governor.matrix import place
from plimsoll.governor.placing import degrade, reserve
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import PROMPT_PATIENCE
from plimsoll.governor.request import Request
from plimsoll.governor.saturation import look_at_ladder
from plimsoll.governor.shown import ReplicaSteadiness
from plimsoll.governor.steady import judge
from plimsoll.governor.timers import Timers
from plimsoll.slo.outcome import Reason

OVERLOADED: Final = 5.0  # s without a break in which somebody of a tier waits: before that, bursts pass by themselves


class Upkeep:
    """After each of these, whoever waits and fits now is dispatched."""

    def __init__(self, register: Register, timers: Timers, dispatcher: Dispatcher, endings: Endings) -> None:
        self._register = register
        self._timers = timers
        self._dispatcher = dispatcher
        self._endings = endings
        self._steadiness: dict[str, ReplicaSteadiness] = {}  # by replica, as was reported last

    def replicas_reported(self, event: ReplicasReported) -> None:
        """Health, capacity and state, as the replicas say."""
        prefillers, acceptance = self._register.prefillers, self._register.acceptance
        for report in event.reports:
            if prefillers and (prefiller := prefillers.get(report.replica)) is not None:
                prefiller.reported(report)
            for pool, replica in self._register.by_replica.get(report.replica, []):
                pool.reported(replica, report)
                if acceptance.rules is not None and report.engine is not None:
                    acceptance.reported(replica, report.engine.draft_tokens, report.engine.accepted_tokens)
                if replica.pending_prompt:
                    replica.forget_prompts(event.at - PROMPT_PATIENCE)
        for pool in self._register.pools:
            look_at_ladder(pool, event.at)
        for sizing in self._register.sizings:
            self._dispatcher.outbox.decisions.extend(sizing.look(event.at))
        self._fill_everywhere(event.at)

    def take(self, event: Event) -> None:
        """One of the rarer of these."""
        if isinstance(event, BudgetsReported):
            self.budgets_reported(event)
        elif isinstance(event, CapabilitiesReported):
            self.capabilities_reported(event)
        elif isinstance(event, CachesCleared):
            self.caches_cleared(event)
        elif isinstance(event, PolicyChanged):
            self.policy_changed(event)
        elif isinstance(event, DrainStarted):
            self.drain_started(event)

    def capabilities_reported(self, event: CapabilitiesReported) -> None:
        """Each report replaces the one before whole."""
        self._steadiness = {each.replica: each for each in event.replicas}
        for pool in self._register.pools:
            judge(pool, self._steadiness)
        self._register.paces_told(event.pools)

    def caches_cleared(self, event: CachesCleared) -> None:
        """What was sent there before is held no longer; prompts on their way there are sent as new ones are."""
        for name in event.replicas:
            for pool, replica in self._register.by_replica.get(name, []):
                pool.prefixes.forget(replica.bit)

    def budgets_reported(self, event: BudgetsReported) -> None:
        """Each report replaces the one before whole; risks that budgets had closed may be open again."""
        budgets: dict[str, list[BudgetState]] = {}
        standings: dict[str, list[Standing]] = {}
        most_levels = len(self._register.policy.degradation.levels)
        for budget in event.budgets:
            budgets.setdefault(budget.tenant, []).append(budget)
        for standing in event.standings:
            standings.setdefault(standing.tenant, []).append(standing)
        for tenant in dict.fromkeys([*self._register.accounts, *budgets, *standings]):
            account = self._register.account(tenant)
            account.take_budgets(budgets.get(tenant, []), standings.get(tenant, []), most_levels)
        self._register.has_degraded_tenants = any(account.level for account in self._register.accounts.values())
        self._register.close_risks()
        self._fill_everywhere(event.at)

    def timer_fired(self, at: float) -> None:
        """Expiries are dealt with before every event; here backoffs end and a drain's grace."""
        self._timers.armed_at = inf
        if self._timers.backoff_over(at):
            self._fill_everywhere(at)
        self._shed_if_drained(at)

    def drain_started(self, event: DrainStarted) -> None:
        """Those who wait have `grace` seconds more."""
        self._timers.drain_at = event.at + event.grace
        self._shed_if_drained(event.at)

    def policy_changed(self, event: PolicyChanged) -> None:
        """Put it in force; whoever waits is placed again, what runs goes on where it is."""
        self._register.profiles.update(event.profiles)
        waiting = self._register.apply(event.policy, event.at)
        self._endings.apply()
        for pool in self._register.pools:
            judge(pool, self._steadiness)
        self._dispatcher.num_waiting = 0
        for request in waiting:
            self._place_again(request, event.at)
        self._fill_everywhere(event.at)

    def expire_due(self, at: float) -> None:
        """Nobody is dispatched after its time, however late the timer comes; the late go behind those who are not."""
        request = self._timers.expired(at)
        while request is not None:
            self._endings.expire(self._register.pools[request.pool_index], request, at)
            request = self._timers.expired(at)
        request = self._timers.late(at)
        while request is not None:
            self._is_late(request, at)
            request = self._timers.late(at)

    def _is_late(self, request: Request, at: float) -> None:
        pool = self._register.pools[request.pool_index]
        lane = pool.lanes[request.lane]
        if not pool.late_last:
            return
        if at - lane.waits_since < OVERLOADED:
            self._timers.look_again(request, lane.waits_since + OVERLOADED)
        else:
            lane.is_late(request)

    def make_place(self, request: Request, full: Reason, at: float) -> bool:
        """Shed the newest one that may be shed from the queue that is full; whether there is a place now.

        A tenant's place may be freed in another tier than the request waits in: then its tier must have one too, and
        nobody is shed where it has not.
        """
        newest = self._dispatcher.sheddable.newest
        victim, tier, other = newest(request, full), request.tier_queue, None
        if victim is None:
            return False
        if victim.tier_queue is not tier and tier.num_waiting >= tier.queue_limit:
            other = newest(request, Reason.QUEUE_FULL)
            if other is None:
                return False
            if other.account is victim.account:  # one place of both queues
                victim, other = other, None
        for gone in (victim, other):
            if gone is not None:
                self._endings.shed(self._register.pools[gone.pool_index], gone, Reason.OVERLOAD, at)
        return True

    def _place_again(self, request: Request, at: float) -> None:
        """As if it came now: by what it asks for, less what is taken from it under the new policy."""
        old, taken = self._register.pools[request.pool_index], request.token_estimate
        request.lane = self._register.lane_for(request)
        request.tried = 0  # places of replicas, which may be others' now
        pool, _ = place(self._register, request, at)
        request.sent_model = request.degraded = ""
        if pool is not None:
            pool = degrade(self._register, pool, request)
        target = self._register.any_pool(request.model) if pool is None else pool
        if target is None:
            request.lane = 0  # of a pool that may be closed, and know no other
        else:
            reserve(target, request)
        request.token_estimate = taken  # from its tenant's rate, when it came
        self._dispatcher.put_in_queue(old if target is None else target, request, at)
        if target is None:
            self._endings.shed(old, request, Reason.NO_REPLICA, at)

    def _shed_if_drained(self, at: float) -> None:
        if at < self._timers.drain_at:
            return
        self._timers.drain_at = inf
        for pool in self._register.pools:
            for lane in pool.lanes:
                for request in lane.waiting():
                    self._endings.shed(pool, request, Reason.DRAINING, at)

    def _fill_everywhere(self, at: float) -> None:
        for pool in self._register.pools:
            if pool.num_waiting:
                self._dispatcher.drain(pool, at)

"""A governor in the state that a snapshot tells: to ask it what it would do, without touching the one that works.

What a snapshot does not hold is taken as follows: requests in flight and waiting stand for their tenant and tier, not
for their own lengths (those in flight share what their tier uses; those waiting are as large as the one asked about);
prefixes that replicas hold, and when what runs will end, are not known.
"""

from math import inf

from plimsoll.governor.events import (
    BudgetsReported,
    BudgetState,
    DrainStarted,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
)
from plimsoll.governor.governor import Governor
from plimsoll.governor.lifecycle import DISPATCHED
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.snapshot import PoolState, QueueState, ReplicaState, Snapshot, TenantState
from plimsoll.governor.tenants import ENOUGH
from plimsoll.slo.budget import BudgetHealth

ALL_TIERS = "all"


def restore(governor: Governor, snapshot: Snapshot, like: RequestArrived) -> None:
    """Bring a fresh governor to about the state of a snapshot; `like` is the request that it will be asked about."""
    governor.handle(_reports_of(snapshot))
    governor.handle(_budgets_of(snapshot))
    restoring = _Restoring(governor.register, snapshot)
    restoring.tenants()
    restoring.fronts()
    if snapshot.draining:
        governor.handle(DrainStarted(snapshot.at, inf))
    for pool, request, since in restoring.pools(like):
        governor.dispatcher.put_in_queue(pool, request, since)


def _reports_of(snapshot: Snapshot) -> ReplicasReported:
    """What its replicas said last."""
    found = [
        ReplicaReport(
            state.replica,
            state.healthy,
            snapshot.at - (state.report_age or 0.0),
            state.running,
            state.waiting,
            state.kv_usage,
            state.capacity if state.unit == "blocks" else None,
            state.block_size or None,
        )
        for pool in snapshot.pools
        for state in pool.replicas
        if state.report_age is not None
    ]
    return ReplicasReported(snapshot.at, tuple(found))


def _budgets_of(snapshot: Snapshot) -> BudgetsReported:
    """Which budgets are spent, and whose are healthy."""
    states = [
        BudgetState(tenant.tenant, objective, None, exhausted=True)
        for tenant in snapshot.tenants
        for objective in tenant.spent
    ]
    healthy = BudgetHealth.HEALTHY
    states += [BudgetState(each.tenant, "", None, health=healthy) for each in snapshot.tenants if each.healthy]
    return BudgetsReported(snapshot.at, tuple(states))


class _Restoring:
    """Brings a fresh register to a snapshot's state; its governor has been told of reports and budgets."""

    def __init__(self, register: Register, snapshot: Snapshot) -> None:
        self._register = register
        self._snapshot = snapshot
        self._num = 0

    def tenants(self) -> None:
        """What they have open and left of their limits, where they stand, how long their outputs are."""
        for state in self._snapshot.tenants:
            account = self._register.account(state.tenant)
            account.num_open, account.level = state.open, state.level
            account.headroom, account.demoted, account.stands_until = state.headroom, state.demoted, inf
            if account.tokens is not None and state.tokens_left is not None:
                account.tokens.level = state.tokens_left
            if account.requests is not None and state.requests_left is not None:
                account.requests.level = state.requests_left
            if account.flow is not None and account.tokens is not None:
                account.flow.factor = state.token_factor
                account.tokens.retune(state.token_factor, self._snapshot.at)
            self._learn(state)
        self._register.has_degraded_tenants = any(state.level for state in self._snapshot.tenants)

    def fronts(self) -> None:
        """How quick pools are, and for whom that was quick enough."""
        fronts, told = self._register.fronts, self._snapshot.pools
        for state in told:
            for tier in self._register.ranked if state.pace is not None else ():
                fronts.restore(tier.name, state.pool, kept=tier.name in state.quick_for)
        fronts.restore_smaller({state.pool: state.smaller for state in told}, self._register.pools)
        self._register.paces_told([state.pace for state in told if state.pace is not None])

    def pools(self, like: RequestArrived) -> list[tuple[Pool, Request, float]]:
        """Level of the ladder and what runs; returns who waits: its pool, itself, since when."""
        by_name = {pool.name: pool for pool in self._register.pools}
        told = {state.pool: state for state in self._snapshot.pools}
        for sizing in self._register.sizings:
            if (known := told.get(sizing.own.pool.name)) is not None and known.adaptive is not None:
                sizing.place({replica.replica for replica in known.replicas})
        for state in self._snapshot.pools:
            pool = by_name.get(state.pool)
            if pool is not None:
                self._pool(pool, state)
        waiting = []
        for queue in self._snapshot.queues:
            pool = by_name.get(queue.pool)
            if pool is not None:
                waiting += self._waiting(pool, queue, like)
        return waiting

    def _learn(self, state: TenantState) -> None:
        """Outputs whose median and high quantile are those that were told."""
        if state.output_median is None or state.output_high is None:
            return
        lengths = self._register.account(state.tenant).outputs.lengths
        for num in range(ENOUGH):
            lengths.add(state.output_median if num < ENOUGH * 7 // 10 else state.output_high)

    def _pool(self, pool: Pool, state: PoolState) -> None:
        if pool.ladder is not None and state.degradation_level:
            pool.ladder.level = state.degradation_level
            pool.level_changed()
        by_name = {replica.name: replica for replica in pool.replicas}
        for told in state.replicas:
            replica = by_name.get(told.replica)
            if replica is not None:
                self._replica(pool, replica, told)

    def _replica(self, pool: Pool, replica: Replica, told: ReplicaState) -> None:
        replica.backoff_until = self._snapshot.at + told.left_alone_for
        replica.num_ejected = told.ejected
        replica.stall_ratio, replica.unsteady, replica.variation = told.stall_ratio, told.unsteady, told.variation
        pool.has_unsteady = pool.has_unsteady or told.unsteady
        if replica.loaded is not None:
            replica.loaded.told(told.adapters, None)
        if replica.predictor is not None and told.ttft_factor is not None and told.itl_factor is not None:
            replica.predictor.ttft_factor, replica.predictor.itl_factor = told.ttft_factor, told.itl_factor
        numbers = told.slots_used or {tier: _share_of(told, used) for tier, used in told.used.items()}
        for tier, used in told.used.items():
            num = numbers.get(tier, 0) if used else 0
            for index in range(num):
                units = used // num + (index < used % num)
                self._run(pool, replica, tier, units)
        replica.pending_prompt, replica.context = told.pending_prompt, told.context

    def _run(self, pool: Pool, replica: Replica, tier: str, units: int) -> None:
        request = self._stand_in(pool, tier, "", RequestArrived(self._snapshot.at, 0, "", pool.policy.model, 0))
        request.state = DISPATCHED
        request.blocks, request.sized_for = units, replica.block_size
        request.pool_index, request.replica_index = pool.index, replica.index
        replica.book(request, units)
        pool.num_in_flight += 1

    def _waiting(self, pool: Pool, queue: QueueState, like: RequestArrived) -> list[tuple[Pool, Request, float]]:
        found = []
        for _ in range(queue.waiting):
            request = self._stand_in(pool, queue.tier, queue.tenant, like)
            request.prompt_tokens, request.output_tokens = like.prompt_tokens, like.max_output_tokens or 512
            request.expected_output = request.output_tokens
            found.append((pool, request, queue.oldest_at))
        return found

    def _stand_in(self, pool: Pool, tier: str, tenant: str, like: RequestArrived) -> Request:
        self._num += 1
        request = Request(like, -self._num)
        request.id = -self._num
        name = tier
        if tier == ALL_TIERS or tier not in self._register.tiers:
            name = self._register.ranked[0].name
        account = self._register.account(tenant)
        lane = self._register.lane_of(name)
        queue = self._register.tiers[name]
        request.belongs_to(account, queue, account.counts_in(name), min(lane, len(pool.lanes) - 1))
        request.expire_at = inf
        return request


def _share_of(told: ReplicaState, used: int) -> int:
    """Requests of a tier that uses so much, where only their sum is known: at least one."""
    if told.unit == "slots":
        return used
    total = sum(told.used.values())
    return max(1, round(told.in_flight * used / total)) if total and used else 0

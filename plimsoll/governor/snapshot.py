"""The governor's state at an instant, as values that JSON can carry."""

from typing import Final

from msgspec import Struct

from plimsoll.governor.counts import Counts
from plimsoll.governor.lifecycle import COMPLETED, DISPATCHED, QUEUED, STATES, STREAMING
from plimsoll.governor.pool import Pool
from plimsoll.governor.poolsizing import PoolSizing
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import Replica
from plimsoll.governor.saturation import saturation
from plimsoll.governor.shown import PoolPace
from plimsoll.governor.tenants import Account


class ReplicaState(Struct, frozen=True):
    """One replica. None is not known."""

    replica: str
    healthy: bool
    routable: bool  # healthy, not backed off, not leaving
    leaving: bool
    in_flight: int
    reserved: int  # in units
    capacity: int
    unit: str  # "blocks" | "slots"
    saturation: float
    floors: dict[str, int]  # units by tier
    used: dict[str, int]
    running: int | None
    waiting: int | None
    kv_usage: float | None
    report_age: float | None  # s
    slot_floors: dict[str, int] | None = None  # concurrent requests by tier; None: they are the unit, or not bounded
    slots_used: dict[str, int] | None = None
    ttft_error_median: float | None = None  # |predicted - actual| / actual; None: not predicted, or too few
    ttft_error_p90: float | None = None
    ttft_bias: float | None = None  # mean of predicted / actual - 1
    ejected: int = 0  # times taken out as an outlier
    block_size: int = 0  # tokens of a KV block; 0: not known
    left_alone_for: float = 0.0  # s that nothing is sent there yet: it was busy, or is an outlier
    pending_prompt: int = 0  # prompt tokens sent there and not computed yet, as far as is known
    context: int = 0  # tokens of prompt and expected output of all in flight
    ttft_factor: float | None = None  # what predictions for it are multiplied by; None: not predicted
    itl_factor: float | None = None
    stall_ratio: float | None = None  # share of its token gaps above 500 ms in the last week; None: not known
    unsteady: bool = False  # much less steady than its pool's others: tiers with `prefer: capable` avoid it
    adapters: tuple[str, ...] | None = None  # LoRA adapters that it should have loaded; None: the pool serves none
    variation: float | None = None  # of its speed between hours of like load in the last week; None: not known
    drafted_anyway: int = 0  # answers for which it drafted though it was asked not to: it has no such switch
    tpot_error_median: float | None = None  # as those of TTFT: of predicted time a token after the first
    tpot_error_p90: float | None = None
    tpot_bias: float | None = None


class PrefillerState(Struct, frozen=True):
    """One engine that only computes prompts."""

    replica: str
    healthy: bool
    routable: bool  # healthy, not left alone
    pending_prompt: int  # prompt tokens sent there and not computed yet, as far as is known
    sent: int  # requests
    failed: int  # … that it did not compute; the replica did


class SizingState(Struct, frozen=True):
    """How a pool's number of replicas adapts."""

    other: str  # the pool that it shares replicas with
    least: int
    most: int
    serving: int  # replicas that it has now
    serving_other: int
    work: float  # what it has to do, in replicas: a running mean
    work_other: float
    moving: str  # replica that ends what it runs, to serve the other pool; "": none
    moving_to: str
    changed_at: float  # when a replica moved last
    moves: int


class PoolState(Struct, frozen=True):
    """One pool."""

    pool: str
    model: str
    waiting: int
    in_flight: int
    saturation: float | None  # None: no replica is routable
    replicas: tuple[ReplicaState, ...]
    degradation_level: int = 0
    hedges: int = 0  # second replicas asked
    hedges_won: int = 0  # … that showed the first token
    prefillers: tuple[PrefillerState, ...] = ()
    adaptive: SizingState | None = None  # None: it keeps its own replicas
    pace: PoolPace | None = None  # how quick its streams were in the last week; None: not told
    quick_for: tuple[str, ...] = ()  # tiers whose `classes.within` it keeps
    smaller: tuple[str, ...] = ()  # pools that are quicker, the best first, where the ladder asks


class TenantState(Struct, frozen=True):
    """Where one tenant stands with its limits and budgets. None: no such limit, or not known."""

    tenant: str
    open: int  # requests waiting or running
    waiting: int
    level: int  # of the ladder, for what is not critical of it
    spent: tuple[str, ...]  # objectives whose budget calls for action
    headroom: int  # requests beyond its concurrency limit, from past months
    demoted: bool  # waits one rank lower
    requests_left: float | None  # this minute
    tokens_left: float | None
    token_factor: float  # what its token rate is multiplied by
    output_median: float | None  # tokens a choice
    output_high: float | None  # … and their high quantile, by which is reserved
    healthy: bool = False  # a budget of its is known to be healthy, and none to be less
    draft_acceptance: float | None = None  # of tokens drafted for it, those accepted; None: not known


class QueueState(Struct, frozen=True):
    """What one tenant has waiting in one tier of one pool."""

    pool: str
    tier: str
    tenant: str
    waiting: int
    oldest_at: float  # arrival of the oldest


class CountState(Struct, frozen=True):
    """One tenant's requests in one tier since the start; `received` is the sum of the others."""

    tenant: str
    tier: str
    received: int
    by_state: dict[str, int]


class RuleState(Struct, frozen=True):
    """A rule of another package that is in force."""

    kind: str  # "order" | "routing" | "admission"
    name: str
    num_faults: int  # times that it raised or said nothing that could be used; our own rule stood in for it
    last_fault: str


class Snapshot(Struct, frozen=True):
    """The whole."""

    at: float
    policy_version: str
    draining: bool
    degradation_level: int
    pools: tuple[PoolState, ...]
    queues: tuple[QueueState, ...]
    counts: tuple[CountState, ...]
    rules: tuple[RuleState, ...] = ()
    tenants: tuple[TenantState, ...] = ()


def take(register: Register, *, draining: bool, at: float, with_accounts: bool) -> Snapshot:
    """The state of everything in the register; without accounts no `counts` and no `tenants`."""
    pools = [pool for pool in register.pools if pool.open or pool.num_in_flight]
    accounts = [*register.accounts.values()] if with_accounts else []
    return Snapshot(
        at,
        register.policy.version,
        draining,
        max([pool.ladder.level for pool in pools if pool.ladder is not None], default=0),
        tuple([_pool(register, pool, at) for pool in pools]),
        tuple([queue for pool in pools for queue in _queues(pool)]),
        tuple([_counts(counts) for account in accounts for counts in account.counts.values()]),
        rule_states(register),
        tuple([_tenant(register, account, at) for account in accounts if account.known]),
    )


def rule_states(register: Register) -> tuple[RuleState, ...]:
    """Rules of other packages in force."""
    return tuple([RuleState(rule.kind, rule.name, rule.num_faults, rule.last_fault) for rule in register.rules.all()])


_SHOWN = frozenset({QUEUED, DISPATCHED, STREAMING, COMPLETED})


def _counts(counts: Counts) -> CountState:
    by_state = {STATES[i]: num for i, num in enumerate(counts.by_state) if num or i in _SHOWN}
    return CountState(counts.tenant, counts.tier, counts.received, by_state)


def _pool(register: Register, pool: Pool, at: float) -> PoolState:
    names = [tier.name for tier in register.ranked] if len(pool.lanes) == len(register.ranked) else ["all"]
    replicas = tuple([_replica(pool, replica, names, at) for replica in pool.replicas if not replica.away])
    prefillers = tuple(
        [
            PrefillerState(p.name, p.healthy, p.routable(at), p.pending_prompt, p.num_sent, p.num_failed)
            for p in pool.prefillers
        ]
    )
    hedges = (0, 0) if pool.hedges is None else (pool.hedges.num, pool.hedges.num_won)
    full, level = saturation(pool, at), 0 if pool.ladder is None else pool.ladder.level
    sizing = next((_sizing(one) for one in register.sizings if one.own.pool is pool), None)
    return PoolState(
        pool.name, pool.policy.model, pool.num_waiting, pool.num_in_flight, full, replicas, level, *hedges, prefillers,
        sizing, register.fronts.paces.get(pool.name),
        tuple([tier.name for tier in register.ranked if register.fronts.keeps(tier.name, pool.name)]),
        tuple([other.name for other in register.fronts.smaller(pool) or ()]),
    )  # fmt: skip


def _sizing(sizing: PoolSizing) -> SizingState:
    own, other, moving = sizing.own, sizing.other, sizing.moving
    return SizingState(
        other.pool.name, sizing.rules.min, sizing.rules.max, len(own.serving()), len(other.serving()), own.work,
        other.work, "" if moving is None else moving.name, "" if moving is None else sizing.taker.pool.name,
        sizing.changed_at, sizing.num_moves,
    )  # fmt: skip


def _tenant(register: Register, account: Account, at: float) -> TenantState:
    return TenantState(
        account.name,
        account.num_open,
        account.num_waiting,
        account.level,
        tuple([state.objective for state in account.budgets.values() if state.degrade or state.exhausted]),
        account.headroom,
        account.demoted,
        None if account.requests is None else account.requests.left(at),
        None if account.tokens is None else account.tokens.left(at),
        1.0 if account.flow is None else account.flow.factor,
        account.outputs.median.middle(),
        account.outputs.high.upper(),
        account.healthy,
        register.acceptance.ratio(account.index, ""),
    )


_UNTOLD: Final = (None, None, None)


def _replica(pool: Pool, replica: Replica, names: list[str], at: float) -> ReplicaState:
    report = replica.report
    slots = replica.slot_room
    predictor = replica.predictor
    ttft = _UNTOLD if predictor is None else predictor.ttft_errors.told()
    if replica.learned is not None:
        ttft = replica.learned.errors.told()
    tpot = _UNTOLD if predictor is None else predictor.tpot_errors.told()
    return ReplicaState(
        replica.name,
        replica.healthy,
        replica.routable(at),
        replica.leaving,
        replica.num_in_flight,
        replica.reserved,
        replica.capacity,
        "blocks" if replica.in_blocks else "slots",
        replica.saturation(),
        dict(zip(names, replica.room.floors, strict=False)),
        dict(zip(names, replica.room.used, strict=False)),
        None if report is None else report.running,
        None if report is None else report.waiting,
        None if report is None else report.kv_usage,
        None if report is None else at - report.reported_at,
        None if slots is None else dict(zip(names, slots.floors, strict=False)),
        None if slots is None else dict(zip(names, slots.used, strict=False)),
        *ttft,
        replica.num_ejected,
        replica.block_size,
        max(0.0, replica.backoff_until - at),
        replica.pending_prompt,
        replica.context,
        None if predictor is None else predictor.ttft_pace(),
        None if predictor is None else predictor.itl_pace(),
        replica.stall_ratio,
        replica.unsteady,
        None if replica.loaded is None else replica.loaded.names(),
        replica.variation,
        replica.num_drafted_anyway,
        *tpot,
    )


def _queues(pool: Pool) -> list[QueueState]:
    found: dict[tuple[str, str], list[float]] = {}
    for lane in pool.lanes:
        for request in lane.waiting():
            found.setdefault((request.tier_name, request.account.name), []).append(request.arrived_at)
    return [
        QueueState(pool.name, tier, tenant, len(arrivals), arrivals[0])
        for (tier, tenant), arrivals in sorted(found.items())
    ]

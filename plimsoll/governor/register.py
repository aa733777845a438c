"""The policy in force as the governor works with it: tenants, tiers and pools by name, with their running state."""

from collections.abc import Iterable, Mapping
from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.fronts import Fronts
from plimsoll.governor.months import Month
from plimsoll.governor.pool import Pool
from plimsoll.governor.poolsizing import PoolSizing, shared
from plimsoll.governor.prefiller import Prefiller
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.rules import Rules
from plimsoll.governor.shown import PoolPace
from plimsoll.governor.speculating import Acceptance
from plimsoll.governor.tenants import Account
from plimsoll.governor.tiers import TierQueue
from plimsoll.policy.budget import Risk
from plimsoll.policy.matrix import in_order
from plimsoll.policy.policy import Policy, Tenant, Tier

_OVERSUBSCRIPTION: Final = Risk.OVERSUBSCRIPTION.value
_LENDING: Final = Risk.LENDING.value
_HEDGING: Final = Risk.HEDGING.value


class Register:
    """Survives policy changes: accounts, pools and replicas keep their indexes and what they have learnt."""

    def __init__(self, profiles: Mapping[str, EngineProfile]) -> None:
        self.profiles = dict(profiles)
        self.rules = Rules()  # of other packages
        self.policy = Policy()
        self.accounts: dict[str, Account] = {}
        self.has_degraded_tenants = False  # for their budgets
        self.tiers: dict[str, TierQueue] = {}
        self.ranked: list[Tier] = []
        self.pools: list[Pool] = []
        self.by_model: dict[str, list[Pool]] = {}
        self.adapters: set[str] = set()  # names among the models that are LoRA adapters
        self.by_replica: dict[str, list[tuple[Pool, Replica]]] = {}
        self.prefillers: dict[str, Prefiller] = {}  # a URL belongs to one pool
        self.sizings: list[PoolSizing] = []  # pools that lend each other replicas
        self.acceptance = Acceptance()  # of draft tokens
        self.fronts = Fronts()  # which pools are best by what they have shown
        self._months: dict[str, Month] = {}

    def apply(self, policy: Policy, at: float) -> list[Request]:
        """Put a policy in force; returns those who waited, oldest first, for the caller to place again.

        Raises UsageError where a rule of another package cannot be had; then the policy before stays in force.
        """
        self.rules.apply(policy.scheduling)
        waiting = self._take_waiting()
        counters = [[lane.counters() for lane in pool.lanes] for pool in self.pools]
        lanes_before = [tier.name for tier in self.ranked]
        self.policy = policy
        self.acceptance.rules = policy.scheduling.speculation
        self._apply_tiers(policy)
        self._apply_tenants(policy, at)
        self._apply_pools(policy)
        self.fronts.order(policy, self.pools, self.by_model)
        self._restore_counters(lanes_before, counters)
        self.close_risks()
        return waiting

    def account(self, tenant: str) -> Account:
        """The tenant's account; one that is not `known` where the policy does not name it."""
        account = self.accounts.get(tenant)
        if account is None:
            account = self.accounts[tenant] = Account(Tenant(tenant, ""), len(self.accounts))
        return account

    def tier_of(self, tenant: Tenant, asked: str) -> TierQueue | None:
        """The tier that the tenant asks for; None where it may not, or where there is none of that name."""
        if asked == tenant.tier or asked in tenant.tiers:
            return self.tiers.get(asked)
        return None

    def any_pool(self, model: str) -> Pool | None:
        """A pool that serves the model, whether it can now or not; None where the policy names none."""
        pools = self.by_model.get(model)
        return None if pools is None else pools[0]

    def month(self, account: Account) -> Month:
        """Names of months in the tenant's zone."""
        known = account.month
        if known is not None:
            return known
        zone = account.tenant.timezone or self.policy.service.timezone
        month = self._months.get(zone)
        if month is None:
            month = self._months[zone] = Month(zone)
        account.month = month
        return month

    def lane_of(self, tier: str) -> int:
        """The queue of that tier within each pool; the lowest where the policy no longer knows it."""
        if not self.policy.scheduling.tiers_matter:
            return 0
        for index, known in enumerate(self.ranked):
            if known.name == tier:
                return index
        return len(self.ranked) - 1

    def degrade_target(self, pool: Pool, prompt_tokens: int, classes: tuple[str, ...] | None) -> Pool | None:
        """A pool for degraded requests that can take such a prompt now: one that the policy names, or, where it says
        so and it is known, the best of those that are quicker and that their tier may use (`classes`; None: all)."""
        smaller = self.fronts.smaller(pool) if self.fronts.small_by_front else None
        for other in self.pools if smaller is None else smaller:
            if other is pool or not (other.open and other.has_hope()):
                continue
            if smaller is None:
                allowed = other.policy.degrade_target
            else:
                allowed = classes is None or in_order(classes, other.policy.sla_class) >= 0
            if allowed and other.prompt_from <= prompt_tokens < other.prompt_below:
                return other
        return None

    def paces_told(self, paces: Iterable[PoolPace]) -> None:
        """How quick pools have shown to be; each report replaces the one before whole."""
        self.fronts.report(paces)
        self.fronts.order(self.policy, self.pools, self.by_model)

    def demoted(self, lane: int) -> int:
        """The queue of one rank lower; the lowest stays."""
        return min(lane + 1, len(self.ranked) - 1) if self.policy.scheduling.tiers_matter else lane

    def lane_for(self, request: Request) -> int:
        """The queue of its tier, or one lower for a demoted tenant."""
        lane = self.lane_of(request.tier_name)
        return self.demoted(lane) if request.account.demoted else lane

    def close_risks(self) -> None:
        """Budgets close risky choices, and open them again, as the policy says: oversubscription, lending of their
        tier's floor, second replicas."""
        rules = self.policy.budget
        keeps, oversubscribes = set(), True
        for account in self.accounts.values():
            spent, healthy = account.spent, account.healthy
            account.may_hedge = not rules.closes(_HEDGING, spent=spent, healthy=healthy)
            if account.known and rules.closes(_LENDING, spent=spent, healthy=healthy):
                keeps.add(account.tenant.tier)
            if account.known and rules.closes(_OVERSUBSCRIPTION, spent=spent, healthy=healthy):
                oversubscribes = False
        for pool in self.pools:
            pool.close_risks([tier.name in keeps for tier in self.ranked], oversubscribes=oversubscribes)

    def _take_waiting(self) -> list[Request]:
        found = [request for pool in self.pools for lane in pool.lanes for request in lane.waiting()]
        found.sort(key=_by_sequence)
        for pool in self.pools:
            pool.num_waiting = 0
        for account in self.accounts.values():
            account.num_waiting = 0
        return found

    def _apply_tenants(self, policy: Policy, at: float) -> None:
        for account in self.accounts.values():
            account.known = False
            account.month = None
        quantile = policy.scheduling.output_quantile
        for tenant in policy.tenants:
            account = self.account(tenant.name)
            own_tier = self.tiers.get(tenant.tier)
            if own_tier is None:  # a policy that was checked has none such
                own_tier = TierQueue(Tier(tenant.tier, len(self.ranked)))
            account.apply(tenant, own_tier, self.lane_of(tenant.tier), at)
            account.follow(quantile.numerator, quantile.denominator)

    def _apply_tiers(self, policy: Policy) -> None:
        before = self.tiers
        for queue in before.values():
            queue.num_waiting = 0
        self.tiers = {}
        self.ranked = sorted(policy.tiers, key=_by_rank)
        for tier in self.ranked:
            known = before.get(tier.name)
            queue = TierQueue(tier) if known is None else known
            queue.apply(tier)
            self.tiers[tier.name] = queue

    def _apply_pools(self, policy: Policy) -> None:
        named = {pool.name for pool in policy.pools}
        for pool in self.pools:
            if pool.name not in named:
                pool.close()
                for lane in pool.lanes:  # who waited is placed elsewhere, and must not be found here again
                    lane.empty()
        self.by_model, self.by_replica = {}, {}
        self.adapters, self.prefillers = set(), {}
        used = self._used_tiers(policy)
        for pool_policy in policy.pools:
            self._pool_named(pool_policy.name)
        self._invite(policy)
        for pool_policy in policy.pools:
            pool = self._pool_named(pool_policy.name)
            for replica in pool.replicas:
                for request in replica.in_flight.values():
                    request.lane = self.lane_for(request)
            pool.apply(pool_policy, policy, self.rules, used, self.profiles.get(pool_policy.engine_profile))
            self.adapters.update(pool_policy.adapters)
            self.prefillers.update({prefiller.name: prefiller for prefiller in pool.prefillers})
            for model in dict.fromkeys([pool_policy.model, *pool_policy.aliases, *pool_policy.adapters]):
                self.by_model.setdefault(model, []).append(pool)
            for replica in pool.replicas:
                if not replica.leaving:
                    self.by_replica.setdefault(replica.name, []).append((pool, replica))
        self._share(policy)

    def _invite(self, policy: Policy) -> None:
        """Each of two pools that share replicas has a place for the other's."""
        own = {pool.name: pool.replicas for pool in policy.pools}
        for pool in self.pools:
            pool.visitors = ()
        for _, first, second in shared(policy):
            for name, others in ((first, own[second]), (second, own[first])):
                self._pool_named(name).visitors = others

    def _share(self, policy: Policy) -> None:
        """Those that shared before go on with what they have learnt and whom they have lent."""
        before = {(sizing.own.pool.name, sizing.other.pool.name): sizing for sizing in self.sizings}
        self.sizings = []
        for rules, first, second in shared(policy):
            sizing = before.get((first, second))
            if sizing is None:
                sizing = PoolSizing(rules, self._pool_named(first), self._pool_named(second))
            sizing.apply(rules)
            self.sizings.append(sizing)

    def _pool_named(self, name: str) -> Pool:
        for pool in self.pools:
            if pool.name == name:
                return pool
        pool = Pool(name, len(self.pools))
        self.pools.append(pool)
        return pool

    def _used_tiers(self, policy: Policy) -> list[Tier]:
        """The tiers by rank; one that no tenant may use holds no floor."""
        named = {tenant.tier for tenant in policy.tenants} | {name for t in policy.tenants for name in t.tiers}
        return [tier if tier.name in named else _without_floor(tier) for tier in self.ranked]

    def _restore_counters(self, lanes_before: list[str], counters: list[list[dict[int, float]]]) -> None:
        for pool, saved in zip(self.pools, counters, strict=False):
            if len(saved) != len(lanes_before):  # one queue for all had no tiers
                continue
            for name, counter in zip(lanes_before, saved, strict=True):
                if name in self.tiers and pool.open:
                    pool.lanes[self.lane_of(name)].restore(counter)


def _without_floor(tier: Tier) -> Tier:
    return Tier(tier.name, tier.rank)


def _by_rank(tier: Tier) -> int:
    return tier.rank


def _by_sequence(request: Request) -> int:
    return request.sequence

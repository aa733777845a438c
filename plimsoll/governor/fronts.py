"""Which pool is best by what pools have shown: of those quick enough for a tier, and of those quicker than another.

How quick they are is measured over a week outside (`CapabilitiesReported`), their quality is the policy's; here is
what follows from both by `slo/front`. Orders are made anew when either changes, and only looked up for a request.
"""

from collections.abc import Iterable, Mapping

from plimsoll.governor.pool import Pool
from plimsoll.governor.shown import PoolPace
from plimsoll.policy.matrix import FRONT, TTFT, TierClasses
from plimsoll.policy.matrix import in_order as place_in
from plimsoll.policy.policy import Policy
from plimsoll.slo.front import Candidate, in_order, keeps, smaller


class Order:
    """A model's pools, the best first. Those of one place are as good: what else is preferred may decide there."""

    def __init__(self, pools: list[Pool], places: list[int]) -> None:
        self.pools = pools
        self.places = places

    def among(self, classes: tuple[str, ...]) -> "Order":
        """Those that these classes allow; (): all."""
        if not classes:
            return self
        kept = [index for index, pool in enumerate(self.pools) if place_in(classes, pool.policy.sla_class) >= 0]
        return Order([self.pools[index] for index in kept], [self.places[index] for index in kept])


class Fronts:
    """`paces` by pool, as was reported last. Survives policy changes."""

    def __init__(self) -> None:
        self.paces: dict[str, PoolPace] = {}
        self.small_by_front = False  # the ladder's small model is found here
        self._orders: dict[tuple[str, str], Order] = {}  # by tier and model
        self._kept: dict[tuple[str, str], bool] = {}  # by tier and pool: whether its limit was
        self._smaller: dict[str, list[Pool]] = {}

    def report(self, paces: Iterable[PoolPace]) -> None:
        """Each report replaces the one before whole; `order` is to follow."""
        self.paces = {pace.pool: pace for pace in paces}

    def order(self, policy: Policy, pools: list[Pool], by_model: Mapping[str, list[Pool]]) -> None:
        """Make all orders anew, for tiers that ask for the best within a time and for the ladder where it does."""
        self._orders = {}
        for tier in policy.tiers:
            if tier.classes is not None and tier.classes.within is not None:
                self._judge(tier.name, tier.classes, pools)
                for model, serving in by_model.items():
                    self._orders[tier.name, model] = self._order(tier.name, tier.classes, serving)
        self.small_by_front = policy.degradation.small_model == FRONT
        before, self._smaller = self._smaller, {}
        for pool in pools if self.small_by_front else ():
            was = frozenset([other.name for other in before.get(pool.name, [])])
            self._smaller[pool.name] = self._smaller_than(pool, pools, was)

    def of(self, tier: str, model: str) -> Order | None:
        """The order for requests of that tier; None: it does not ask for one."""
        return self._orders.get((tier, model))

    def keeps(self, tier: str, pool: str) -> bool | None:
        """Whether the pool is quick enough for that tier; None: not known, or the tier does not ask."""
        return self._kept.get((tier, pool))

    def restore(self, tier: str, pool: str, *, kept: bool) -> None:
        """Whether it was quick enough, as somebody else says; an order to follow goes on from there."""
        self._kept[tier, pool] = kept

    def restore_smaller(self, names: Mapping[str, tuple[str, ...]], pools: list[Pool]) -> None:
        """The same for pools that were quicker than another."""
        by_name = {pool.name: pool for pool in pools}
        for name, quicker in names.items():
            self._smaller[name] = [by_name[other] for other in quicker if other in by_name]

    def smaller(self, pool: Pool) -> list[Pool] | None:
        """Pools that are quicker, the best first; None where that is not known."""
        return None if self._token_time(pool) is None else self._smaller.get(pool.name)

    def _judge(self, tier: str, classes: TierClasses, pools: list[Pool]) -> None:
        for pool in pools:
            before = self._kept.pop((tier, pool.name), None)
            now = keeps(self.time_of(pool, classes), classes.within or 0.0, before=before)
            if now is not None:
                self._kept[tier, pool.name] = now

    def _order(self, tier: str, classes: TierClasses, serving: list[Pool]) -> Order:
        by_name = {pool.name: pool for pool in serving}
        groups = in_order(
            [
                Candidate(
                    pool.name, pool.policy.quality or 0.0, self.time_of(pool, classes), self.keeps(tier, pool.name)
                )
                for pool in serving
            ]
        )
        found = [(by_name[name], place) for place, names in enumerate(groups) for name in names]
        return Order([pool for pool, _ in found], [place for _, place in found])

    def time_of(self, pool: Pool, classes: TierClasses) -> float | None:
        """What is compared with the limit: as was measured, else as the pool is built for; None: not known."""
        pace = self.paces.get(pool.name)
        if classes.p99_of == TTFT:
            shown = None if pace is None else pace.ttft_p99
            return pool.policy.built_for if shown is None else shown
        return None if pace is None else pace.tpot_p99

    def _smaller_than(self, own: Pool, pools: list[Pool], was: frozenset[str]) -> list[Pool]:
        by_name = {pool.name: pool for pool in pools}
        others = [
            Candidate(pool.name, pool.policy.quality, self._token_time(pool))
            for pool in pools
            if pool.open and pool.policy.quality is not None and pool.policy.model != own.policy.model
        ]
        return [by_name[name] for name in smaller(Candidate(own.name, 0.0, self._token_time(own)), others, was)]

    def _token_time(self, pool: Pool) -> float | None:
        pace = self.paces.get(pool.name)
        return None if pace is None else pace.token_time

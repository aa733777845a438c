"""How many replicas a pool has: two pools of one model share theirs, and lend them by what they have to do.

What a pool has to do is counted in replicas: for each the fullest of its KV, its slots and its next step's prompts,
and what waits as a share of a replica's room; a running mean over half the dwell time. A pool whose replicas are used
above the policy's share gets one of the other's, if the other would then still be used less than four fifths as much
as this one is now. So no move is undone unless what there is to do changes by more than a third, and none comes
within the dwell time of the one before. A replica that moves gets nothing new and leaves when all it runs has ended.
"""

from math import exp, inf
from typing import Final

from plimsoll.governor.decisions import MoveReason, MoveStep, Reassign
from plimsoll.governor.pool import Pool
from plimsoll.governor.replicas import Replica
from plimsoll.governor.saturation import said_or_booked
from plimsoll.policy.policy import Adaptive, Policy

MARGIN: Final = 0.8  # of the taker's use now: what the giver's may be after the move
PATIENCE: Final = 300.0  # s for a replica to end what it runs; then it stays


class Side:
    """One of the two pools, and the mean of what it has to do, in replicas."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.work = 0.0

    def serving(self) -> list[Replica]:
        """Those that belong to it now, up or down."""
        return [replica for replica in self.pool.replicas if not replica.leaving]

    def up(self) -> int:
        """How many of these answer."""
        return len([replica for replica in self.serving() if replica.healthy])

    def use(self, num: int) -> float:
        """Work a replica, were there so many."""
        return self.work / num if num > 0 else inf

    def look(self, keep: float) -> None:
        """Take in what it has to do now; `keep` is the share of the mean that stays."""
        pool = self.pool
        work = 0.0
        for replica in pool.replicas:
            if replica.num_in_flight or (replica.healthy and not replica.leaving):
                full = max(said_or_booked(pool, replica), replica.pending_prompt / replica.prompt_limit)
                work += min(1.0, full)
        serving = self.serving()
        if pool.num_waiting and serving:
            one = serving[0]
            units = sum([one.units_for(request) for lane in pool.lanes for request in lane.waiting()])
            work += units / max(1, one.limit)
        self.work = keep * self.work + (1.0 - keep) * work


class PoolSizing:
    """One pool whose number of replicas follows what it has to do, and the one that it shares them with."""

    def __init__(self, rules: Adaptive, pool: Pool, other: Pool) -> None:
        self.rules = rules
        self.own, self.other = Side(pool), Side(other)
        self.assigned: set[str] = set()  # replicas that serve the pool, among …
        self.known: set[str] = set()  # … all that the two share
        self.changed_at = 0.0  # 0: not since the start
        self.num_moves = 0
        self.moving: Replica | None = None  # in the pool that it leaves …
        self.giver, self.taker = self.other, self.own
        self._reason = MoveReason.DEMAND
        self._moving_since = 0.0
        self._looked_at = 0.0

    def apply(self, rules: Adaptive) -> None:
        """A policy was put in force: who was about to move stays, new ones serve the pool that names them."""
        self.rules = rules
        self.moving = None
        home = set(self.own.pool.policy.replicas)
        every = home | set(self.other.pool.policy.replicas)
        here = (self.assigned & every) | (home - self.known)
        self.known = every
        self.place(here)

    def place(self, names: set[str]) -> None:
        """These replicas serve the pool now, the others of those that are shared the other one."""
        self.assigned = names
        for pool, own in ((self.own.pool, True), (self.other.pool, False)):
            for replica in pool.replicas:
                if replica.name in self.known:
                    replica.leaving = replica.away = (replica.name in names) != own
            pool.count_serving()

    def look(self, at: float) -> list[Reassign]:
        """What is to be done now; the pools' replicas are as it says when this returns."""
        since = at - self._looked_at if self._looked_at else 0.0
        keep = exp(-2.0 * since / self.rules.dwell) if self._looked_at else 0.0
        self._looked_at = at
        self.own.look(keep)
        self.other.look(keep)
        if self.moving is not None:
            return self._go_on(self.moving, at)
        if not self.changed_at:
            self.changed_at = at  # the first look: means of nothing say nothing
        return self._begin(at)

    def _begin(self, at: float) -> list[Reassign]:
        rules, own, other = self.rules, self.own, self.other
        num, num_other = len(own.serving()), len(other.serving())
        if num < rules.min and num_other > 1:
            return self._start(other, own, MoveReason.BOUNDS, at)
        if num > rules.max:
            return self._start(own, other, MoveReason.BOUNDS, at)
        for giver, taker, may in (
            (other, own, num < rules.max and num_other > 1),
            (own, other, num > rules.min),
        ):
            if may and taker.up() == 0 and giver.up() > 1:
                return self._start(giver, taker, MoveReason.NONE_UP, at)
            if may and at - self.changed_at >= rules.dwell and self._needs(taker, giver):
                return self._start(giver, taker, MoveReason.DEMAND, at)
        return []

    def _needs(self, taker: Side, giver: Side) -> bool:
        use = taker.use(taker.up())
        return use >= self.rules.above and giver.use(giver.up() - 1) <= MARGIN * use

    def _start(self, giver: Side, taker: Side, reason: MoveReason, at: float) -> list[Reassign]:
        homes = taker.pool.policy.replicas
        best: Replica | None = None
        for replica in giver.serving():
            if not replica.healthy and reason is not MoveReason.BOUNDS:
                continue
            if best is None or _cost(replica, homes) < _cost(best, homes):
                best = replica
        if best is None:
            return []
        best.leaving = True
        giver.pool.count_serving()
        self.moving, self.giver, self.taker = best, giver, taker
        self._reason, self._moving_since = reason, at
        if best.num_in_flight == 0:
            return self._arrive(best, at)
        return [self._told(MoveStep.DRAINING, best, at)]

    def _go_on(self, replica: Replica, at: float) -> list[Reassign]:
        if replica.num_in_flight == 0:
            return self._arrive(replica, at)
        if at - self._moving_since < PATIENCE:
            return []
        replica.leaving = False
        self.giver.pool.count_serving()
        self.moving, self.changed_at = None, at
        return [self._told(MoveStep.KEPT, replica, at)]

    def _arrive(self, replica: Replica, at: float) -> list[Reassign]:
        replica.away = True
        self.giver.pool.prefixes.forget(replica.bit)  # the other pool's prompts will push out what it holds
        for there in self.taker.pool.replicas:
            if there.name == replica.name:
                there.away = there.leaving = False
                there.backoff_until = max(there.backoff_until, replica.backoff_until)
        self.taker.pool.count_serving()
        if self.taker is self.own:
            self.assigned.add(replica.name)
        else:
            self.assigned.discard(replica.name)
        self.moving, self.changed_at = None, at
        self.num_moves += 1
        return [self._told(MoveStep.MOVED, replica, at)]

    def _told(self, step: MoveStep, replica: Replica, at: float) -> Reassign:
        giver, taker = self.giver, self.taker
        return Reassign(
            at, replica.name, giver.pool.name, taker.pool.name, step, self._reason, len(giver.serving()),
            len(taker.serving()), giver.work, taker.work,
        )  # fmt: skip


def shared(policy: Policy) -> list[tuple[Adaptive, str, str]]:
    """The rules of each pool whose size adapts, its name and that of the pool that it shares replicas with."""
    return [(pool.adaptive, pool.name, pool.adaptive.pool) for pool in policy.pools if pool.adaptive is not None]


def _cost(replica: Replica, homes: tuple[str, ...]) -> tuple[bool, int, int]:
    """Those go first that the policy gives to the taker, then those that have least to end."""
    return replica.name not in homes, replica.num_in_flight, replica.index

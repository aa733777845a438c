"""Page 5: replicas and queues as they are now, by the gateway's snapshot; of recorded logs what rows tell. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from plimsoll.console.logreading import ReplicaLoad
from plimsoll.console.seen import Seen


class ReplicaRow(Struct, frozen=True):
    """One replica. `now` is its state in the snapshot, `log` what the last hour's rows say; either may be missing."""

    pool: str
    replica: str
    now: Mapping[str, Any] | None
    log: ReplicaLoad | None

    @property
    def name(self) -> str:
        """Without the scheme, which all share."""
        return self.replica.partition("://")[2] or self.replica


class PoolRows(Struct, frozen=True):
    """One pool with its replicas."""

    pool: str
    model: str
    now: Mapping[str, Any] | None
    replicas: tuple[ReplicaRow, ...]


class QueueRow(Struct, frozen=True):
    """What one tenant has waiting in one tier of one pool; `age` of the oldest, in s."""

    pool: str
    tier: str
    tenant: str
    waiting: int
    age: float


class ReplicasView(Struct, frozen=True):
    """The page. `has_now`: a gateway said how things are."""

    pools: tuple[PoolRows, ...]
    queues: tuple[QueueRow, ...]
    has_now: bool
    level: int
    draining: bool
    policy_version: str
    loading: bool


def replicas_view(seen: Seen) -> ReplicasView:
    """Pools in the policy's order, then those that only the snapshot or the log knows."""
    now = seen.snapshot or {}
    states = {pool["pool"]: pool for pool in now.get("pools", ())}
    logs: dict[tuple[str, str], ReplicaLoad] = {}
    for each in seen.hour.replicas if seen.hour else ():
        logs[each.pool, each.replica] = each
    models = {pool.name: pool.model for pool in seen.policy.pools}
    names = dict.fromkeys([*models, *states, *[pool for pool, _ in logs]])
    pools = tuple([_pool(name, models.get(name, ""), states.get(name), logs) for name in names])
    queues = [
        QueueRow(each["pool"], each["tier"], each["tenant"], each["waiting"], max(0.0, now["at"] - each["oldest_at"]))
        for each in now.get("queues", ())
    ]
    return ReplicasView(
        pools=tuple([pool for pool in pools if pool.replicas]),
        queues=tuple(sorted(queues, key=lambda each: (-each.age, each.tenant))),
        has_now=seen.snapshot is not None,
        level=now.get("degradation_level", 0),
        draining=now.get("draining", False),
        policy_version=now.get("policy_version", seen.policy.version),
        loading=seen.hour is None,
    )


def _pool(
    name: str, model: str, now: Mapping[str, Any] | None, logs: Mapping[tuple[str, str], ReplicaLoad]
) -> PoolRows:
    states = {each["replica"]: each for each in now["replicas"]} if now else {}
    replicas = dict.fromkeys([*states, *[replica for pool, replica in logs if pool == name]])
    rows = [ReplicaRow(name, replica, states.get(replica), logs.get((name, replica))) for replica in replicas]
    return PoolRows(name, model, now, tuple(rows))

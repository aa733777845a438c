"""How full a pool is: 1.0 means hold. The mean over the replicas that may be sent something.

By what is booked there; or (`saturation: reported`) by what each says of itself, the larger of its own queue over five
requests and its KV usage over four fifths: the measure and the limits of the utilisation detector of llm-d's router.
What was sent since the last report is not in it. A replica that tells neither is judged by what is booked.
"""

from typing import Final

from plimsoll.governor.pool import Pool
from plimsoll.governor.replicas import UNLIMITED, Replica

QUEUE: Final = 5.0  # requests waiting inside the engine
KV_USAGE: Final = 0.8


def saturation(pool: Pool, at: float) -> float | None:
    """None where no replica is routable: that is not zero load."""
    total = 0.0
    num = 0
    for replica in pool.replicas:
        if replica.routable(at):
            total += _reported(replica) if pool.by_reports else replica.saturation()
            num += 1
    return total / num if num else None


def look_at_ladder(pool: Pool, at: float) -> bool:
    """Let the pool's ladder climb or come down where it is time to look; whether it did."""
    ladder = pool.ladder
    if ladder is not None and ladder.due(at):
        full = saturation(pool, at) if ladder.watches_saturation else None
        if ladder.look(at, full):
            pool.level_changed()
            return True
    return False


def holds(pool: Pool, at: float) -> bool:
    """Whether the policy's line is reached, so that nothing is dispatched.

    A line of 1.0 or more needs no sum: reservations alone keep each replica below it.
    """
    if pool.saturation_limit >= 1.0 and not pool.by_reports:
        return False
    full = saturation(pool, at)
    return full is not None and full >= pool.saturation_limit


def said_or_booked(pool: Pool, replica: Replica) -> float:
    """How full a replica is, by what is booked there; by its own word where nothing bounds what is booked."""
    return _reported(replica) if pool.by_reports or replica.limit >= UNLIMITED else replica.saturation()


def _reported(replica: Replica) -> float:
    report = replica.report
    if report is None or (report.waiting is None and report.kv_usage is None):
        return replica.saturation()
    return max((report.waiting or 0) / QUEUE, (report.kv_usage or 0.0) / KV_USAGE)

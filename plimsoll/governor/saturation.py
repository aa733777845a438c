"""How full a pool is: 1.0 means hold. The mean over the replicas that may be sent something."""

from plimsoll.governor.pool import Pool


def saturation(pool: Pool, at: float) -> float | None:
    """None where no replica is routable: that is not zero load."""
    total = 0.0
    num = 0
    for replica in pool.replicas:
        if replica.routable(at):
            total += replica.saturation()
            num += 1
    return total / num if num else None


def holds(pool: Pool, at: float) -> bool:
    """Whether the policy's line is reached, so that nothing is dispatched.

    A line of 1.0 or more needs no sum: reservations alone keep each replica below it.
    """
    if pool.saturation_limit >= 1.0:
        return False
    full = saturation(pool, at)
    return full is not None and full >= pool.saturation_limit

"""Which replicas of a pool are avoided by tiers that prefer capable ones: those that stall streams much more often.

How often they do is measured over a week outside (`CapabilitiesReported`); here is only what follows from it.
"""

from collections.abc import Mapping

from plimsoll.governor.pool import Pool
from plimsoll.slo.steadiness import bound, is_unsteady


def judge(pool: Pool, stalls: Mapping[str, float]) -> None:
    """Take in the share of stalls by replica; one of which nothing is known is steady."""
    known = [stalls[replica.name] for replica in pool.replicas if replica.name in stalls]
    most = bound(known)
    for replica in pool.replicas:
        replica.stall_ratio = stalls.get(replica.name)
        replica.unsteady = is_unsteady(replica.stall_ratio, most, before=replica.unsteady)
    pool.has_unsteady = any(replica.unsteady for replica in pool.replicas)

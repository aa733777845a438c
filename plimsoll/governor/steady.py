"""Which replicas of a pool are avoided by tiers that prefer capable ones: those that are much less steady than others.

How steady they are is measured over a week outside (`CapabilitiesReported`); here is only what follows from it.
"""

from collections.abc import Mapping

from plimsoll.governor.pool import Pool
from plimsoll.governor.shown import ReplicaSteadiness
from plimsoll.slo.steadiness import bound, is_unsteady, variation_bound


def judge(pool: Pool, shown: Mapping[str, ReplicaSteadiness]) -> None:
    """Take in the share of stalls and the variation of speed by replica; one of which nothing is known is steady."""
    for replica in pool.replicas:
        told = shown.get(replica.name)
        replica.stall_ratio = None if told is None else told.stall_ratio
        replica.variation = None if told is None else told.variation
    stalls = bound([replica.stall_ratio for replica in pool.replicas if replica.stall_ratio is not None])
    varies = variation_bound([replica.variation for replica in pool.replicas if replica.variation is not None])
    for replica in pool.replicas:
        before = replica.unsteady
        stalling = is_unsteady(replica.stall_ratio, stalls, before=before)
        replica.unsteady = stalling or is_unsteady(replica.variation, varies, before=before)
    pool.has_unsteady = any(replica.unsteady for replica in pool.replicas)

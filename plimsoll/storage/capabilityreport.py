"""What of measured capabilities the governor is told, and when: the same for a gateway and for a simulation."""

from typing import Final

from plimsoll.analytics.capability import Capabilities
from plimsoll.governor.events import CapabilitiesReported
from plimsoll.governor.shown import PoolPace, ReplicaSteadiness

HOUR: Final = 3600.0
LATE: Final = 300.0  # s after an hour's end at which its rows are in the log


def report(found: Capabilities, at: float) -> CapabilitiesReported:
    """What of them the governor is told; of whom nothing is known it is told nothing."""
    replicas = [
        ReplicaSteadiness(one.replica, one.stall_ratio, one.variation)
        for one in found.replicas
        if one.stall_ratio is not None or one.variation is not None
    ]
    pools = [
        PoolPace(model.pool, model.latency, model.ttft_p99, model.tpot_p99)
        for model in found.models
        if model.latency is not None
    ]
    return CapabilitiesReported(at, tuple(replicas), tuple(pools))

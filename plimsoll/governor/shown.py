"""What replicas and pools have shown in a week, as the governor is told (`CapabilitiesReported`)."""

from msgspec import Struct


class ReplicaSteadiness(Struct, frozen=True, gc=False):
    """How steadily one replica streamed in a week. None: too little was seen."""

    replica: str
    stall_ratio: float | None  # share of token gaps above `slo/steadiness.STALL`
    variation: float | None = None  # of its speed between hours of like load: standard deviation ÷ mean


class PoolPace(Struct, frozen=True, gc=False):
    """How quick one pool's streams were in a week, s. None: too few were seen."""

    pool: str
    token_time: float | None  # a token after the first, in the mean
    ttft_p99: float | None = None  # from dispatch to first token
    tpot_p99: float | None = None  # a token, of one stream

"""One simulated request while it is open."""

from plimsoll.sim import bound
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.job import Job


class Flight:
    """What the virtual hands remember of it: its arrival's fields, and where it is.

    Fields are copied at once: reading a value's fields one by one costs more (a test holds their order).
    """

    starts_at: float  # s from the start of the workload
    tenant: str
    model: str
    prompt_tokens: int
    output_tokens: int
    max_output_tokens: int
    hashes: tuple[int, ...]
    hash_tokens: int
    asked_tier: str
    cause: str
    session: str
    criticality: str
    streaming: bool
    patience: float
    upstream_time: float | None
    prompt_entropy: float | None

    def __init__(self, request_id: int, arrival: Arrival) -> None:
        # fmt: off
        (
            self.starts_at, self.tenant, self.model, self.prompt_tokens, self.output_tokens, self.max_output_tokens,
            self.hashes, self.hash_tokens, self.asked_tier, self.cause, self.session, self.criticality,
            self.streaming, self.patience, self.upstream_time, self.prompt_entropy,
        ) = bound.ASTUPLE(arrival)
        # fmt: on
        self.request_id = request_id
        self.replica = -1  # number of the replica it runs on; -1: queued
        self.job: Job | None = None

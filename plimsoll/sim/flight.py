"""One simulated request while it is open."""

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.job import Job


class Flight:
    """What the virtual hands remember of it."""

    def __init__(self, request_id: int, arrival: Arrival, tenant_tier: str) -> None:
        self.request_id = request_id
        self.arrival = arrival
        self.streaming = arrival.streaming
        self.tier = arrival.tier or tenant_tier
        self.replica = -1  # number of the replica it runs on; -1: queued
        self.job: Job | None = None

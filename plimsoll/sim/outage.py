"""A replica that fails: when, which, and for how long."""

from msgspec import Struct


class Outage(Struct, frozen=True):
    """`at` is s from the start of the workload. What runs there is lost, and it comes up again with empty caches."""

    at: float
    replica: str
    lasts: float  # s

"""A replica that fails: when, which, and for how long."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from plimsoll.sim.agenda import FAILURE, RECOVERY, Agenda


class Outage(Struct, frozen=True):
    """`at` is s from the start of the workload. What runs there is lost, and it comes up again with empty caches."""

    at: float
    replica: str
    lasts: float  # s


def schedule(outages: Iterable[Outage], agenda: Agenda, numbers: Mapping[str, int], start_at: float) -> None:
    """Note when replicas go down and come up."""
    for outage in outages:
        agenda.put(start_at + outage.at, FAILURE, numbers[outage.replica])
        agenda.put(start_at + outage.at + outage.lasts, RECOVERY, numbers[outage.replica])

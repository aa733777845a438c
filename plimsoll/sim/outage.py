"""A replica that fails, or goes down to come back as another engine: when, which, and for how long."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.policy.policy import Pool
from plimsoll.sim.agenda import FAILURE, RECOVERY, Agenda


class Outage(Struct, frozen=True):
    """`at` is s from the start of the workload. What runs there is lost, and it comes up again with empty caches."""

    at: float
    replica: str
    lasts: float  # s
    profile: str = ""  # what it comes up as, from then on; "": as it was

    def meets(self, other: "Outage") -> bool:
        """Whether both are of one replica and overlap, or touch."""
        if self.replica != other.replica:
            return False
        return self.at <= other.at + other.lasts and other.at <= self.at + self.lasts


NONE: Final = Outage(-1.0, "", 0.0)


class Upgrade(Struct, frozen=True):
    """A pool that gets another engine, model build or card, one replica after the other, each down for a while."""

    at: float  # s from the start of the workload: the first goes down
    pool: str
    profile: str  # name or file of an engine profile
    each: float  # s that one is down; the next goes down when it is up

    def outages(self, replicas: Sequence[str]) -> list[Outage]:
        """What that means for the replicas of its pool, in order."""
        return [Outage(self.at + n * self.each, name, self.each, self.profile) for n, name in enumerate(replicas)]


def planned(outages: Iterable[Outage | Upgrade], pools: Sequence[Pool]) -> tuple[Outage, ...]:
    """What goes wrong and what is changed, as outages of single replicas, by time.

    Raises UsageError, with words that name it, where one names no replica or pool, or meets another of its replica.
    """
    known = {pool.name: pool.replicas for pool in pools}
    names = [name for pool in pools for name in (*pool.replicas, *pool.prefill)]
    found: list[Outage] = []
    for each in outages:
        if isinstance(each, Outage):
            if each.replica not in names:
                raise UsageError(f"outages: no replica {each.replica}; there are {', '.join(names)}")
            found.append(each)
        elif each.pool not in known:
            raise UsageError(f"upgrades: no pool {each.pool!r}; there are {', '.join(known)}")
        else:
            found += each.outages(known[each.pool])
    found.sort(key=lambda outage: outage.at)
    last: dict[str, Outage] = {}
    for outage in found:
        if outage.meets(last.get(outage.replica, NONE)):
            raise UsageError(f"{outage.replica} goes down at {outage.at:g} s, before it is up from an outage before")
        last[outage.replica] = outage
    return tuple(found)


def schedule(outages: Iterable[Outage], agenda: Agenda, numbers: Mapping[str, int], start_at: float) -> None:
    """Note when replicas go down and come up."""
    for outage in outages:
        agenda.put(start_at + outage.at, FAILURE, numbers[outage.replica])
        agenda.put(start_at + outage.at + outage.lasts, RECOVERY, numbers[outage.replica])

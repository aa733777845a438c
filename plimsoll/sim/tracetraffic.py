"""Somebody's trace as traffic: whose requests its rows become, at what rate and of what length.

Each choice is drawn from dice keyed by the row, so that a higher rate adds requests and moves none, and one tenant's
requests do not depend on another's.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.prefixchains import chained
from plimsoll.sim.tracesender import Sender
from plimsoll.sim.tracetelling import Telling
from plimsoll.storage.tracerow import TraceRow


class TraceTraffic(Struct, frozen=True):
    """A trace and what is made of it. Times of the trace are divided by `speed`."""

    file: str
    senders: tuple[Sender, ...]
    rows: Sequence[TraceRow] = ()
    speed: float = 1.0
    starts: float = 0.0  # s from the start of the workload
    repeats: bool = False  # once it has ended it starts anew
    spread: float = 10.0  # s over which copies of a request come after it
    poisson: bool = False  # instants drawn anew, at the trace's mean rate: for traces that hold lengths only

    def filled(self, rows: Sequence[TraceRow]) -> "TraceTraffic":
        """The same with its rows, their prefixes as caches know them."""
        return msgspec.structs.replace(self, rows=chained(rows))

    @property
    def ends_at(self) -> float:
        """s from the workload's start to just after its last row."""
        return self.starts + self.rows[-1].at / self.speed + 1.0 if self.rows else 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Whose requests it becomes, each once; where nobody is named, the tenants of the trace itself."""
        named = [sender.name for sender in self.senders]
        return tuple(dict.fromkeys(named or [row.tenant for row in self.rows]))

    def without(self, name: str) -> "TraceTraffic":
        """The same without one tenant's requests."""
        return self._each(lambda sender: 0.0 if sender.name == name else sender.rate)

    def scaled(self, factor: float, names: Collection[str] | None = None) -> "TraceTraffic":
        """The same with more (or fewer) requests, of those tenants only where `names` is given."""
        return self._each(lambda sender: sender.rate * factor if names is None or sender.name in names else sender.rate)

    def _each(self, rate: Callable[[Sender], float]) -> "TraceTraffic":
        senders = self.senders or tuple(Sender(name, of=name) for name in self.names)
        replaced = tuple(msgspec.structs.replace(sender, rate=rate(sender)) for sender in senders)
        return msgspec.structs.replace(self, senders=replaced)

    def arrivals(self, seed: int, duration: float, model: str, number: int = 0) -> Iterator[Arrival]:
        """Its requests in order of time, until `duration`. Raises UsageError where a row's tenant is nobody's."""
        return Telling(self, seed, duration, model, number).arrivals()

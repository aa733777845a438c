"""Somebody's trace as traffic: whose requests its rows become, at what rate and of what length.

Each choice is drawn from dice keyed by the row, so that a higher rate adds requests and moves none, and one tenant's
requests do not depend on another's.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.randomness import stream
from plimsoll.storage.tracerow import TraceRow, length_of

ROWS: Final = 1024
"""Rows whose chances are drawn at once."""
_COPY: Final = 0x9E3779B97F4A7C15
"""Sets the prefixes of a row's further copies, and of other traces, apart from its own: they are other texts."""


class Sender(Struct, frozen=True):
    """Who sends rows of a trace. `of` takes the rows of that tenant of the trace, else rows of nobody by `weight`."""

    name: str
    of: str = ""
    weight: float = 1.0
    rate: float = 1.0  # factor on the number of requests: below 1 some are left out, above 1 some come more than once
    prompt: float = 1.0  # factors on the lengths
    output: float = 1.0
    model: str = ""
    tier: str = ""
    cause: str = ""
    criticality: str = ""
    max_output: int = 0  # as TenantProfile
    streaming: bool = True
    patience: float = inf


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
        """The same with its rows."""
        return msgspec.structs.replace(self, rows=rows)

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
        return _Telling(self, seed, duration, model, number).arrivals()


class _Telling:
    """One run through a trace."""

    def __init__(self, trace: TraceTraffic, seed: int, duration: float, model: str, number: int) -> None:
        self._trace = trace
        self._seed = seed
        self._duration = duration
        self._model = model
        self._purpose = f"trace {number}"
        self._number = number
        self._chances: list[list[float]] = []
        self._instants = np.empty(0)
        senders = trace.senders or tuple(Sender(name, of=name) for name in trace.names)
        self._named = {sender.of: sender for sender in senders if sender.of}
        self._others = [sender for sender in senders if not sender.of]
        self._weight = sum(sender.weight for sender in self._others)

    def arrivals(self) -> Iterator[Arrival]:
        """Requests come with their rows; further copies of them wait in a heap until no earlier request can come."""
        waiting: list[tuple[float, int, Arrival]] = []
        made = 0
        for at, index, row in self._rows():
            while waiting and waiting[0][0] <= at:
                yield heappop(waiting)[2]
            sender, num = self._drawn_sender(index, row)
            if num:
                yield self._arrival(at, row, sender, 0)
            for copy in range(1, num):
                later = at + self._lag(index, copy)
                if later < self._duration:
                    made += 1
                    heappush(waiting, (later, made, self._arrival(later, row, sender, copy)))
        while waiting:
            yield heappop(waiting)[2]

    def _rows(self) -> Iterator[tuple[float, int, TraceRow]]:
        """(at, running number, row) within the duration."""
        trace, rows = self._trace, self._trace.rows
        if not rows:
            return
        length = length_of(rows) / trace.speed
        offset, index = trace.starts, 0
        while True:
            for row in rows:
                at = self._drawn(index, length / len(rows)) if trace.poisson else offset + row.at / trace.speed
                if at >= self._duration:
                    return
                yield at, index, row
                index += 1
            if not trace.repeats or length <= 0.0:
                return
            offset += length

    def _drawn(self, index: int, gap: float) -> float:
        """The instant of an arrival where they are drawn."""
        block, place = divmod(index, ROWS)
        if place == 0:
            gaps = stream(self._seed, self._purpose, "gaps", block).exponential(gap, ROWS)
            since = float(self._instants[-1]) if block else self._trace.starts
            self._instants = since + np.cumsum(gaps)
        return float(self._instants[place])

    def _drawn_sender(self, index: int, row: TraceRow) -> tuple[Sender, int]:
        """Who sends a row, and how often."""
        block, place = divmod(index, ROWS)
        if place == 0:
            self._chances = stream(self._seed, self._purpose, block).random((ROWS, 2)).tolist()
        who, whether = self._chances[place]
        if row.session and len(self._others) > 1:  # those of one session belong to one tenant
            who = float(stream(self._seed, self._purpose, "session", row.session).random())
        sender = self._sender(row, who)
        whole, part = divmod(sender.rate, 1.0)
        return sender, int(whole) + (whether < part)

    def _lag(self, index: int, copy: int) -> float:
        return float(stream(self._seed, self._purpose, "copy", index, copy).random()) * self._trace.spread

    def _sender(self, row: TraceRow, chance: float) -> Sender:
        found = self._named.get(row.tenant) if row.tenant else None
        if found is not None:
            return found
        if row.tenant and not self._others:
            known = ", ".join(sorted(self._named))
            raise UsageError(
                f"{self._trace.file}: nobody sends the requests of its tenant {row.tenant!r} (known: {known})"
            )
        left = chance * self._weight
        for sender in self._others:
            left -= sender.weight
            if left < 0.0:
                return sender
        return self._others[-1]

    def _arrival(self, at: float, row: TraceRow, sender: Sender, copy: int) -> Arrival:
        prompt = max(1, round(row.prompt_tokens * sender.prompt))
        output = max(1, round(row.output_tokens * sender.output))
        block = max(1, round(row.block_tokens * sender.prompt))
        ids = row.prefix_ids[: prompt // block] if row.prefix_ids else ()
        mask = _COPY * (copy + 1000 * self._number) & ((1 << 62) - 1)
        return Arrival(  # by position: keywords cost as much as all the rest
            at,
            sender.name,
            sender.model or self._model,
            prompt,
            min(output, sender.max_output) if sender.max_output > 0 else output,
            output if sender.max_output < 0 else sender.max_output,
            tuple([each ^ mask for each in ids]) if mask else ids,
            block if ids else 512,
            sender.tier,
            row.cause or sender.cause,
            f"{row.session}+{copy}" if copy and row.session else row.session,
            row.criticality or sender.criticality or "critical",
            sender.streaming,
            sender.patience,
            row.upstream_time,
        )

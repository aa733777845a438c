"""One run through a trace: its rows in order, each as what its sender makes of it, further copies where they fall.

Compiled, and values' fields are copied at once, since it runs for every request.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import astuple

from plimsoll.errors import UsageError
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.randomness import stream
from plimsoll.sim.tracesender import Sender
from plimsoll.storage.tracerow import TraceRow, length_of

if TYPE_CHECKING:
    from plimsoll.sim.tracetraffic import TraceTraffic

ROWS: Final = 1024
"""Rows whose chances are drawn at once."""
_COPY: Final = 0x9E3779B97F4A7C15
"""Sets the prefixes of a row's further copies, and of other traces, apart from its own: they are other texts."""
_SIXTY_TWO_BITS: Final = (1 << 62) - 1
_Arrival: Final = Arrival
_astuple: Final = astuple


class Sending:
    """A sender's fields."""

    def __init__(self, sender: Sender, model: str) -> None:
        # fmt: off
        (
            self.name, self.of, self.weight, self.rate, self.prompt, self.output, self.model, self.tier, self.cause,
            self.criticality, self.max_output, self.streaming, self.patience,
        ) = _astuple(sender)
        # fmt: on
        if not self.model:
            self.model = model

    name: str
    of: str
    weight: float
    rate: float
    prompt: float
    output: float
    model: str
    tier: str
    cause: str
    criticality: str
    max_output: int
    streaming: bool
    patience: float


class Telling:
    """`number` tells traces of one workload apart, in their dice and their prefixes."""

    def __init__(self, trace: "TraceTraffic", seed: int, duration: float, model: str, number: int) -> None:
        self._file = trace.file
        self._rows = trace.rows
        self._speed = trace.speed
        self._starts = trace.starts
        self._repeats = trace.repeats
        self._spread = trace.spread
        self._poisson = trace.poisson
        self._seed = seed
        self._duration = duration
        self._purpose = f"trace {number}"
        self._number = number
        self._chances: list[list[float]] = []  # of a block of rows: whose each is, and whether it is sent
        self._instants: list[float] = []
        senders = trace.senders or tuple([Sender(name, of=name) for name in trace.names])
        self._named = {sender.of: Sending(sender, model) for sender in senders if sender.of}
        self._others = [Sending(sender, model) for sender in senders if not sender.of]
        self._weight = sum([sender.weight for sender in self._others])

    def arrivals(self) -> Iterator[Arrival]:
        """Requests come with their rows; further copies of them wait in a heap until no earlier request can come."""
        waiting: list[tuple[float, int, Arrival]] = []
        made = 0
        for at, index, row in self._placed():
            while waiting and waiting[0][0] <= at:
                yield heappop(waiting)[2]
            if index % ROWS == 0:
                self._chances = stream(self._seed, self._purpose, index // ROWS).random((ROWS, 2)).T.tolist()
            sender = self._sender(row, self._chances[0][index % ROWS])
            num = 1 if sender.rate == 1.0 else _num_of(sender.rate, self._chances[1][index % ROWS])
            if num > 0:
                yield self._arrival(at, row, sender, 0)
            for copy in range(1, num):
                later = at + self._lag(index, copy)
                if later < self._duration:
                    made += 1
                    heappush(waiting, (later, made, self._arrival(later, row, sender, copy)))
        while waiting:
            yield heappop(waiting)[2]

    def _placed(self) -> Iterator[tuple[float, int, TraceRow]]:
        """(at, running number, row) within the duration."""
        rows = self._rows
        if not rows:
            return
        length = length_of(rows) / self._speed
        offset, index = self._starts, 0
        while True:
            for row in rows:
                at = self._drawn(index, length / len(rows)) if self._poisson else offset + row.at / self._speed
                if at >= self._duration:
                    return
                yield at, index, row
                index += 1
            if not self._repeats or length <= 0.0:
                return
            offset += length

    def _drawn(self, index: int, gap: float) -> float:
        """The instant of an arrival where they are drawn."""
        block, place = divmod(index, ROWS)
        if place == 0:
            gaps = stream(self._seed, self._purpose, "gaps", block).exponential(gap, ROWS)
            since = self._instants[-1] if block else self._starts
            self._instants = (since + np.cumsum(gaps)).tolist()
        return self._instants[place]

    def _lag(self, index: int, copy: int) -> float:
        return float(stream(self._seed, self._purpose, "copy", index, copy).random()) * self._spread

    def _sender(self, row: TraceRow, chance: float) -> Sending:
        """Who sends a row; `chance` decides among those who take any. Raises UsageError where it is nobody's."""
        tenant: str = row.tenant
        if tenant:
            found = self._named.get(tenant)
            if found is not None:
                return found
            if not self._others:
                known = ", ".join(sorted(self._named))
                raise UsageError(f"{self._file}: nobody sends the requests of its tenant {tenant!r} (known: {known})")
        if row.session and len(self._others) > 1:  # those of one session belong to one tenant
            chance = float(stream(self._seed, self._purpose, "session", row.session).random())
        left = chance * self._weight
        for sender in self._others:
            left -= sender.weight
            if left < 0.0:
                return sender
        return self._others[-1]

    def _arrival(self, at: float, row: TraceRow, sender: Sending, copy: int) -> Arrival:
        prompt: int
        output: int
        ids: tuple[int, ...]
        block: int
        session: str
        _, prompt, output, ids, block, _, session, cause, criticality, _, upstream_time = _astuple(row)
        if sender.prompt != 1.0:
            prompt, block = max(1, round(prompt * sender.prompt)), round(block * sender.prompt)
        if sender.output != 1.0:
            output = max(1, round(output * sender.output))
        if ids:
            block = max(1, block)
            ids = ids[: prompt // block]
            mask = _COPY * (copy + 1000 * self._number) & _SIXTY_TWO_BITS
            if mask:
                ids = tuple([each ^ mask for each in ids])
        most = sender.max_output
        return _Arrival(
            at,
            sender.name,
            sender.model,
            prompt,
            min(output, most) if most > 0 else output,
            output if most < 0 else most,
            ids,
            block if ids else 512,
            sender.tier,
            cause or sender.cause,
            f"{session}+{copy}" if copy and session else session,
            criticality or sender.criticality or "critical",
            sender.streaming,
            sender.patience,
            upstream_time,
        )


def _num_of(rate: float, chance: float) -> int:
    """How often a row is sent."""
    whole, part = divmod(rate, 1.0)
    return int(whole) + (chance < part)

"""Who waits, and who is next: one `Lane` a tier in each pool, in it one `Line` a tenant.

Fair order keeps a virtual counter a tenant (VTC: https://arxiv.org/abs/2401.00588): each dispatch adds its charge
divided by the tenant's weight, the finish corrects it, and the waiting tenant with the lowest counter goes next.
FCFS is the same lane with a single line.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from plimsoll.governor.classes import Classes
from plimsoll.governor.lines import LOOKAHEAD, SCANNED, ClassedLine, Line
from plimsoll.governor.request import Request

OUTPUT_WEIGHT: Final = 2.0  # an output token costs as much as two prompt tokens
CACHED_WEIGHT: Final = 0.1  # a prompt token that the replica holds already


def charge_of(prompt_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    """Tokens of service that a request is charged with, `output_tokens` over all choices."""
    cached = min(cached_tokens, prompt_tokens)
    return (prompt_tokens - cached) + CACHED_WEIGHT * cached + OUTPUT_WEIGHT * output_tokens


def charge_for(request: Request, cached_tokens: int) -> float:
    """The service that a request is expected to take."""
    return charge_of(request.prompt_tokens, cached_tokens, request.expected_output * request.num_choices)


class Lane:
    """A tier's queue in one pool. Requests leave it by state: what is no longer `queued` is skipped when met."""

    def __init__(self, *, fair: bool, trickle: float, classes: Classes | None = None) -> None:
        self.fair = fair
        self._classes = classes  # None: all requests of a tenant are alike
        self.by_turns = False  # each request counts as one, however large
        self.deficit = 0.0  # tokens of service by which another order than fair turns may prefer a tenant
        self.trickle = trickle  # tokens of credit earned per token charged to other lanes
        self.credit = 0.0
        self.num = 0
        self.waits_since = 0.0  # from when on somebody has been waiting
        self.largest_charge = 0.0
        self._lines: dict[int, Line] = {}
        self._heap: list[tuple[float, int, int]] = []  # (counter, sequence of the first, line); stale ones skipped
        self._last: Line | None = None  # served last

    def push(self, request: Request, *, front: bool = False) -> None:
        """Let it wait, at the end of its tenant's line, or in front again after a failed attempt."""
        line = self._line(request.account.index)
        if line.num == 0:
            self._lift(line)
        line.add(request, front=front)
        line.num += 1
        self.num += 1
        if line.num == 1 or front:
            self._offer(line)

    def left(self, request: Request) -> None:
        """It does not wait any more: dispatched, shed, expired or cancelled. Its state has changed already."""
        line = self._line(request.account.index)
        line.num -= 1
        self.num -= 1
        if line.drop(request):
            self._offer(line)

    def is_late(self, request: Request) -> None:
        """Waiting has cost it its objective: its tenant's others go before it from now on."""
        if self.fair:
            line = self._line(request.account.index)
            line.is_late(request)
            self._offer(line)

    def head(self) -> Request | None:
        """Who is next."""
        while self._heap:
            counter, sequence, index = self._heap[0]
            line = self._lines[index]
            first = line.first()
            if first is not None and first.sequence == sequence and counter == line.counter:
                return first
            heappop(self._heap)
            if first is not None and first.sequence != sequence:
                self._offer(line)  # the one that was offered has left
        return None

    def others(self, head: Request) -> list[Request]:
        """A few that might pass the head: its own tenant's next, and the first of other tenants."""
        own = self._line(head.account.index)
        found = own.behind(head)
        if self.fair:
            most = len(found) + LOOKAHEAD
            for entry in self._heap[1 : 1 + SCANNED]:
                line = self._lines[entry[2]]
                if line is own or entry[0] != line.counter:
                    continue  # no other tenant's, or an old entry
                first = line.first()
                if first is not None and first.sequence == entry[1]:
                    found.append(first)
                    if len(found) == most:
                        break
        return found

    def may_pass(self, request: Request, head: Request, charge: float) -> bool:
        """Whether serving `request` before `head` keeps their tenants' counters within one largest charge (and what
        the order may prefer somebody by)."""
        if not self.fair or request.account.index == head.account.index:
            return True
        if self.by_turns:
            charge = 1.0
        ahead = self._line(request.account.index).counter + charge / request.account.weight
        return ahead <= self._line(head.account.index).counter + self.largest_charge + self.deficit

    # --- counters --------------------------------------------------------------------------------------------------

    def charge(self, request: Request, tokens: float, *, waited: bool, pressed: float) -> None:
        """Its tenant is served: `tokens` is the expected service, at dispatch. The request waits no more.

        `pressed` is for how many seconds somebody has been waiting in the pool.
        """
        line = self._line(request.account.index)
        if self._classes is not None:
            line.served(request, tokens, pressed, waited=waited)
            self._offer(line)
        if not self.fair:
            return
        if line.num == 0 and not waited:
            self._lift(line)
        weighted = (1.0 if self.by_turns else tokens) / request.account.weight
        self.largest_charge = max(self.largest_charge, weighted)
        self._last = line
        self._move(line, weighted)

    def correct(self, request: Request, tokens: float) -> None:
        """The service turned out `tokens` more than charged (negative: less)."""
        if self.fair and tokens != 0.0 and not self.by_turns:
            self._move(self._line(request.account.index), tokens / request.account.weight)

    def counters(self) -> dict[int, float]:
        """Counter by tenant index, for snapshots and policy changes."""
        return {index: line.counter for index, line in self._lines.items()}

    def restore(self, counters: dict[int, float]) -> None:
        """Take over the counters of a lane before a policy change; nothing waits yet."""
        for index, counter in counters.items():
            self._line(index).counter = counter

    def empty(self) -> None:
        """Nobody waits here any more: whoever did was placed elsewhere, and still waits. Counters stay."""
        counters = self.counters()
        self._lines.clear()
        self._heap.clear()
        self._last = None
        self.num = 0
        self.restore(counters)

    def waiting(self) -> list[Request]:
        """All that wait, in order of arrival."""
        # One that passed others, failed and waits again stands in its line twice.
        found = {item.sequence: item for line in self._lines.values() for item in line.all()}
        return [found[sequence] for sequence in sorted(found)]

    def _line(self, index: int) -> Line:
        if not self.fair:
            index = 0
        line = self._lines.get(index)
        if line is None:
            line = Line(index) if self._classes is None else ClassedLine(index, self._classes)
            self._lines[index] = line
        return line

    def _lift(self, line: Line) -> None:
        """A tenant that returns from idle starts at the least counter of those who wait: idleness earns nothing.

        Where nobody waits, at that of the tenant served last.
        """
        head = self.head()
        ahead = self._last if head is None else self._line(head.account.index)
        if ahead is not None:
            line.counter = max(line.counter, ahead.counter)

    def _move(self, line: Line, by: float) -> None:
        line.counter += by
        if line.num > 0:
            self._offer(line)

    def _offer(self, line: Line) -> None:
        first = line.first()
        if first is None:
            return
        heap = self._heap
        heappush(heap, (line.counter, first.sequence, line.index))
        if len(heap) > 2 * len(self._lines) + 16:
            fresh = [(other.counter, one.sequence, other.index) for other, one in self._firsts()]
            heapify(fresh)
            self._heap = fresh

    def _firsts(self) -> list[tuple[Line, Request]]:
        found = []
        for line in self._lines.values():
            first = line.first()
            if first is not None:
                found.append((line, first))
        return found

"""What happens next: when each replica wakes, and a heap of rarer instants, ties by (time, priority, number, order)."""

from heapq import heappop, heappush
from math import inf, isqrt
from typing import Final

REPLICA: Final = 0  # what engines have done by an instant is known before anything else at that instant
REPORT: Final = 1  # then what they say of themselves
LEAVING: Final = 2  # a client that leaves frees its place for those that wait
FAILURE: Final = 3  # a replica goes down
RECOVERY: Final = 4  # and comes up again, empty
TIMER: Final = 5  # the governor's own
CHECKED: Final = 6  # plugins have looked at a request: it arrives
ARRIVAL: Final = 7  # last: it finds the world as it is


class Agenda:
    """Entries are (at, priority, number); what the number means is the caller's."""

    def __init__(self) -> None:
        self.next_at = inf  # when the next entry is due
        self._heap: list[tuple[float, int, int, int]] = []
        self._sequence = 0

    def put(self, at: float, priority: int, number: int) -> None:
        """Note something for an instant."""
        self._sequence += 1
        heappush(self._heap, (at, priority, number, self._sequence))
        self.next_at = self._heap[0][0]

    def next_priority(self) -> int:
        """What kind of entry is due next; only where there is one."""
        return self._heap[0][1]

    def pop(self) -> tuple[float, int, int]:
        """Take the next entry out."""
        at, priority, number, _ = heappop(self._heap)
        self.next_at = self._heap[0][0] if self._heap else inf
        return at, priority, number


class Wakes:
    """An instant for each of a few things by number, which changes often, and the earliest of them.

    Kept in blocks with the earliest of each: for a fleet that is less work than a heap, which keeps what was changed.
    """

    def __init__(self, num: int) -> None:
        self.next_at = inf  # the earliest …
        self.next_number = 0  # … and whose it is: the lowest of those that tie
        self._at = [inf] * num
        self._size = max(1, isqrt(num))  # of a block
        self._num_blocks = -(-num // self._size)
        self._earliest = [inf] * self._num_blocks
        self._whose = [0] * self._num_blocks

    def set(self, number: int, at: float) -> None:
        """From now on it wakes at that instant; inf: never."""
        instants = self._at
        if instants[number] == at:
            return
        instants[number] = at
        block = number // self._size
        earliest, whose = self._earliest[block], self._whose[block]
        if at < earliest or (at == earliest and number < whose):
            earliest, whose = at, number
        elif number == whose:
            earliest, whose = self._earliest_of(block)
        else:
            return
        self._earliest[block], self._whose[block] = earliest, whose
        for other in range(self._num_blocks):
            if self._earliest[other] < earliest or (self._earliest[other] == earliest and other < block):
                earliest, whose, block = self._earliest[other], self._whose[other], other
        self.next_at, self.next_number = earliest, whose

    def _earliest_of(self, block: int) -> tuple[float, int]:
        """The earliest of a block and whose it is, looked for among all."""
        instants, first = self._at, block * self._size
        earliest, whose = inf, first
        for other in range(first, min(first + self._size, len(instants))):
            if instants[other] < earliest:
                earliest, whose = instants[other], other
        return earliest, whose

"""What happens next: a heap of instants, ties settled by (time, priority, number, sequence)."""

from heapq import heappop, heappush
from math import inf
from typing import Final

REPLICA: Final = 0  # what engines have done by an instant is known before anything else at that instant
REPORT: Final = 1  # then what they say of themselves
LEAVING: Final = 2  # a client that leaves frees its place for those that wait
TIMER: Final = 3  # the governor's own
ARRIVAL: Final = 4  # last: it finds the world as it is


class Agenda:
    """Entries are (at, priority, number, sequence, stamp); what number and stamp mean is the caller's."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, int, int]] = []
        self._sequence = 0

    def put(self, at: float, priority: int, number: int, stamp: int = 0) -> None:
        """Note something for an instant."""
        self._sequence += 1
        heappush(self._heap, (at, priority, number, self._sequence, stamp))

    def next_at(self) -> float:
        """When the next entry is due; inf where there is none."""
        return self._heap[0][0] if self._heap else inf

    def next_priority(self) -> int:
        """What kind of entry is due next; only where there is one."""
        return self._heap[0][1]

    def pop(self) -> tuple[float, int, int, int, int]:
        """Take the next entry out."""
        return heappop(self._heap)

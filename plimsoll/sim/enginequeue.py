"""The engine's own waiting queue: by arrival, or by priority (lower first) and arrival; the preempted come first."""

from collections import deque
from heapq import heappop, heappush

from plimsoll.sim.job import ENDED, Job


class EngineQueue:
    """Jobs that wait inside the engine."""

    def __init__(self, by_priority: bool) -> None:
        self.by_priority = by_priority
        self.num_waiting = 0
        self._heap: list[tuple[int, int, Job]] = []  # by priority …
        self._line: deque[Job] = deque()  # … or by arrival
        self._num_seen = 0

    def push(self, job: Job) -> None:
        """A job that has just come."""
        self.num_waiting += 1
        if self.by_priority:
            self._num_seen += 1
            job.place = self._num_seen
            heappush(self._heap, (job.priority, job.place, job))
        else:
            self._line.append(job)

    def push_front(self, job: Job) -> None:
        """A job that was preempted: before all others (by priority: at its old place among its like)."""
        self.num_waiting += 1
        if self.by_priority:
            heappush(self._heap, (job.priority, job.place, job))
        else:
            self._line.appendleft(job)

    def head(self) -> Job:
        """Who is next; only where someone waits."""
        if self.by_priority:
            heap = self._heap
            while heap[0][2].state == ENDED:
                heappop(heap)
            return heap[0][2]
        line = self._line
        while line[0].state == ENDED:
            line.popleft()
        return line[0]

    def pop(self) -> Job:
        """Take out who is next."""
        job = self.head()
        self.num_waiting -= 1
        if self.by_priority:
            heappop(self._heap)
        else:
            self._line.popleft()
        return job

    def remove(self, job: Job) -> None:
        """Forget a job that waits; its state becomes ENDED."""
        job.state = ENDED
        self.num_waiting -= 1

"""The engine's own waiting queue: by arrival, or by priority (lower first) and arrival; the preempted come first."""

from heapq import heappop, heappush

from plimsoll.sim.job import ENDED, Job


class EngineQueue:
    """Jobs that wait inside the engine."""

    def __init__(self, by_priority: bool) -> None:
        self.by_priority = by_priority
        self.num_waiting = 0
        self._heap: list[tuple[int, int, Job]] = []
        self._num_seen = 0
        self._foremost = 0

    def push(self, job: Job) -> None:
        """A job that has just come."""
        self._num_seen += 1
        job.place = self._num_seen
        self._put(job)

    def push_front(self, job: Job) -> None:
        """A job that was preempted: before all others (by priority: at its old place among its like)."""
        if not self.by_priority:
            self._foremost -= 1
            job.place = self._foremost
        self._put(job)

    def _put(self, job: Job) -> None:
        self.num_waiting += 1
        heappush(self._heap, (job.priority if self.by_priority else 0, job.place, job))

    def head(self) -> Job:
        """Who is next; only where someone waits."""
        heap = self._heap
        while heap[0][2].state == ENDED:
            heappop(heap)
        return heap[0][2]

    def pop(self) -> Job:
        """Take out who is next."""
        job = self.head()
        heappop(self._heap)
        self.num_waiting -= 1
        return job

    def remove(self, job: Job) -> None:
        """Forget a job that waits; its state becomes ENDED."""
        job.state = ENDED
        self.num_waiting -= 1

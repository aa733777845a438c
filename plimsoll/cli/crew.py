"""Many simulations, here or in other processes: results as they come, how far each is, and an orderly stop.

Ctrl-C is noted, not raised: every run ends at its next look, with what there is; what has not begun never begins.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from typing import Any, Final, Self, TypeVar

from plimsoll.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")

Tell = Callable[[float, int], None]
"""Told of the simulated s and the requests so far."""
Stopped = Callable[[], bool]
Work = Callable[[T, Tell, Stopped], R]
"""One simulation; a function at the top of its module, since other processes must find it."""
Told = Callable[[int, float, int], None]
"""The same as Tell, with the task's place."""

LOOK_EVERY: Final = 0.2  # s between looks at the runs of other processes
_PRELOADED: Final = ["plimsoll.cli.simulating"]
_mine: "tuple[Event, SimpleQueue[tuple[int, float, int]]] | None" = None


class Crew:
    """So many processes, which stay for all that is to be run; with one, everything runs here. A context manager."""

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise UsageError("--jobs must be at least 1")
        self.jobs = jobs
        self.stopping: list[int] = []
        """Not empty once Ctrl-C was pressed."""
        self._before: Any = None
        self._pool: ProcessPoolExecutor | None = None
        self._stop: Event | None = None
        self._queue: SimpleQueue[tuple[int, float, int]] | None = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, lambda number, _: self.stopping.append(number))
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._stop is not None and self._pool is not None:
            self._stop.set()
            self._pool.shutdown(cancel_futures=True)

    def run(self, work: Work[T, R], tasks: Sequence[T], told: Told) -> Iterator[tuple[int, R]]:
        """(place of the task, result) in the order in which they end; those not begun when stopped are missing."""
        if self.jobs == 1:
            yield from self._here(work, tasks, told)
        else:
            yield from self._elsewhere(work, tasks, told)

    def _here(self, work: Work[T, R], tasks: Sequence[T], told: Told) -> Iterator[tuple[int, R]]:
        for place, task in enumerate(tasks):
            if self.stopping:
                return

            def tell(at: float, num: int, place: int = place) -> None:
                told(place, at, num)

            yield place, work(task, tell, lambda: bool(self.stopping))

    def _elsewhere(self, work: Work[T, R], tasks: Sequence[T], told: Told) -> Iterator[tuple[int, R]]:
        pool, stop, queue = self._started()
        places: dict[Future[R | None], int] = {
            pool.submit(_run, work, place, task): place for place, task in enumerate(tasks)
        }
        left: set[Future[R | None]] = set(places)
        while left:
            if self.stopping and not stop.is_set():
                stop.set()
                left = {future for future in left if not future.cancel()}
            done, left = wait(left, LOOK_EVERY, FIRST_COMPLETED) if left else (set(), set())
            while not queue.empty():
                told(*queue.get())
            for future in sorted(done, key=places.__getitem__):
                result = future.result()
                if result is not None:
                    yield places[future], result

    def _started(self) -> "tuple[ProcessPoolExecutor, Event, SimpleQueue[tuple[int, float, int]]]":
        if self._pool is None or self._stop is None or self._queue is None:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(_PRELOADED)
            self._stop, self._queue = context.Event(), context.SimpleQueue()
            self._pool = ProcessPoolExecutor(self.jobs, context, initializer=_begin, initargs=(self._stop, self._queue))
        return self._pool, self._stop, self._queue


def _begin(stop: Event, queue: "SimpleQueue[tuple[int, float, int]]") -> None:
    """In each process of the pool: the parent alone hears Ctrl-C."""
    global _mine  # noqa: PLW0603 - what a process of a pool is given once
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _mine = stop, queue


def _run(work: Work[Any, R], place: int, task: object) -> R | None:
    """One task in a process of the pool; None where it was stopped before it began."""
    if _mine is None:
        raise RuntimeError("a process of no pool")
    stop, queue = _mine
    return None if stop.is_set() else work(task, lambda at, num: queue.put((place, at, num)), stop.is_set)

"""What the journal costs a request: `python -m benchmarks.journal`.

CPU time of the serving thread for opened, settle and the flushes, as the gateway does them: one flush when a request is
opened, one when it is settled, with several requests in one turn of the event loop under load. Each figure is the best
of many short slices, so that what else the machine does shows as little as can be. Target: 5 µs a request in all.
"""

import tempfile
import time
from pathlib import Path

from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.storage.rows import NOVEMBER, settle

SLICE = 256
NUM_SLICES = 400


def cost(per_flush: int, directory: Path) -> float:
    """µs a request with that many opened, and that many settled, in one flush."""
    settles = [settle(number) for number in range(SLICE)]
    journal = Journal.open(directory / str(per_flush))
    best = min(slice_seconds(journal, settles, per_flush) for _ in range(NUM_SLICES))
    journal.close()
    return best / SLICE * 1e6


def slice_seconds(journal: Journal, settles: list[Settle], per_flush: int) -> float:
    """CPU seconds for SLICE requests."""
    began = time.thread_time()
    for first in range(0, SLICE, per_flush):
        for number in range(first, first + per_flush):
            journal.opened(number, "acme", "gold", NOVEMBER, "llama-3.1-70b", "chat", True, 1, None, "")
        journal.flush()
        for number in range(first, first + per_flush):
            journal.settle(settles[number])
        journal.flush()
    return time.thread_time() - began


def restart(directory: Path) -> float:
    """Seconds to open a journal whose last segment is full of rows and has 10,000 requests open."""
    journal = Journal.open(directory)
    for number in range(1, 10_001):
        journal.opened(number, "acme", "gold", NOVEMBER)
    number = 10_000
    while journal._appender.left > 100_000:
        number += 1
        journal.opened(number, "acme", "gold", NOVEMBER)
        journal.settle(settle(number))
        journal.flush()
    journal._appender.abandon()
    journal._lock.release()
    began = time.perf_counter()
    Journal.open(directory).close()
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as directory:
        for per_flush in (1, 2, 4, 16):
            print(f"{per_flush:3d} requests a turn: {cost(per_flush, Path(directory)):5.2f} µs a request")
        print(f"restart, full segment, 10,000 open: {restart(Path(directory) / 'restart'):.2f} s")


if __name__ == "__main__":
    main()

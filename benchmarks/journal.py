"""What the journal costs a request: `python -m benchmarks.journal`.

CPU time of the serving thread for opened, settle and flush, with several requests a flush (under load, several end in
one turn of the event loop). Target: 5 µs a request in all, with at least two requests a flush.
"""

import tempfile
import time
from pathlib import Path

from plimsoll.storage.journal import Journal
from tests.storage.rows import NOVEMBER, settle

NUM_REQUESTS = 40_000
REPEATS = 5


def cost(per_flush: int, directory: Path) -> float:
    """Best of REPEATS, µs a request."""
    settles = [settle(number) for number in range(64)]  # few, so that they are in the cache as fresh ones would be
    best = float("inf")
    for repeat in range(REPEATS):
        journal = Journal.open(directory / f"{per_flush}-{repeat}")
        began = time.thread_time()
        for number in range(1, NUM_REQUESTS + 1):
            journal.opened(number % 64, "acme", "gold", NOVEMBER)
            journal.settle(settles[number % 64])
            if number % per_flush == 0:
                journal.flush()
        best = min(best, (time.thread_time() - began) / NUM_REQUESTS)
        journal.close()
    return best * 1e6


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
            print(f"{per_flush:3d} requests a flush: {cost(per_flush, Path(directory)):5.2f} µs a request")
        print(f"restart, full segment, 10,000 open: {restart(Path(directory) / 'restart'):.2f} s")


if __name__ == "__main__":
    main()

"""How far the projections are behind a journal that is written to: `python -m benchmarks.lag`.

A process writes opened and settled requests at that rate, each flushed as the gateway does; a real projector follows.
Every 20 ms the end of the log is noted, and up to where the books are posted. A row's lag is the time from its flush
until the books say that they have it. Target: at most 1 s. What else the machine does is part of the figure.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from plimsoll.storage.journal import Journal
from plimsoll.storage.projector import give_way
from tests.storage.rows import NOVEMBER, POLICY, settle

LOOK = 0.02


class Watch:
    """Ends of the log with their instants, and when the books had reached them."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[int, float]] = []  # end of the log, when it was flushed
        self.lags: list[float] = []
        self.stopping = False

    def flushed(self, end: int) -> None:
        """The log now reaches there."""
        self._waiting.append((end, time.monotonic()))

    def run(self) -> None:
        """Look until told to stop."""
        with closing(sqlite3.connect(f"{self._ledger.as_uri()}?mode=ro", uri=True, timeout=10.0)) as books:
            while not self.stopping or self._waiting:
                (reached,) = books.execute("SELECT max(reached) FROM positions").fetchone()
                now = time.monotonic()
                num = 0
                for end, at in self._waiting:
                    if end > reached:
                        break
                    self.lags.append(now - at)
                    num += 1
                del self._waiting[:num]
                time.sleep(LOOK)


def measure(home: Path, rate: float, seconds: float) -> list[float]:
    """Seconds of lag of each flush."""
    journal = Journal.open(home)
    journal.policy(NOVEMBER, POLICY)
    journal.flush()
    command = [sys.executable, "-m", "plimsoll", "project", str(home), "--follow"]
    projector = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    give_way(projector.pid)
    while not (home / "ledger.sqlite").exists() or not _ready(home / "ledger.sqlite"):
        time.sleep(0.1)
    watch = Watch((home / "ledger.sqlite").absolute())
    watching = threading.Thread(target=watch.run)
    watching.start()
    begun = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        journal.opened(number, "acme", "gold", NOVEMBER + number)
        journal.settle(settle(number, bad=number % 20 == 0, arrived_at=NOVEMBER + number))
        journal.flush()
        watch.flushed(journal._appender.offset)
    watch.stopping = True
    watching.join()
    projector.terminate()
    projector.wait()
    journal.close()
    return watch.lags


def _ready(ledger: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as books:
            return books.execute("SELECT max(reached) FROM positions").fetchone()[0] is not None
    except sqlite3.Error:
        return False


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lags = sorted(measure(Path(directory), options.rate, options.seconds))
    middle, high = lags[len(lags) // 2], lags[int(0.99 * len(lags))]
    print(
        f"{len(lags):,} requests at {options.rate:g} a second: behind by {1000 * middle:.0f} ms (median), "
        f"{1000 * high:.0f} ms (99 %), {1000 * lags[-1]:.0f} ms at most; load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()

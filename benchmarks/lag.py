"""How far the projections are behind a journal that is written to: `python -m benchmarks.lag [--budgets 3000]`.

A process writes opened and settled requests at that rate, each flushed as the gateway does; a real projector follows.
Every 20 ms the end of the log is noted, and up to where the books are posted. A row's lag is the time from its flush
until the books say that they have it. Target: at most 1 s, also while a service that has just started reads a month of
that many budgets and forecasts them. What else the machine does is part of the figure.
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

from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import load
from plimsoll.policy.policy import Policy
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projector import give_way
from tests.storage.rows import NOVEMBER, POLICY, settle

LOOK = 0.02
LOOK_EVERY = 200
"""Requests between looks whether the budgets are assessed."""


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


def policy_of(budgets: int) -> str:
    """The policy of a service with that many budgets, three a tenant."""
    tenants = "\n".join(
        [f"  - {{name: tenant-{number}, tier: gold, committed: 100k per month}}" for number in range(budgets // 3)]
    )
    return f"""
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    objectives: [{{sli: ttft, below: 800ms, target: 99.5%}}, {{sli: itl, below: 150ms, target: 99%}}]
tenants:
{tenants}
pools: [{{name: chat, model: m, engine: vllm, replicas: ["http://127.0.0.1:8000"]}}]
"""


def live_a_month(paths: DataDirectory, policy: Policy) -> None:
    """Hourly counts of the last 29 days of every budget, as if they had been posted."""
    now = int(time.time() // 3600)
    names = [(tenant.name, objective.name) for tenant in policy.tenants for objective in policy.tiers[0].objectives]
    with LedgerDatabase(paths.ledger) as books, books.writing() as connection:
        rows = [("before", *name, hour, 98, hour % 3) for name in names for hour in range(now - 29 * 24, now)]
        connection.exec_driver_sql("INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?)", rows)


def measure(home: Path, rate: float, seconds: float, budgets: int = 0) -> list[float]:
    """Seconds of lag of each flush."""
    journal = Journal.open(home)
    policy, began_at, tenant = POLICY, NOVEMBER, "acme"
    if budgets:
        journal.paths.policy.write_text(policy_of(budgets))
        policy, began_at, tenant = load(journal.paths.policy), time.time(), "tenant-0"
        live_a_month(journal.paths, policy)
    journal.policy(began_at, policy)
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
    number, least = 0, int(rate * seconds)
    while number < least or (budgets and (number % LOOK_EVERY or not assessed(home / "ledger.sqlite"))):
        number += 1
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        at = began_at + number / rate
        journal.opened(number, tenant, "gold", at)
        done = settle(number, bad=number % 20 == 0, tenant=tenant, arrived_at=at)
        journal.settle(Settle(replace(done.record, policy_version=policy.version), done.entries))
        journal.flush()
        watch.flushed(journal._appender.offset)
    watch.stopping = True
    watching.join()
    if budgets:
        print(f"{assessed(home / 'ledger.sqlite'):,} budgets were assessed meanwhile")
    projector.terminate()
    projector.wait()
    journal.close()
    return watch.lags


def assessed(ledger: Path) -> int:
    """How many budgets' states are told."""
    with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as books:
        return int(books.execute("SELECT count(*) FROM states").fetchone()[0])


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
    parser.add_argument("--budgets", type=int, default=0, help="budgets of the service, with a month behind them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lags = sorted(measure(Path(directory), options.rate, options.seconds, options.budgets))
    middle, high = lags[len(lags) // 2], lags[int(0.99 * len(lags))]
    print(
        f"{len(lags):,} requests at {options.rate:g} a second: behind by {1000 * middle:.0f} ms (median), "
        f"{1000 * high:.0f} ms (99 %), {1000 * lags[-1]:.0f} ms at most; load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()

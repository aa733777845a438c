"""What the books cost a request: `python -m benchmarks.ledger [--postgres] [--status]`.

A log of settled requests (60 tenants, 4 objectives, 4 % with something bad, answers of 20 to 1,519 tokens, 300 a
second) is read, checked, summed and posted as the projector does it. CPU time is this process's; for PostgreSQL the
server's is shown beside it.
Targets: 150,000 settled requests a CPU second into SQLite, 75,000 into PostgreSQL; `budget status` for 1,000 tenants
with 3 objectives each in 100 ms.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.policy.policy import Tenant
from plimsoll.slo.verdict import Charge, Judgement, Verdict
from plimsoll.storage.batch import Batch
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.outlooks import Outlooks
from plimsoll.storage.projections import BATCH_ROWS, relax_collector
from plimsoll.storage.reader import read_rows
from tests.storage.rows import NOVEMBER, POLICY, settle

NUM, TENANTS, RATE = 120_000, 60, 300.0
BENCH_POLICY = replace(POLICY, tenants=tuple(Tenant(f"tenant-{number}", "gold") for number in range(TENANTS)))


def settled(number: int) -> Settle:
    """One request; every 25th has a bad first token, every 50th bad gaps."""
    at = NOVEMBER + number / RATE
    done = settle(number + 1, bad=number % 25 == 0, tenant=f"tenant-{number * 7 % TENANTS}", arrived_at=at)
    bad_gaps, gaps = number % 50 == 0, 19 + number * 7919 % 1500
    verdicts = (
        done.record.verdicts[0],
        Verdict("itl", Judgement.BAD, gaps - 2, 2, Charge.OURS)
        if bad_gaps
        else Verdict("itl", Judgement.GOOD, gaps, 0),
        Verdict("e2e", Judgement.GOOD, 1, 0),
        done.record.verdicts[2],
    )
    entries = tuple(entry for entry in done.entries if bad_gaps or "/itl/" not in entry.source)
    return Settle(replace(done.record, verdicts=verdicts), entries)


def write(home: Path) -> Journal:
    """The log."""
    journal = Journal.open(home)
    journal.policy(NOVEMBER, BENCH_POLICY)
    for number in range(NUM):
        journal.settle(settled(number))
        if number % 64 == 0:
            journal.flush()
    journal.close()
    return journal


def post_all(journal: Journal, where: Path | str, server_cpu: Callable[[], float]) -> tuple[float, float, float]:
    """CPU s of this process, CPU s of the server, wall s."""
    log = journal.paths.identity().log
    with LedgerDatabase(where) as books:
        reached = books.position(log)
        began = time.process_time(), server_cpu(), time.perf_counter()
        while True:
            batch = Batch(reached, books.policies).take(read_rows(journal.paths.journal, reached), BATCH_ROWS)
            if batch.end == batch.start:
                break
            books.post(log, batch)
            reached = batch.end
        return time.process_time() - began[0], server_cpu() - began[1], time.perf_counter() - began[2]


def show(name: str, figures: tuple[float, float, float]) -> None:
    """One line."""
    own, server, wall = figures
    beside = f", server {server:.2f} s more" if server else ""
    print(f"{name:10s} {NUM / own:9,.0f} settled requests a CPU second ({own:.2f} s{beside}; {wall:.2f} s wall)")


def user_cpu(name: str) -> float:
    """CPU s of all processes of that name."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        if head.endswith(f"({name}"):
            ticks += sum(map(int, rest.split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def show_status() -> None:
    """1,000 tenants × 3 objectives, 30 days of hours: the service's first minute, further ones, and the status."""
    from plimsoll.cli.budgetbooks import told_rows
    from plimsoll.storage.budgeting import BudgetKeeper
    from plimsoll.storage.datadir import DataDirectory

    now = NOVEMBER + 29 * 86_400
    tenants = tuple(Tenant(f"tenant-{number}", "gold", committed=100_000) for number in range(1000))
    policy = replace(POLICY, tenants=tenants)
    names = [objective.name for objective in policy.tiers[0].objectives]
    with tempfile.TemporaryDirectory() as directory, LedgerDatabase(Path(directory) / "ledger.sqlite") as books:
        books.policies[policy.version] = policy
        owners = [(tenant.name, name) for tenant in tenants for name in names]
        with books.writing() as connection:
            fill = connection.exec_driver_sql
            hours = range(int(NOVEMBER // 3600), int(now // 3600))
            rows = [("l", *owner, hour, 98, hour % 3) for owner in owners for hour in hours]
            fill("INSERT INTO hours VALUES (?, ?, ?, ?, ?, ?)", rows)
            judged = [("l", *owner, "gold", "v1", "2026-11", "", 68_000, 690, 5, 68_690) for owner in owners]
            fill("INSERT INTO judged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", judged)
            fill("INSERT INTO granted VALUES (?, ?, '2026-11', 500, 120)", owners)
            spent = [(f"{tenant}/{name}/spent:{charge}", 230) for tenant, name in owners for charge in Charge]
            fill("INSERT INTO balances VALUES (?, '2026-11', ?)", spent)
        paths = DataDirectory(Path(directory))
        keeper = BudgetKeeper(paths, books, Outlooks(0.0))
        relax_collector()  # as the service's process does
        for minute in range(3):
            began = time.process_time(), time.perf_counter()
            made = keeper.assess(policy, now + 60 * minute)
            keeper._knowledge.keep(made.rows, made.at)
            cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
            print(f"minute {minute}: {cpu:.2f} s CPU, {wall:.2f} s wall")
        for _ in range(3):
            began = time.process_time(), time.perf_counter()
            num = len(told_rows(paths))
            cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
            print(f"status of {num} budgets: {1000 * cpu:.0f} ms CPU, {1000 * wall:.0f} ms wall")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", action="store_true", help="time budget status and the service instead")
    parser.add_argument("--postgres", action="store_true", help="start a PostgreSQL server of its own, too")
    options = parser.parse_args()
    if options.status:
        show_status()
        return
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        journal = write(home / "data")
        relax_collector()
        for attempt in range(3):
            show("SQLite", post_all(journal, home / f"{attempt}.sqlite", lambda: 0.0))
        if options.postgres:
            from tests.real.postgres import server

            with server() as running:
                for attempt in range(3):
                    show("PostgreSQL", post_all(journal, running.database(f"t{attempt}"), lambda: user_cpu("postgres")))


if __name__ == "__main__":
    main()

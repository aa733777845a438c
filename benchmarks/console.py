"""How fast the console is: 200 tenants and 30 days of history; the first page, other pages, how far behind it is.

`python -m benchmarks.console [DAYS] [REQUESTS A DAY]`. Rows are those of a simulated incident, dealt to 200 tenants and
repeated over the days as Parquet files, one a day. Times are of the wall clock: run it on a machine that does nothing
else.
"""

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

import duckdb

from benchmarks.episodes import episode
from benchmarks.recordedlogs import keep
from plimsoll.storage.logfiles import log_files

NUM_TENANTS: Final = 200
DAY: Final = 86_400


def history(root: Path, days: int, each: int) -> int:
    """A data directory; how many requests it holds."""
    incident = episode("neighbour_long_prompts", 0)
    listed = ", ".join(f"{{name: tenant-{number:03}, tier: silver}}" for number in range(NUM_TENANTS))
    keep(incident.records, incident.policy.replace("tenants: [", f"tenants: [{listed}, "), root)
    (source,) = log_files(root / "requests")
    times = max(1, each // len(incident.records))
    edges = [source.start + (source.end - source.start) * day // days for day in range(days + 1)]
    with duckdb.connect() as connection:
        for day in range(days):
            path = source.path.with_name(f"{edges[day]:020}-{edges[day + 1]:020}.part")
            moved = ", ".join(
                f"{name} + o AS {name}" for name in ("arrived_at", "dispatched_at", "first_token_at", "finished_at")
            )
            connection.execute(
                f"""COPY (SELECT * EXCLUDE (o, n) REPLACE ({moved},
                    request_id + n * 100000 + {day * 1_000_000_000}::BIGINT AS request_id,
                    'tenant-' || lpad(((request_id * 7 + n) % {NUM_TENANTS})::VARCHAR, 3, '0') AS tenant,
                    log_offset + n AS log_offset)
                FROM read_parquet('{source.path}'), (
                    SELECT n, {day - days} * {DAY}::DOUBLE + n * {DAY}::DOUBLE / {times} AS o
                    FROM range({times}) t(n)
                ) ORDER BY finished_at) TO '{path}' (FORMAT parquet)"""
            )
        source.path.unlink()
        for path in source.path.parent.glob("*.part"):
            path.rename(path.with_suffix(".parquet"))
        found = connection.execute(
            f"SELECT count(*), count(DISTINCT tenant) FROM read_parquet('{source.path.parent}/*.parquet')"
        ).fetchall()
    print(f"{found[0][0]:,} requests of {found[0][1]} tenants in {days} days, one file a day")
    return int(found[0][0])


def fetch(url: str) -> tuple[float, str]:
    """Seconds, and the page."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        text = answer.read().decode()
    return time.perf_counter() - began, text


def main() -> None:
    numbers = [int(each) for each in sys.argv[1:]]
    days, each = [*numbers, *(30, 100_000)[len(numbers) :]]
    with tempfile.TemporaryDirectory() as home:
        root = Path(home) / "data"
        history(root, days, each)
        line = [sys.executable, "-m", "plimsoll", "console", str(root), "--port", "0"]
        began = time.perf_counter()
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            ready = process.stdout.readline() if process.stdout else ""
            url = re.findall(r"http://\S+/", ready)[0]
            print(f"READY after {time.perf_counter() - began:.2f} s")
            took, text = fetch(url)
            print(f"first page, whatever is known: {took:.3f} s")
            while 'id="tails"' in text and "tenant-" not in text:
                time.sleep(0.1)
                _, text = fetch(url)
            print(f"first page with tails: {time.perf_counter() - began:.2f} s after the start of the process")
            while "data-lead" not in text and "No tenant is in danger" not in text:
                time.sleep(0.2)
                _, text = fetch(url)
            print(f"first page with its lead: {time.perf_counter() - began:.2f} s after the start of the process")
            for path in (
                "",
                "tenants",
                "tenants/tenant-007?window=24h",
                "tenants/tenant-007?window=30d",
                "cache",
                "journal",
            ):
                times = sorted(fetch(url + path)[0] for _ in range(3))
                print(f"/{path:32} {times[1]:.3f} s, {len(fetch(url + path)[1]) / 1000:.0f} KB")
            process.terminate()


if __name__ == "__main__":
    main()

"""How fast the console is: 200 tenants and 30 days of history; the first page, other pages, how far behind it is.

`python -m benchmarks.console [DAYS] [REQUESTS A DAY] [cold=STARTS]`. Rows are those of a simulated incident, dealt to
200 tenants and repeated over the days up to now as Parquet files, one a day. How far behind: rows are written to the
journal while the console goes on reading all else, and a client does what the page's script does, hear of news and ask
for the page; a row's lag is the time from its flush until that page counts it. `cold`: so many starts of a new process,
each until the first page has its tails and its lead, and nothing else. Times are of the wall clock: run it on a machine
that does nothing else.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import duckdb
from msgspec.structs import replace

from benchmarks.episodes import episode
from benchmarks.recordedlogs import keep
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.storage.journal import Journal
from plimsoll.storage.logfiles import log_files
from plimsoll.storage.segment import segment_name

NUM_TENANTS: Final = 200
DAY: Final = 86_400
ENDED: Final = re.compile(r'id="ended">([\d,]+)<')


def history(root: Path, days: int, each: int) -> Record:
    """Make a data directory, the last row of which ended about now; one of its rows."""
    incident = episode("neighbour_long_prompts", 0)
    listed = ", ".join(f"{{name: tenant-{number:03}, tier: silver}}" for number in range(NUM_TENANTS))
    keep(incident.records, incident.policy.replace("tenants: [", f"tenants: [{listed}, "), root)
    (source,) = log_files(root / "requests")
    times = max(1, each // len(incident.records))
    shift = time.time() - max(record.finished_at for record in incident.records) + DAY / times
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
                    SELECT n, {shift + (day - days) * DAY!r}::DOUBLE + n * {DAY}::DOUBLE / {times} AS o
                    FROM range({times}) t(n)
                ) ORDER BY finished_at) TO '{path}' (FORMAT parquet)"""
            )
        source.path.unlink()
        for path in source.path.parent.glob("*.part"):
            path.rename(path.with_suffix(".parquet"))
        for path in (root / "journal").glob("*.log"):
            path.unlink()
        (root / "journal" / segment_name(source.end)).touch()  # as after its rows have grown old
        found = connection.execute(
            f"SELECT count(*), count(DISTINCT tenant) FROM read_parquet('{source.path.parent}/*.parquet')"
        ).fetchall()
    print(f"{found[0][0]:,} requests of {found[0][1]} tenants in {days} days, one file a day")
    return incident.records[0]


def fetch(url: str) -> tuple[float, str]:
    """Seconds, and the page."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        text = answer.read().decode()
    return time.perf_counter() - began, text


class Page:
    """What an open page counts, kept fresh as its script does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.counted: list[tuple[float, int]] = []  # when a count stood on the page, and which
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with urllib.request.urlopen(self._url + "events", timeout=120) as events, suppress(OSError):  # the end
            for line in events:
                if line.startswith(b"data:"):
                    found = ENDED.search(fetch(self._url)[1])
                    self.counted.append((time.monotonic(), int(found[1].replace(",", "")) if found else 0))


def lags(root: Path, url: str, like: Record, num: int = 60) -> list[float]:
    """Seconds from a row's flush until the page counts it, least first."""
    page, flushed = Page(url), []
    while not page.counted:
        time.sleep(0.1)
    first = page.counted[-1][1]
    with closing(Journal.open(root)) as journal:
        for number in range(num):
            now = time.time()
            row = replace(like, request_id=journal.next_request_id + number, arrived_at=now - 1.0, finished_at=now)
            journal.settle(Settle(row, ()))
            journal.flush()
            flushed.append(time.monotonic())
            time.sleep(0.37)  # in step with nothing that the console does
        time.sleep(3.0)
    return sorted(
        next((at for at, count in page.counted if count - first > number), float("inf")) - began
        for number, began in enumerate(flushed)
    )


def processor_time(process_id: int) -> float:
    """s that a process has used so far, all threads together (proc(5))."""
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cold_start(root: Path) -> tuple[subprocess.Popen[str], str]:
    """A new console that was asked for its first page until that has all it is to have; it and its address."""
    line = [sys.executable, "-m", "plimsoll", "console", str(root), "--port", "0"]
    began = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    ready = process.stdout.readline() if process.stdout else ""
    url = re.findall(r"http://\S+/", ready)[0]
    asked, used = time.perf_counter(), processor_time(process.pid)
    took, text = fetch(url)
    while 'id="tails"' in text and "tenant-" not in text:
        time.sleep(0.1)
        _, text = fetch(url)
    tails, used_at_tails = time.perf_counter(), processor_time(process.pid)
    while "data-lead" not in text and "No tenant is in danger" not in text:
        time.sleep(0.1)
        _, text = fetch(url)
    lead, used_at_lead = time.perf_counter(), processor_time(process.pid)
    print(
        f"READY after {asked - began:.2f} s ({used:.2f} s of processor time); then the first page answers after "
        f"{took:.2f} s, has its tails after {tails - asked:.2f} s ({used_at_tails - used:.2f}) and its lead after "
        f"{lead - asked:.2f} s ({used_at_lead - used:.2f}); load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return process, url


def main() -> None:
    starts = [int(each.removeprefix("cold=")) for each in sys.argv[1:] if each.startswith("cold=")]
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    days, each = [*numbers, *(30, 100_000)[len(numbers) :]]
    with tempfile.TemporaryDirectory() as home:
        root = Path(home) / "data"
        like = history(root, days, each)
        for _ in range(sum(starts)):
            process, _ = cold_start(root)
            process.terminate()
            process.wait()
        if starts:
            return
        process, url = cold_start(root)
        with process:
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
            behind = lags(root, url, like)
            print(
                f"a row is counted on the page {behind[len(behind) // 2]:.2f} s after it was written (median of "
                f"{len(behind)}), {behind[-len(behind) // 20]:.2f} s (95 %), {behind[-1]:.2f} s at most; "
                f"load average {os.getloadavg()[0]:.1f}"
            )
            process.terminate()


if __name__ == "__main__":
    main()

"""What a console costs the gateway beside it: the gateway's CPU with and without one, in turns.

`PLIMSOLL_TOOLS=… python -m benchmarks.console_gateway [--rate R] [--seconds S] [--turns N]`. The same streams a second
go through a real `plimsoll serve` of 200 tenants, with a mock engine behind it; in every other turn a
`plimsoll console --admin` runs and a client does what an open page does. CPU seconds are those of the gateway's process
(user and system), so that what others do on the machine shows little. Target: less than 3 % of a core.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.console import NUM_TENANTS, Page
from benchmarks.gateway import build, command_for, free_port, running, wait_until_it_answers


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9  # the clock of all that the process has run


@contextmanager
def watched(root: Path, admin: int) -> Iterator[None]:
    """A console on it, with a page open."""
    line = [sys.executable, "-m", "plimsoll", "console", str(root), "--port", "0", "--admin"]
    with subprocess.Popen([*line, f"http://127.0.0.1:{admin}"], stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = process.stdout.readline() if process.stdout else ""
            page = Page(re.findall(r"http://\S+/", ready)[0])
            yield
            print(f"  the page was asked for {len(page.counted)} times, and counts {page.counted[-1][1]:,} requests")
        finally:
            process.terminate()


def turn(gateway: int, load: list[str], seconds: float) -> float:
    """Cores that the gateway takes under that load."""
    with subprocess.Popen(load, stdout=subprocess.PIPE) as process:
        time.sleep(1.0)
        before, began = cpu_seconds(gateway), time.monotonic()
        time.sleep(seconds)
        taken = (cpu_seconds(gateway) - before) / (time.monotonic() - began)
        told = json.loads(process.communicate()[0])
    if told["ok"] != told["sent"]:
        raise SystemExit(f"the load failed: {told}")
    return taken


def main() -> None:
    """Build, start, measure in turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0, help="streams a second, 16 events each; near 0: idle")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=5)
    a = parser.parse_args()
    tools = Path(os.environ["PLIMSOLL_TOOLS"]) / "gateway-bench"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(tools, folder)
        mock, port, admin, log = free_port(), free_port(), free_port(), folder / "log"
        command = command_for("serve", port, mock, folder)
        command[command.index("--admin-port") + 1] = str(admin)
        policy = folder / "policy.yaml"
        others = "".join(f"  - {{name: tenant-{number:03}, tier: gold}}\n" for number in range(NUM_TENANTS - 1))
        policy.write_text(policy.read_text().replace("tenants:\n", "tenants:\n" + others))
        load = [str(folder / "gwload"), "--model", "mock-model", "--port", str(port), "--stream", "--chunks", "16"]
        load += ["--conns", "64", "--rate", str(a.rate), "--duration", str(a.seconds + 2.0)]
        with running([str(folder / "mock_upstream"), str(mock)], 1, log), running(command, 0, log) as gateway:
            wait_until_it_answers(port, gateway, log)
            turn(gateway.pid, load, a.seconds)  # warms up
            alone, beside = [], []
            for _ in range(a.turns):
                alone.append(turn(gateway.pid, load, a.seconds))
                with watched(folder / "data", admin):
                    time.sleep(3.0)
                    beside.append(turn(gateway.pid, load, a.seconds))
                print(f"  alone {alone[-1]:.4f} cores, with a console {beside[-1]:.4f}")
    own, more = median(alone), median(beside) - median(alone)
    print(
        f"{a.rate:g} streams a second: the gateway takes {own:.2%} of a core; with a console and an open page "
        f"{more:+.2%} of a core ({more / own:+.1%} of its own); load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()

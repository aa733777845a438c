"""How well the machine carried a live run: idle CPU, how late event loops answer, how long processes wait for a core.

A figure of a starved machine tells of the machine. What is measured here comes from outside the processes, so that
what is measured is what would run anyway.
"""

import http.client
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from msgspec import Struct

from benchmarks.live.stage import Stage

EVERY: Final = 0.1  # s between two questions
MOST_LATE: Final = 0.02  # s, P99 of how late the client itself sent


class Health(Struct, frozen=True):
    """Of one run. Unknown is None."""

    idle: float  # share of all CPU time
    lag_p99: dict[str, float]  # by process, s from question to answer
    lag_most: dict[str, float]
    waiting: dict[str, float]  # by process, share of the time that its threads were ready and had no core
    late_p99: float = 0.0  # s, of the client

    def complaints(self, stage: Stage) -> list[str]:
        """Why this run is not to be trusted; [] where nothing speaks against it."""
        found = []
        if self.idle < stage.least_idle:
            found.append(f"CPU {self.idle:.0%} idle")
        found += [f"{name} answers in {lag * 1e3:.0f} ms" for name, lag in self.lag_p99.items() if lag > stage.most_lag]
        found += [
            f"{name} waits {part:.0%} for a core" for name, part in self.waiting.items() if part > stage.most_wait
        ]
        if self.late_p99 > MOST_LATE:
            found.append(f"client {self.late_p99 * 1e3:.0f} ms late")
        return found


class Watch:
    """Watches from entering to leaving. `asked` are addresses that answer GET /health, `pids` processes, by name."""

    def __init__(self, asked: Mapping[str, str], pids: Mapping[str, int]) -> None:
        self._lags: dict[str, list[float]] = {name: [] for name in asked}
        self._pids = dict(pids)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=each, daemon=True) for each in asked.items()]

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._ticks = _ticks()
        self._waited = {name: _waited(pid) for name, pid in self._pids.items()}
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()

    def health(self) -> Health:
        """So far."""
        wall = time.monotonic() - self._began
        idle, whole = (now - before for now, before in zip(_ticks(), self._ticks, strict=True))
        lags = {name: sorted(times) for name, times in self._lags.items() if times}
        return Health(
            idle=idle / max(1, whole),
            lag_p99={name: times[int(0.99 * (len(times) - 1))] for name, times in lags.items()},
            lag_most={name: times[-1] for name, times in lags.items()},
            waiting={name: (_waited(pid) - self._waited[name]) / wall for name, pid in self._pids.items()},
        )

    def _ask(self, name: str, url: str) -> None:
        """A question each tick; what is late is counted from its tick, so that a stall is not asked about once."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10.0)
        due = time.monotonic()
        while not self._over.is_set():
            sent = time.monotonic()
            with suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/health")
                connection.getresponse().read()
            self._lags[name].append(time.monotonic() - sent)
            due += EVERY
            self._over.wait(max(0.0, due - time.monotonic()))
        connection.close()


def _ticks() -> tuple[int, int]:
    """Idle and all ticks of all cores (proc(5), /proc/stat); stolen time is not idle."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def _waited(pid: int) -> float:
    """s that its threads were ready to run and had no core (kernel: Documentation/scheduler/sched-stats)."""
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9


def worst(found: Sequence[Health]) -> tuple[float, float]:
    """The least idle share and the longest P99 of an answer of all runs."""
    return min(each.idle for each in found), max((lag for each in found for lag in each.lag_p99.values()), default=0.0)

"""Other processes that a command starts and must not leave behind: started, waited for until ready, ended in order."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plimsoll.errors import UsageError

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class Child:
    """One running process; its output goes to a log file, its READY line is caught on the way."""

    def __init__(self, name: str, line: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name, self.log = name, log
        self._ready = threading.Event()
        self.ready_line = ""
        self.process = subprocess.Popen(
            list(line),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C is for the command, which ends its children in order
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one C call, no locks
        )
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    def _copy(self) -> None:
        if self.process.stdout is None:
            return
        with self.log.open("ab", buffering=0) as log, self.process.stdout as lines:
            for line in lines:
                log.write(line)
                if line.startswith(b"READY") and not self.ready_line:
                    self.ready_line = line.decode("utf-8", "replace").strip()
                    self._ready.set()
        self._ready.set()  # the end of its output: whoever waits must look again

    def ready(self, timeout: float) -> str:
        """Its READY line. Raises UsageError with the end of its log where it ends or says nothing in time."""
        said = self._ready.wait(timeout)
        if not self.ready_line:
            state = "ended" if said else f"is not ready after {timeout:g} s"
            raise UsageError(f"{self.name} {state}: {self._last_words()} (its log: {self.log})")
        return self.ready_line

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"

    def end(self, within: float) -> None:
        """SIGTERM, and SIGKILL after `within` s; returns when it is gone and its log is whole."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(2.0)


def die_with_parent() -> None:
    """For a new process, before it becomes what it is to be: SIGTERM when its parent dies, even by kill -9 (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Children:
    """Several, ended on the way out last started first."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []

    def start(self, name: str, line: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
        """Start one; its log is `<name>.log`."""
        self._logs.mkdir(parents=True, exist_ok=True)
        child = Child(name, line, self._logs / f"{name}.log", env)
        self._children.append(child)
        return child

    def fallen(self) -> Child | None:
        """One that ended by itself, if any."""
        return next((child for child in self._children if child.process.poll() is not None), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        deadline = time.monotonic() + 10.0
        for child in reversed(self._children):
            child.end(max(0.5, deadline - time.monotonic()))


def plimsoll(*words: str) -> list[str]:
    """The command line of this very Plimsoll."""
    return [sys.executable, "-m", "plimsoll", *words]

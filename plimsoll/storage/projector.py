"""The projector: a process of its own that brings the books and the Parquet files up to the log.

The gateway starts it (`start`) and never waits for it; whatever dies, it goes on from where each projection stands.
This module is light: the process imports what is heavy (`projections.py`).
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

NICENESS: Final = 10


def command(directory: Path, ledger: str | None = None) -> list[str]:
    """The command line of a projector that ends, up to date, when the process that asks for it does."""
    line = [sys.executable, "-m", "plimsoll", "project", str(directory), "--follow", "--parent", str(os.getpid())]
    return line if ledger is None else [*line, "--ledger", ledger]


def start(directory: Path, ledger: str | None = None) -> "subprocess.Popen[bytes]":
    """Start the projector of a data directory.

    To stop it: close the journal, `terminate()`, `wait()`; it catches up first. `ledger` is a `postgresql://…` URL;
    None keeps the books in the data directory.
    """
    process = subprocess.Popen(command(directory, ledger), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    give_way(process.pid)
    return process


def give_way(process_id: int) -> None:
    """Let the gateway go first wherever both want the processor, from a process's first import on (0: this one).

    Also where the gateway was started in real time (`chrt`), which its children inherit and niceness does not touch.
    """
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(process_id, os.SCHED_BATCH, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, process_id, NICENESS)

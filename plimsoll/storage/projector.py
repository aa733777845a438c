"""The projector: a process of its own that brings the books and the Parquet files up to the log.

The gateway starts it (`start`) and never waits for it; whatever dies, it goes on from where each projection stands.
This module is light: the process imports what is heavy (`projections.py`).
"""

import os
import subprocess
import sys
from pathlib import Path


def start(directory: Path, ledger: str | None = None) -> "subprocess.Popen[bytes]":
    """Start the projector of a data directory. It ends by itself, up to date, when this process does.

    To stop it: close the journal, `terminate()`, `wait()`; it catches up first. `ledger` is a `postgresql://…` URL;
    None keeps the books in the data directory.
    """
    command = [sys.executable, "-m", "plimsoll", "project", str(directory), "--follow", "--parent", str(os.getpid())]
    if ledger is not None:
        command += ["--ledger", ledger]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

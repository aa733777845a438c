"""The projector as its own process, and the ledger's commands: what a person runs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plimsoll.errors import DataDirectoryBusy
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.logfiles import end_of
from plimsoll.storage.projections import Projections
from plimsoll.storage.projector import start
from tests.storage.rows import NOVEMBER, POLICY, settle


def plimsoll(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "plimsoll", *arguments], capture_output=True, text=True, check=False)


def write(journal: Journal, numbers: range) -> None:
    for number in numbers:
        journal.settle(settle(number, bad=number % 10 == 0))
    journal.flush()


def spent(home: Path) -> int:
    with LedgerDatabase(home / "ledger.sqlite") as books:
        return books.balances().get(("acme/ttft/spent:ours", "2026-11"), 0)


def wait_until_spent(home: Path, amount: int, seconds: float) -> float:
    began = time.monotonic()
    while spent(home) != amount:
        assert time.monotonic() - began < seconds, f"{spent(home)} of {amount} after {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - began


def test_follows_survives_a_kill_and_catches_up(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 101))
    first = start(tmp_path)
    wait_until_spent(tmp_path, 10, 30.0)
    write(journal, range(101, 201))
    assert wait_until_spent(tmp_path, 20, 10.0) < 5.0, "a second on a quiet machine"
    first.kill()
    first.wait()
    write(journal, range(201, 301))
    second = start(tmp_path)
    wait_until_spent(tmp_path, 30, 30.0)
    write(journal, range(301, 401))
    journal.close()
    second.terminate()
    assert second.wait(30) == 0
    assert spent(tmp_path) == 40, "it catches up before it ends"
    log_end = end_of(tmp_path / "requests", tmp_path / "journal")
    with LedgerDatabase(tmp_path / "ledger.sqlite") as books:
        assert books.position(journal.paths.identity().log) == log_end


def test_ends_with_its_parent(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    place = f"Path({str(tmp_path)!r})"
    code = f"from plimsoll.storage.projector import start; from pathlib import Path; print(start({place}).pid)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number = int(told.stdout)
    began = time.monotonic()
    while _alive(number):
        assert time.monotonic() - began < 30.0
        time.sleep(0.1)


def _alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_one_projector(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    with Projections(tmp_path), pytest.raises(DataDirectoryBusy, match=str(os.getpid())):
        Projections(tmp_path)


def test_commands(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    write(journal, range(1, 101))
    journal.close()
    done = plimsoll("project", str(tmp_path))
    assert (done.returncode, "100 requests posted" in done.stderr) == (0, True), done.stderr
    again = plimsoll("project", str(tmp_path))
    assert "0 requests posted" in again.stderr
    proof = plimsoll("ledger", "verify", str(tmp_path), "--json")
    assert (proof.returncode, json.loads(proof.stdout)["findings"]) == (0, [])
    (tmp_path / "ledger.sqlite").unlink()
    for leftover in tmp_path.glob("ledger.sqlite-*"):
        leftover.unlink()
    rebuilt = plimsoll("ledger", "rebuild", str(tmp_path))
    assert (rebuilt.returncode, "the books are right: 100 requests" in rebuilt.stdout) == (0, True), rebuilt.stderr
    assert spent(tmp_path) == 10
    with LedgerDatabase(tmp_path / "ledger.sqlite") as books, books._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE balances SET amount = 5 WHERE account = 'acme/ttft/bucket'")
    wrong = plimsoll("ledger", "verify", str(tmp_path))
    assert (wrong.returncode, "balance of acme/ttft/bucket 2026-11: the books say 5" in wrong.stdout) == (1, True)


def test_no_data_directory_is_one_line(tmp_path: Path) -> None:
    told = plimsoll("ledger", "verify", str(tmp_path))
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "no plimsoll.json" in told.stderr
    assert DataDirectory(tmp_path).ledger.exists() is False


def test_starting_it_is_light() -> None:
    """`serve` starts the projector; what is heavy is imported in the other process only."""
    code = "import plimsoll.storage.projector, plimsoll.storage.journal, sys; print(' '.join(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(told.stdout.split()) & {"pyarrow", "duckdb", "sqlalchemy", "alembic", "numpy", "scipy"}

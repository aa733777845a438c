"""`plimsoll demo` as people run it: it plays, ends, leaves a log that `report` reads, and no process behind."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from plimsoll.load.children import plimsoll
from plimsoll.storage import query

pytestmark = pytest.mark.timeout(180)
MARK = "PLIMSOLL_DEMO_TEST"


def start(home: Path, *more: str) -> subprocess.Popen[str]:
    line = plimsoll("demo", "--dir", str(home), "--replicas", "2", "--speed", "4", "--plain", *more)
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, MARK: str(home)}
    )


def left_behind(home: Path) -> list[str]:
    """Command lines of processes that carry our mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # ended meanwhile
    return [line for line in found if line]


def test_it_plays_and_ends(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with start(home, "--skip", "176s", "--duration", "16") as process:
        told, _ = process.communicate(timeout=150)
    assert process.returncode == 0, told
    assert left_behind(home) == []
    assert f"Next: plimsoll report {home}\n" in told
    assert "barge" in told
    sent = [json.loads(line) for line in (home / "client.jsonl").read_text().splitlines()]
    rows = {row.client_request_id: row for row in query.records(home)}
    assert {row["client_request_id"] for row in sent if row["sent_at"]} == set(rows)
    assert len(rows) > 40
    report = plimsoll("report", str(home), "--json")
    done = subprocess.run(report, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)


def test_an_interrupt_ends_it_all(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with start(home) as process:
        deadline = time.monotonic() + 60
        seen = home / "client.jsonl"
        while not (seen.exists() and seen.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(left_behind(home)) >= 5, "engines, gateway, replay and the demo itself"
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert "Ending early." in told
    assert left_behind(home) == []
    assert list(query.records(home))


def test_faults_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    for more, expected in (
        (("--dir", str(tmp_path)), "is not empty: choose another --dir"),
        (("--replicas", "0"), "at least one engine must answer"),
        (("--speed", "0"), "--speed 0: must be above 0"),
        (("--skip", "600"), "--skip 600: the trace has 600 s"),
        (("--engine", "llamacpp", "--speed", "2"), "real engines do not go faster"),
    ):
        done = subprocess.run(
            plimsoll("demo", *more), capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1

"""`plimsoll replay` as people run it: a process, a trace, a service."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.load.pacedengine import PacedEngine, running


@pytest.fixture
def engine() -> Iterator[PacedEngine]:
    with running(PacedEngine(first=0.01, gap=0.002)) as paced:
        yield paced


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    rows = "".join(f"{i * 0.5},{50 + i},{5 + i % 7}\n" for i in range(60))
    path.write_text("at,prompt_tokens,output_tokens\n" + rows)
    return path


@pytest.fixture
def senders(tmp_path: Path) -> Path:
    path = tmp_path / "map.yaml"
    path.write_text("acme: sk-acme\nzeta: {key: sk-zeta, weight: 2}\nlimited: {key: sk-l, model: refuse}\n")
    return path


def command(trace: Path, senders: Path, engine: PacedEngine, *more: str) -> list[str]:
    target = f"http://127.0.0.1:{engine.port}"
    return [
        sys.executable,
        "-m",
        "plimsoll",
        "replay",
        str(trace),
        "--target",
        target,
        "--tenants",
        str(senders),
        *more,
    ]


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_processes_send_the_whole_trace_once(
    trace: Path, senders: Path, engine: PacedEngine, tmp_path: Path
) -> None:
    out = tmp_path / "seen.jsonl"
    done = run(command(trace, senders, engine, "--speed", "15", "--jobs", "2", "--out", str(out), "--gaps", "--json"))
    assert (done.returncode, done.stderr) == (0, "")
    report, seen = json.loads(done.stdout), rows(out)
    assert sorted(row["index"] for row in seen) == list(range(60))
    assert {row["client_request_id"] for row in seen} == {headers["x-request-id"] for headers in engine.headers}
    refused = sum(row["tenant"] == "limited" for row in seen)
    assert report["total"]["outcomes"] == {"completed": 60 - refused, "refused": refused}
    assert report["total"]["reasons"] == {"tenant_rate": refused}
    assert report["prompt_tokens_ratio"] == 1.0
    for row in seen:
        if row["outcome"] == "completed":
            assert row["prompt_tokens"] == 50 + row["index"]
            assert row["output_tokens"] == row["num_events"] == 5 + row["index"] % 7 == len(row["gaps"]) + 1
    sent = sorted((row["index"], row["scheduled_at"]) for row in seen)
    assert sent[-1][1] - sent[0][1] == pytest.approx(59 * 0.5 / 15, abs=1e-6)


def test_a_dead_target_is_a_failure_and_says_how(trace: Path, senders: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        target = f"http://127.0.0.1:{taken.getsockname()[1]}"
        line = [sys.executable, "-m", "plimsoll", "replay", str(trace), "--target", target, "--tenants", str(senders)]
        done = run([*line, "--model", "m", "--limit", "4", "--speed", "100", "--json"])
    assert done.returncode == 1
    assert done.stderr.startswith("plimsoll: no request got its answer: 4 unreachable")
    assert json.loads(done.stdout)["total"]["outcomes"] == {"unreachable": 4}


def test_same_seed_same_requests(trace: Path, senders: Path, engine: PacedEngine) -> None:
    for jobs in ("1", "2"):
        assert run(command(trace, senders, engine, "--speed", "60", "--jobs", jobs, "--seed", "5")).returncode == 0
    half = len(engine.requests) // 2
    first, second = (
        sorted(json.dumps(request, sort_keys=True) for request in part)
        for part in (engine.requests[:half], engine.requests[half:])
    )
    assert first == second


def test_an_interrupt_leaves_a_whole_report(trace: Path, senders: Path, engine: PacedEngine, tmp_path: Path) -> None:
    out = tmp_path / "seen.jsonl"
    with subprocess.Popen(
        command(trace, senders, engine, "--out", str(out), "--json"), stdout=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 20
        while len(engine.requests) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=10)
    report = json.loads(stdout)
    assert report["stopped"] is True
    assert report["total"]["outcomes"]["unsent"] > 30
    assert report["num_planned"] == 60 == len(rows(out))


def test_a_killed_replay_stops_loading(trace: Path, senders: Path, engine: PacedEngine) -> None:
    line = command(trace, senders, engine, "--jobs", "2", "--speed", "2")
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while len(engine.requests) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    deadline = time.monotonic() + 10
    while (before := len(engine.requests)) < 60 and time.monotonic() < deadline:
        time.sleep(1.5)  # five requests would be due meanwhile
        if len(engine.requests) == before:
            break
    assert before < 50


def test_faults_are_told_in_one_line(trace: Path, senders: Path, engine: PacedEngine, tmp_path: Path) -> None:
    with running(PacedEngine()) as gone:
        unreachable = command(trace, senders, gone)
    bad = tmp_path / "bad.csv"
    bad.write_text("at,prompt_tokens,output_tokens\n0,5,0\n")
    for line, expected in (
        (unreachable, "cannot reach 127.0.0.1:"),
        (command(bad, senders, engine), "bad.csv, row 1: prompt 5, output 0: zero length"),
        (command(trace, senders, engine, "--skip", "99"), "no request after --skip 99"),
        (command(trace, senders, engine, "--scale-lengths", "1,2,3"), "give one number, or two as PROMPT,OUTPUT"),
        (command(trace, senders, engine, "--speed", "0"), "--speed 0: must be above 0"),
        (command(trace, senders, engine, "--cancel", "5"), "--cancel 5: is a ratio between 0 and 1"),
        (command(trace, senders, engine, "--vocabulary", "3-2047"), "the same number of digits"),
        (command(trace, senders, engine, "--out", str(tmp_path / "no" / "file")), "cannot write"),
        (command(trace, tmp_path / "none.yaml", engine), "no tenant map at"),
    ):
        done = run(line)
        assert (done.returncode, done.stdout) == (2, ""), line
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr

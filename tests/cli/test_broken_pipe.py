"""A reader that leaves (`plimsoll … | head -1`) ends a command quietly, with the shell's status of SIGPIPE."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIGPIPE = 128 + 13


def run(*arguments: str, stderr_too: bool = False) -> tuple[int, str]:
    """Exit status and standard error of a command whose output's reader has left before it begins."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "plimsoll", *arguments],
            stdout=writing,
            stderr=writing if stderr_too else subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize(
    "line",
    [
        "key",
        "key --json",
        "check examples/policy.yaml",
        "rules examples/policy.yaml",
        "analyze examples/llama-server.log.gz",
        "--help",
        "--version",
        "budget",
        "budget status --help",
    ],
)
def test_it_ends_quietly(line: str) -> None:
    assert run(*line.split()) == (SIGPIPE, "")


def test_so_it_does_where_faults_go_the_same_way() -> None:
    assert run("check", "examples/laptop-traffic.yaml", stderr_too=True)[0] == SIGPIPE


def test_head_gets_its_line() -> None:
    line = f"{sys.executable} -m plimsoll rules examples/policy.yaml | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert len(done.stdout.splitlines()) == 1
    assert (done.returncode in {0, SIGPIPE}, done.stderr) == (True, "")


def test_every_command_writes_by_the_same_class() -> None:
    """Rich's own would end with another status."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "plimsoll" / "cli").glob("*.py")}
    assert "class Terminal(Console)" in texts["output.py"]
    of_rich = {name: text for name, text in texts.items() if "from rich" in text}
    assert [name for name, text in of_rich.items() if re.search(r"(?<!\w)Console\(", text)] == []

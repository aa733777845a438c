"""Runs commands for tests: in this process where that is enough, in one of their own where start and colour matter."""

import subprocess
import sys
from typing import NamedTuple

import pytest

from plimsoll.cli import main


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str, given: str = "") -> Done:
    """`python -m plimsoll …` as a shell would run it."""
    command = [sys.executable, "-m", "plimsoll", *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, errors="surrogateescape", timeout=60, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Inside:
    """The same within this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Done:
        """Run it; what was printed before is thrown away."""
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["plimsoll", *arguments])
        try:
            main.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        else:
            code = 0
        printed = self._capsys.readouterr()
        return Done(code, printed.out, printed.err)

"""A PostgreSQL server of our own for a test: in a temporary directory, on a Unix socket, gone afterwards."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def binaries() -> Path:
    """Where initdb and pg_ctl are: on the PATH or where Debian keeps them. Skips (in CI fails) where there are none."""
    found = shutil.which("initdb")
    places = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    if not places:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed, and in CI nothing is skipped")
        pytest.skip("PostgreSQL is not installed")
    return places[0]


class Server:
    """A running server. PostgreSQL will not run as root, so root lends it to `nobody`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._bin = binaries()
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(home, self._user)
        self._run("initdb", "-D", str(home / "data"), "-U", "plimsoll", "-A", "trust", "-N", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self._home} -c fsync=off"
        self._run("pg_ctl", "-D", str(self._home / "data"), "-w", "-l", str(self._home / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """`immediate` is a crash: the next start recovers."""
        self._run("pg_ctl", "-D", str(self._home / "data"), "-w", "-m", how, "stop")

    def database(self, name: str) -> str:
        """A new empty database; its URL."""
        self._run("createdb", "-h", str(self._home), "-U", "plimsoll", name)
        return f"postgresql://plimsoll@/{name}?host={self._home}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} exited with {done.returncode}: {done.stderr!r}")


@contextmanager
def server() -> Iterator[Server]:
    """A server for as long as the context lasts. Its directory's name is short: a socket's path may not be long."""
    with tempfile.TemporaryDirectory(prefix="pg-") as home:
        running = Server(Path(home))
        try:
            yield running
        finally:
            running.stop()

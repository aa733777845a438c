"""The console beside a gateway (`plimsoll serve --console`): its address, and the process that serves there."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plimsoll.cli.sideprocess import SideProcess
from plimsoll.errors import UsageError
from plimsoll.gateway.listening import cannot_listen, in_url, open_sockets

HOST: Final = "127.0.0.1"
PORT: Final = 8002
ENDS_WITHIN: Final = 3.0
"""s in which the process ends when it is told to: it keeps nothing, and a drain waits for it."""


def address_of(given: str | bool) -> tuple[str, int] | None:
    """Host and port of `--console`, `--console PORT` or `--console HOST:PORT`; None where none is wanted.

    Raises UsageError where it is no address.
    """
    if isinstance(given, bool):
        return (HOST, PORT) if given else None
    host, _, port = given.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdecimal() and int(port[:6]) <= 65_535
    if not is_port or (":" in bare and not host.startswith("[")) or bare != bare.strip():
        raise UsageError(f"--console {given}: must be HOST:PORT or PORT, like {HOST}:{PORT} (port 0: any free one)")
    return bare or HOST, int(port)


class ConsoleBeside:
    """Keeps a console running on sockets of the gateway's: however often its process is started again, it answers at
    one address, and that this address is taken is told before anything is served."""

    def __init__(self, host: str, sockets: Sequence[socket.socket], data: Path) -> None:
        self._host, self._sockets, self._data = host, sockets, data
        self._process: SideProcess | None = None

    @classmethod
    async def at(cls, address: tuple[str, int], data: Path) -> "ConsoleBeside":
        """Listen there. Raises UsageError where it is taken, or is no address of this machine."""
        try:
            return cls(address[0], await open_sockets(*address), data)
        except OSError as error:
            raise UsageError(cannot_listen(*address, error, "--console")) from error

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return f"http://{in_url(self._host)}:{self._sockets[0].getsockname()[1]}/"

    async def start(self, admin_url: str) -> None:
        """Start it, and again whenever it ends, after ever longer pauses: browsers wait meanwhile."""
        numbers = [each.fileno() for each in self._sockets]
        self._process = SideProcess(
            lambda: self._command(admin_url, numbers),
            ended="the console ended: its pages are not there",
            kept=numbers,
            ends_within=ENDS_WITHIN,
        )
        await self._process.start()

    async def stop(self) -> None:
        """End it, and give its address back."""
        if self._process is not None:
            await self._process.stop()
        for each in self._sockets:
            each.close()

    def _command(self, admin_url: str, numbers: Sequence[int]) -> list[str]:
        line = [sys.executable, "-m", "plimsoll", "console", str(self._data), "--host", self._host]
        return [*line, "--admin", admin_url, "--parent", str(os.getpid()), "--sockets", ",".join(map(str, numbers))]

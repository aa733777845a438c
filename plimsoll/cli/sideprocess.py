"""A process beside a gateway (projector, exporter, console): started, watched, started again, ended last."""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

from plimsoll.storage.projector import give_way

PAUSE: Final = 3.0  # s before it is started again; doubles up to a minute while it keeps ending
LONGEST_PAUSE: Final = 60.0
_log = logging.getLogger("plimsoll.gateway")


class SideProcess:
    """Keeps one child process running. While it is down nothing is lost: it reads the log."""

    def __init__(
        self,
        command: Callable[[], list[str]],
        pause: float = PAUSE,
        ended: str = "the projector ended: ledger and request log stand still",
        kept: Sequence[int] = (),
        ends_within: float | None = None,
    ) -> None:
        """`ended`: what to tell when it did. `kept`: descriptors that it inherits. `ends_within`: s from SIGTERM until
        it is killed; None: never, since it has something to bring to its end.
        """
        self.process: asyncio.subprocess.Process | None = None
        self._command = command
        self._pause = pause
        self._ended = ended
        self._kept = tuple(kept)
        self._ends_within = ends_within
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, and watch it from now on."""
        self.process = await self._spawn()
        self._watching = asyncio.create_task(self._watch(self.process))

    async def stop(self) -> None:
        """Let it catch up and end; a projector when the journal is closed."""
        if self._watching is None or self.process is None:
            return
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        if self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(self._ends_within):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()

    async def _spawn(self) -> asyncio.subprocess.Process:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *self._command(), stdin=null, stdout=sys.stderr, pass_fds=self._kept
        )
        give_way(process.pid)
        return process

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        loop, pause = asyncio.get_running_loop(), self._pause
        while True:
            started_at = loop.time()
            code = await process.wait()
            pause = self._pause if loop.time() - started_at > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
            _log.error("%s for %g s (exit %s)", self._ended, pause, code)
            await asyncio.sleep(pause)
            self.process = process = await self._spawn()

"""A replay as its parent process runs it: shares out, results in, until all have ended or somebody says stop."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Final

import msgspec

from plimsoll.errors import UsageError
from plimsoll.load.client import Manner, clock
from plimsoll.load.plan import Planned
from plimsoll.load.result import Result
from plimsoll.load.tenants import Sender
from plimsoll.load.worker import Share, work

HEAD_START: Final = 0.2  # s between the word to start and the plan's zero
STOP_WITHIN: Final = 5.0  # s that workers have to end after a stop


class Replay:
    """Iterate over `batches()`; `stop()`, also from a signal handler, ends it early, with every row told."""

    def __init__(
        self, planned: tuple[Planned, ...], senders: tuple[Sender, ...], manner: Manner, num_jobs: int = 1
    ) -> None:
        if num_jobs < 1:
            raise UsageError(f"--jobs {num_jobs}: at least one process must send")
        self._shares = [Share(senders, manner, planned[job::num_jobs]) for job in range(num_jobs)]
        self._workers: list[tuple[BaseProcess, Pipe]] = []
        self._stopped_at = 0.0
        self.start_at = 0.0  # the plan's zero on `client.clock`

    def stop(self) -> None:
        """Ask the workers to end; `batches()` goes on until their last rows are in."""
        self._stopped_at = self._stopped_at or time.monotonic()
        for process, _ in self._workers:
            if process.is_alive():
                process.terminate()

    def batches(self, tick: float = 0.25) -> Iterator[list[Result]]:
        """Results as they come; an empty list about each `tick` s where none came."""
        with self._started() as pipes:
            while pipes:
                ready = wait(list(pipes), timeout=tick)
                if not ready:
                    yield []
                for pipe in list(pipes):
                    if pipe in ready:
                        yield from self._received(pipe, pipes)
                if self._stopped_at and time.monotonic() > self._stopped_at + STOP_WITHIN:
                    return

    def _received(self, pipe: Pipe, pipes: list[Pipe]) -> Iterator[list[Result]]:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            pipes.remove(pipe)
            return
        yield msgspec.msgpack.decode(message, type=list[Result])

    @contextmanager
    def _started(self) -> Iterator[list[Pipe]]:
        """Start workers together; on the way out none is left."""
        context = multiprocessing.get_context("spawn")
        try:
            for share in self._shares:
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                self._workers.append((process, ours))
                ours.send_bytes(msgspec.msgpack.encode(share))
            self._start_together()
            yield [pipe for _, pipe in self._workers]
        finally:
            self._end()

    def _start_together(self) -> None:
        for process, pipe in self._workers:
            try:
                pipe.recv_bytes()
            except (EOFError, OSError) as error:
                process.join(1.0)
                raise UsageError(f"a replay process ended before it began (exit {process.exitcode})") from error
        self.start_at = clock() + HEAD_START
        for _, pipe in self._workers:
            pipe.send_bytes(repr(self.start_at).encode())

    def _end(self) -> None:
        for process, pipe in self._workers:
            pipe.close()
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._workers.clear()


def run_name() -> str:
    """A name for one replay, in front of its request ids: unlike those of other replays of this machine."""
    return f"replay-{int(time.time()):x}-{os.getpid():x}"

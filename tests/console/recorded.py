"""Recorded logs for the console's tests, made once a session, and a console that serves one of them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.episodes import episode
from benchmarks.recordedlogs import keep_episode
from plimsoll.cli.console import readers
from plimsoll.console.app import Console
from plimsoll.console.feed import Feed
from plimsoll.console.guarding import Guard
from plimsoll.console.store import Store

TOKEN = "an-admin-token"


def keep(kind: str, directory: Path) -> Path:
    """A labelled incident as a data directory."""
    keep_episode(episode(kind, 0), directory)
    (directory / "admin.token").write_text(TOKEN + "\n")
    return directory


class Serving:
    """A console on its own loop and thread, as its process would have."""

    def __init__(self, root: Path, feed: Feed | None = None) -> None:
        self.root, self.url = root, ""
        self.store: Store | None = None
        self._feed = feed
        self._ready = threading.Event()
        self._end: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        ending, loop = asyncio.Event(), asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ending.set)
        self.store = Store(self.root, readers(), self._feed)
        console = Console(self.store, Guard("127.0.0.1", "", self.root / "admin.token"))
        self.url = f"http://127.0.0.1:{await console.listen('127.0.0.1', 0)}"
        self._ready.set()
        await ending.wait()
        await console.close()

    def start(self) -> "Serving":
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def stop(self) -> None:
        self._end()
        self._thread.join(20)

    def read(self, seconds: float = 30.0) -> "Serving":
        """Wait until the whole log was read once."""
        assert self.store is not None
        for _ in range(int(seconds / 0.05)):
            if self.store.safe.made_at:
                return self
            threading.Event().wait(0.05)
        raise AssertionError("the log was not read in time")


@contextmanager
def serving(root: Path, feed: Feed | None = None) -> Iterator[Serving]:
    """A console on that directory."""
    served = Serving(root, feed).start()
    try:
        yield served
    finally:
        served.stop()

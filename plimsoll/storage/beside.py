"""One call at a time in a thread of its own, so that a long one holds nobody up."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Beside:
    """Close it when done: that waits for the call that runs."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "beside")
        self._running: Future[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing runs. Raises what the last call raised, once."""
        running = self._running
        if running is None:
            return True
        if not running.done():
            return False
        self._running = None
        running.result()
        return True

    def start(self, call: Callable[[], None]) -> None:
        """Begin it; only when idle."""
        self._running = self._thread.submit(call)

    def close(self) -> None:
        """What the call that runs raises is raised by `idle`."""
        self._thread.shutdown()

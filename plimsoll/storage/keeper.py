"""The journal's background thread: fsync, the reserve segment, trimming. The serving thread never waits for it."""

import errno
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from plimsoll.storage.datadir import sync_directory
from plimsoll.storage.segment import RESERVE, preallocate

SYNC_EVERY: Final = 0.1
"""s between a write and the fsync that covers it, so that with the fsync's own time it stays below 200 ms."""
RETRY_EVERY: Final = 1.0
"""s between attempts to allocate a reserve on a full disk."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Keeper:
    """Owns the thread. The journal tells it what was written; it tells how far the device has it."""

    def __init__(self, journal: Path, segment_bytes: int) -> None:
        self.synced = 0  # offset in the log up to which all is on the device
        self.full = False  # the last attempt to allocate a reserve found no room
        self.fault = ""  # an error of the device; what was written since may be lost
        self._journal = journal
        self._segment_bytes = segment_bytes
        self._reserve: int | None = None
        self._lock = threading.Lock()
        self._sealed: deque[tuple[int, int, int]] = deque()  # descriptor, bytes used, offset of its end
        self._current: tuple[int, int] | None = None  # descriptor, offset up to which it was written
        self._asked = False
        self._tried_at = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plimsoll-journal", daemon=True)

    def start(self, reserve: int | None) -> None:
        """Begin, with a reserve that was found ready or none."""
        self._reserve = reserve
        self.full = False
        self._thread.start()
        self._ask()

    @property
    def has_reserve(self) -> bool:
        """Whether a further segment is preallocated."""
        return self._reserve is not None

    def written(self, fd: int, offset: int) -> None:
        """The segment behind `fd` was written up to that offset in the log: sync it within SYNC_EVERY."""
        self._current = (fd, offset)
        if not self._asked:
            self._ask()

    def sealed(self, fd: int, used: int, offset: int) -> None:
        """That segment is complete: sync it, trim it to its used bytes, close it."""
        self._sealed.append((fd, used, offset))
        self._current = None
        self._ask()

    def ensure_reserve(self) -> bool:
        """Whether a further segment is preallocated; where it is not, after trying, at most once in RETRY_EVERY."""
        with self._lock:
            if self._reserve is None:
                self._allocate()
            return self._reserve is not None

    def take_reserve(self, name: str) -> int | None:
        """Make the reserve the segment of that name; its descriptor, now the caller's. None on a full disk."""
        with self._lock:
            if self._reserve is None:
                self._allocate()
            reserve, self._reserve = self._reserve, None
            if reserve is not None:
                (self._journal / RESERVE).rename(self._journal / name)
        self._ask()
        return reserve

    def close(self) -> None:
        """Sync what was written and end the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sync()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _ask(self) -> None:
        self._asked = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(RETRY_EVERY if self._reserve is None else None)
            with self._lock:
                if self._reserve is None:
                    self._allocate()
            self._stop.wait(SYNC_EVERY)
            self._wake.clear()
            self._asked = False
            self._sync()

    def _allocate(self) -> None:
        now = time.monotonic()
        if self.full and now - self._tried_at < RETRY_EVERY:
            return  # asked on every request that is refused: the answer of a moment ago holds
        self._tried_at = now
        try:
            self._reserve = preallocate(self._journal / RESERVE, self._segment_bytes)
        except OSError as error:
            self.full = True
            if error.errno not in NO_ROOM:
                self.fault = f"no reserve segment: {error.strerror}"
        else:
            self.full = False

    def _sync(self) -> None:
        # Read first: what is written after a segment was sealed may not be called synced before that segment is.
        current = self._current
        try:
            closed = self._sync_sealed()
            if current is not None and current[0] not in closed:
                os.fdatasync(current[0])
                self.synced = max(self.synced, current[1])
        except OSError as error:
            self.fault = f"fsync failed: {error.strerror}"

    def _sync_sealed(self) -> set[int]:
        """Sync, trim and close the segments that are complete, in order; their descriptors."""
        closed = set()
        while self._sealed:
            fd, used, offset = self._sealed[0]
            os.ftruncate(fd, used)
            os.fsync(fd)
            sync_directory(self._journal)
            os.close(fd)
            closed.add(fd)
            self._sealed.popleft()
            self.synced = max(self.synced, offset)
        return closed

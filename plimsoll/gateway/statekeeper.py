"""What replicas report goes into the journal, a note a window; a full disk loses states before it loses requests."""

import logging
from collections.abc import Sequence

from plimsoll.errors import StorageError
from plimsoll.gateway.hands import Clock
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.codec import encode
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.storage.journal import Journal
from plimsoll.storage.rows import STATES_NOTE
from plimsoll.storage.statewindows import StateWindows

_log = logging.getLogger("plimsoll.gateway")


class StateKeeper:
    """Adds reports up and notes each window that is over."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.num_lost = 0  # windows that found no room
        self._journal = journal
        self._clock = clock
        self._windows = StateWindows()

    def add(self, reports: Sequence[ReplicaReport]) -> None:
        """One tick's reports."""
        self._note(self._windows.add(self._clock(), reports))

    def close(self) -> None:
        """Note the window that is open; the journal is closed after it."""
        self._note(self._windows.close())

    def _note(self, rows: list[ReplicaWindow]) -> None:
        if not rows:
            return
        try:
            self._journal.note(self._clock(), STATES_NOTE, encode(rows))
        except StorageError as error:
            if not self.num_lost:
                _log.error("states of replicas are not kept: %s", error)
            self.num_lost += len(rows)

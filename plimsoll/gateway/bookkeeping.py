"""The gateway's end of the inbox: what was decided about budgets, and what is known of replicas, goes into the journal,
then to the governor.

Once a second, a look at one folder. A decision's file is removed a look after it was noted, when the journal's device
has it.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from plimsoll.errors import StorageError
from plimsoll.governor import recording
from plimsoll.governor.events import BudgetsReported, CapabilitiesReported
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from plimsoll.storage.rows import BUDGETS_NOTE, CAPABILITIES_NOTE, DECISION_NOTE, decode_decision

EVERY: Final = 1.0
"""s between looks."""
_log = logging.getLogger("plimsoll.gateway")


class Bookkeeping:
    """Takes what lies in the inbox; `tell` is given each new report, with the instant at which it came."""

    def __init__(
        self,
        inbox: Inbox,
        journal: Journal,
        clock: Callable[[], float],
        tell: Callable[[BudgetsReported | CapabilitiesReported], None],
    ) -> None:
        self.num_noted = 0
        self._inbox = inbox
        self._journal = journal
        self._clock = clock
        self._tell = tell
        self._noted: set[Path] = set()
        self._seen: dict[Path, tuple[int, int]] = {}  # files as they were when they were taken
        self._trouble = ""

    def look(self) -> None:
        """Take what is new. A full journal or an unreadable folder waits, and is told once."""
        try:
            self._take_decisions()
            self._take_report(self._inbox.report)
            self._take_report(self._inbox.capabilities)
        except (OSError, StorageError) as error:
            if str(error) != self._trouble:
                _log.error("decisions about budgets wait: %s", error)
            self._trouble = str(error)
        else:
            self._trouble = ""

    def _take_decisions(self) -> None:
        paths = self._inbox.decisions()
        for path in paths:
            if path in self._noted:
                path.unlink(missing_ok=True)
                self._noted.discard(path)
            else:
                self._take(path)
        if paths:
            self._journal.flush()

    def _take(self, path: Path) -> None:
        data = path.read_bytes()
        try:
            decode_decision(data)
        except msgspec.DecodeError as error:
            _log.error("%s is no decision (%s) and is put aside", path, error)
            path.rename(path.with_suffix(".unreadable"))
            return
        self._journal.note(self._clock(), DECISION_NOTE, data)
        self._noted.add(path)
        self.num_noted += 1

    def _take_report(self, path: Path) -> None:
        try:
            state = path.stat()
        except FileNotFoundError:
            return
        seen = (state.st_mtime_ns, state.st_size)
        if seen == self._seen.get(path):
            return
        self._seen[path] = seen
        try:
            told = recording.decode(path.read_bytes())
        except msgspec.DecodeError as error:
            _log.error("%s is no report: %s", path, error)
            return
        if isinstance(told, BudgetsReported | CapabilitiesReported):
            now = msgspec.structs.replace(told, at=self._clock())
            kind = BUDGETS_NOTE if isinstance(told, BudgetsReported) else CAPABILITIES_NOTE
            self._journal.note(now.at, kind, recording.encode(now))
            self._journal.flush()
            self._tell(now)

"""What the books' process, or an operator, hands to the gateway: decisions to be journaled, the latest budget report.

The gateway alone writes the journal, the process beside it alone reads the books. Between them lie files in
`DIR/inbox`, each put there whole: whoever is down meanwhile finds them later. A decision that is journaled twice counts
once, by its key, so that no crash between noting it and removing its file matters. Light: `serve` imports this.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from plimsoll.governor import recording
from plimsoll.governor.events import BudgetsReported, Standing
from plimsoll.ledger.decided import Decided
from plimsoll.requestlog.codec import encode
from plimsoll.storage.datadir import write_whole
from plimsoll.storage.rows import decode_decision

_SUFFIX: Final = ".decided"


class Inbox:
    """The folder of one data directory."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "inbox"
        self.report = self.folder / "report"
        """The latest budget report: an event as `governor/recording` writes it."""
        self.capabilities = self.folder / "capabilities"
        """The same of what replicas have shown."""

    def put(self, decided: Decided) -> Path:
        """Hand over a decision. OSError where it cannot be written."""
        self.folder.mkdir(exist_ok=True)
        name = decided.key.replace("/", "~")
        path = self.folder / f"{name[:200]}{_SUFFIX}"
        write_whole(path, encode(decided))
        return path

    def put_report(self, data: bytes) -> None:
        """Replace the latest report."""
        self._replace(self.report, data)

    def put_capabilities(self, data: bytes) -> None:
        """Replace what was told of replicas' capabilities."""
        self._replace(self.capabilities, data)

    def _replace(self, path: Path, data: bytes) -> None:
        """Not synced: another one comes within the minute, or the hour."""
        self.folder.mkdir(exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(data)
        part.replace(path)

    def standings(self) -> list[Standing]:
        """What the latest report says of headroom and demotion; nothing where there is none."""
        try:
            told = recording.decode(self.report.read_bytes())
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return []
        return list(told.standings) if isinstance(told, BudgetsReported) else []

    def decisions(self) -> list[Path]:
        """Files of decisions that wait, oldest first."""
        try:
            with os.scandir(self.folder) as entries:
                found = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        return [Path(path) for _, path in sorted(found)]

    def waiting(self) -> Iterator[Decided]:
        """The decisions themselves; what is no decision is left to the gateway to tell."""
        for path in self.decisions():
            try:
                yield decode_decision(path.read_bytes())
            except (msgspec.DecodeError, FileNotFoundError):
                continue

"""Every exception that Plimsoll raises on purpose.

PlimsollError
├── UnitError            a text that is no duration, ratio, count or size
├── PolicyError          a policy (or another of our YAML files) with faults: all of them, with paths
├── ProfileError         an engine profile that cannot be used, or was asked beyond its range
├── TraceError           a trace or log of others that breaks a rule: file, row, rule
├── IllegalTransition    a request was told to do what its state does not allow
├── StorageError         something kept on disk or in a database cannot be used
│   ├── JournalDamaged       a record in the middle of a journal fails its checksum
│   ├── SchemaTooNew         data written by a newer Plimsoll
│   ├── DataDirectoryBusy    another process writes to this data directory
│   ├── LedgerAway           the ledger's database cannot be reached or used
│   └── DiskFull             no room, and the preallocated reserve is used up
└── UsageError           a command asked for something that cannot be (port in use, no such directory …)

Refusing a request is an answer (`governor/decisions.py`), never an exception.
"""

from dataclasses import dataclass


class PlimsollError(Exception):
    """Base of all; `str()` of each is fit to show to the person at the terminal."""


class UnitError(PlimsollError):
    """A text that `units` cannot read; says what was expected and gives an example."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong in a document: where, what, and what to do about it."""

    path: str
    message: str
    line: int = 0
    hint: str = ""
    warning: bool = False

    def __str__(self) -> str:
        place = f"line {self.line}: {self.path}" if self.line else self.path
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class PolicyError(PlimsollError):
    """A document with faults; carries all of them so that one run shows everything to mend."""

    def __init__(self, source: str, faults: list[Fault]) -> None:
        self.source = source
        self.faults = faults
        noun = "fault" if len(faults) == 1 else "faults"
        super().__init__(f"{source}: {len(faults)} {noun}\n" + "\n".join(f"  {fault}" for fault in faults))


class ProfileError(PlimsollError):
    """An engine profile that cannot be used, or a question outside the range it was fitted on."""


class TraceError(PlimsollError):
    """A row of a trace that breaks a rule; row 0: the whole file does."""

    def __init__(self, file: str, row: int, rule: str) -> None:
        self.file, self.row, self.rule = file, row, rule
        super().__init__(f"{file}, row {row}: {rule}" if row else f"{file}: {rule}")


class IllegalTransition(PlimsollError):
    """An event that the state of its request does not allow; a bug in the hands, never the client's doing."""

    def __init__(self, request_id: int, state: str, event: str) -> None:
        self.request_id, self.state, self.event = request_id, state, event
        super().__init__(f"request {request_id:016x} is {state}: {event} is not allowed")


class StorageError(PlimsollError):
    """Something kept on disk or in a database cannot be used."""


class JournalDamaged(StorageError):
    """A record that is not the last fails its checksum: not a torn write but damage."""

    def __init__(self, segment: str, offset: int, why: str) -> None:
        self.segment, self.offset, self.why = segment, offset, why
        super().__init__(f"{segment}, byte {offset}: {why}; not a torn tail, so nothing was changed")


class SchemaTooNew(StorageError):
    """Data written by a newer Plimsoll than this one."""

    def __init__(self, where: str, found: int, known: int) -> None:
        self.where, self.found, self.known = where, found, known
        super().__init__(f"{where} has schema {found}, this Plimsoll knows up to {known}: upgrade Plimsoll")


class DataDirectoryBusy(StorageError):
    """Another live process holds the lock of the data directory."""


class LedgerAway(StorageError):
    """The ledger's database cannot be reached or used now."""


class DiskFull(StorageError):
    """No room left on the device and the preallocated reserve is used up."""


class UsageError(PlimsollError):
    """A command asked for something that cannot be; the text says what to do instead."""

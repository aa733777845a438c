"""The data directory: where everything lies, who writes to it, and which schema it has.

DIR/plimsoll.json    schema and identity of the log
DIR/lock             held by the gateway that writes; names its process
DIR/policy.yaml      copy of the policy in force, for people (the journal holds every version)
DIR/journal/         the log itself
DIR/requests/        Parquet files, one a range of the log
DIR/states/          the same of what replicas reported
DIR/capabilities/    how replicas streamed, a small file an hour
DIR/ledger.sqlite    the books
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.errors import DataDirectoryBusy, SchemaTooNew, StorageError, UsageError

SCHEMA: Final = 1


class Identity(Struct, frozen=True):
    """What plimsoll.json says. `log` is 32 hex digits made once: it keys everything posted from this log."""

    schema: int
    log: str


class DataDirectory:
    """Paths of one data directory. Making one touches nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = root / "journal"
        self.requests = root / "requests"
        self.states = root / "states"
        self.ledger = root / "ledger.sqlite"
        self.policy = root / "policy.yaml"
        self.identity_file = root / "plimsoll.json"
        self.writer_lock = root / "lock"
        self.projector_lock = root / "projector.lock"

    def identity(self) -> Identity:
        """Who this log is. UsageError where this is no data directory, SchemaTooNew where we are too old for it."""
        try:
            text = self.identity_file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{self.root} is no data directory of Plimsoll: it has no plimsoll.json") from None
        try:
            identity = msgspec.json.decode(text, type=Identity)
        except msgspec.DecodeError as error:
            raise StorageError(f"{self.identity_file} cannot be read: {error}") from error
        if identity.schema > SCHEMA:
            raise SchemaTooNew(str(self.root), identity.schema, SCHEMA)
        return identity

    def create(self) -> Identity:
        """Make the directory where it is not there yet; its identity. Called by the writer, under its lock.

        Raises StorageError where it is one whose log has gone: a new log under the old identity would not be that log.
        """
        if self.identity_file.exists():
            identity = self.identity()
            if not self.journal.is_dir():
                raise StorageError(f"{self.root} is a data directory without its log: {self.journal} is missing")
            return identity
        identity = Identity(SCHEMA, os.urandom(16).hex())
        self.journal.mkdir(parents=True, exist_ok=True)
        self.requests.mkdir(exist_ok=True)
        write_whole(self.identity_file, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")
        return identity


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file so that a crash leaves the old one or the new one, never half of it.

    Raises OSError, with the file's name, where it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            part.unlink()  # most likely the disk is full
        raise OSError(error.errno, error.strerror, str(path)) from error
    part.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power loss."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Lock:
    """An exclusive lock that the kernel releases when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        """Take it; DataDirectoryBusy, with the holder's process id, where another process has it, and StorageError
        where nothing can be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"{path.parent} cannot hold data: {error.strerror} ({error.filename})") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise DataDirectoryBusy(f"{path.parent} is in use by process {holder or '(unknown)'}") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it back."""
        os.close(self._fd)

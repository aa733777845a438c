"""The journal: what was promised to clients and what became of it, written before they see the end of their answer.

`opened` and `settle` append to a buffer; `flush` hands the buffer to the kernel in one write, which survives the
death of this process; an fsync follows within 200 ms, which survives power loss. Appending costs microseconds and
never waits for the device.

A full disk does not stop the service at once: a reserve segment is always preallocated. While it lasts, `state` says
so with the room left, in bytes and rows; each open request has room for its end set aside; when no further one can
be promised that, `accepting` turns false and `opened` raises DiskFull.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Self

from msgspec import Struct

from plimsoll.errors import DiskFull, PlimsollError, StorageError
from plimsoll.governor.decisions import Reassign, Settle
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import Note, Open, RowKind, encode
from plimsoll.storage.appender import Appender, remove_after
from plimsoll.storage.datadir import DataDirectory, Lock
from plimsoll.storage.frames import HEADER
from plimsoll.storage.interrupted import settlement
from plimsoll.storage.keeper import NO_ROOM
from plimsoll.storage.policies import decode_policy, encode_policy
from plimsoll.storage.recovery import recover
from plimsoll.storage.rows import POLICY_NOTE, REASSIGN_NOTE, UNLOGGED_NOTE, Checkpoint, Unlogged, encode_settle
from plimsoll.storage.segment import HEADER_BYTES, base_of, segments

SEGMENT_BYTES: Final = 32 * 1024 * 1024
SETTLE_ROOM: Final = 4096
"""Bytes set aside for the settlement of each open request; about 600 are usual, sketches of ITL make more."""
ROW_BYTES: Final = 700
"""Bytes that a request takes, open and settled, as long as none was seen."""
CHECKPOINT_ROOM: Final = 256
"""Bytes that an open request may take in a checkpoint."""
# As plain integers: an enum's member costs as much to look up as a row to checksum.
_OPEN: Final = int(RowKind.OPEN)
_SETTLE: Final = int(RowKind.SETTLE)
SEQUENCE_BITS: Final = 40
SEQUENCE_LEAP: Final = 1 << 20
"""Ids left out at a restart, for requests that were given one and never reached the log."""


class JournalState(Struct, frozen=True):
    """How the journal is. `reserve`: the disk is full, the room that is left is `room_bytes` and no more."""

    mode: Literal["ok", "reserve", "full", "failing"]
    room_bytes: int  # preallocated and not yet written
    room_rows: int  # requests that can still be opened and settled within it, by the mean of those so far
    num_open: int
    num_unlogged: int  # refusals that found no room and are not yet told in the log
    unsynced_bytes: int  # handed to the kernel, not yet known to be on the device
    fault: str = ""  # what the device said


class Recovered(Struct, frozen=True):
    """What opening an existing journal found and did."""

    interrupted: tuple[Open, ...] = ()  # requests that were open when the writer died; settled now
    cut_bytes: int = 0  # of a write that was torn
    seconds: float = 0.0


class Journal:
    """The only writer of a data directory's log. Made by `Journal.open`."""

    def __init__(
        self, paths: DataDirectory, lock: Lock, writer: int, clock: Callable[[], float], segment_bytes: int
    ) -> None:
        """Use `open`."""
        self.paths = paths
        self.recovered = Recovered()
        self.next_request_id = (writer << SEQUENCE_BITS) + 1
        """Ids from here on are in no log of this writer."""
        self._lock = lock
        self._clock = clock
        self._open: dict[int, Open] = {}
        self._policy = b""
        self._last_request_id = 0
        self._settle_room = SETTLE_ROOM
        self._num_settled, self._began_at = 0, 0
        self._num_unlogged, self._unlogged_since = 0, 0.0
        self._marks = True
        self._marked = 0
        self._appender = Appender(paths.journal, writer, segment_bytes, clock, self._checkpoint)
        self._keeper = self._appender.keeper

    @classmethod
    def open(
        cls,
        directory: Path,
        writer: int = 1,
        *,
        clock: Callable[[], float] = time.time,
        segment_bytes: int = SEGMENT_BYTES,
        marks: bool = True,
    ) -> Self:
        """Take the lock, make the directory where it is new, recover, and settle what was open as interrupted.

        Without `marks` the log does not say how far the device had it by when, which differs from run to run: for a
        simulation, whose same seed is to leave the same rows at the same offsets.
        `writer` (1 to 2^23 − 1) is this gateway's number among all that post to one ledger. Raises DataDirectoryBusy,
        SchemaTooNew, JournalDamaged, DiskFull, and StorageError where the directory's log has gone.
        """
        if not 0 < writer < 1 << 23:
            raise StorageError(f"writer {writer}: must be from 1 to {(1 << 23) - 1}")
        paths = DataDirectory(directory)
        lock = Lock(paths.writer_lock)
        journal = cls(paths, lock, writer, clock, segment_bytes)
        journal._marks = marks
        try:
            paths.create()
            journal._resume(writer)
            journal._began_at = journal._appender.offset
        except (OSError, PlimsollError) as error:
            journal._appender.abandon()
            lock.release()
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise DiskFull(f"{directory}: no room for a journal segment of {segment_bytes} bytes") from error
            raise
        return journal

    @property
    def accepting(self) -> bool:
        """Whether a further request can be opened and still be sure of room for its end."""
        if self._keeper.fault:
            return False
        enough = self._appender.left >= (len(self._open) + 1) * self._settle_room
        return enough or self._keeper.has_reserve or self._keeper.ensure_reserve()

    @property
    def state(self) -> JournalState:
        """How it is now; for /readyz, metrics and the terminal."""
        keeper = self._keeper
        room = max(0, self._appender.left)
        spare = keeper.has_reserve or keeper.ensure_reserve()
        if spare:
            room += self._appender.segment_bytes - HEADER_BYTES - CHECKPOINT_ROOM * len(self._open) - len(self._policy)
        mode: Literal["ok", "reserve", "full", "failing"] = "ok"
        if keeper.fault:
            mode = "failing"
        elif not spare:
            mode = "reserve" if self.accepting else "full"
        appended = self._appender.offset - self._began_at
        mean = max(ROW_BYTES, -(-appended // self._num_settled) if self._num_settled else 0)
        rows = max(0, room - (len(self._open) + 1) * self._settle_room) // mean
        return JournalState(
            mode, room, rows, len(self._open), self._num_unlogged, self._appender.num_unsynced, keeper.fault
        )

    def opened(  # noqa: PLR0917 - called on every request; keywords would cost as much as the encoding
        self,
        request_id: int,
        tenant: str,
        tier: str,
        arrived_at: float,
        model: str = "",
        endpoint: str = "chat",
        streaming: bool = True,
        num_choices: int = 1,
        upstream_time: float | None = None,
        cause: str = "",
        session: str = "",
    ) -> None:
        """We are answerable for this request from now on: called at enqueue, or at dispatch without one.

        What comes after `arrived_at` lets it be judged rightly should we die. Raises DiskFull where its end could not
        be sure of room; then it must be refused (`storage_full`).
        """
        appender = self._appender
        if appender.end - appender.position < (len(self._open) + 1) * self._settle_room and not self.accepting:
            raise DiskFull(f"{self.paths.root}: the disk is full and the journal's reserve is used up")
        row = Open(
            request_id, tenant, tier, arrived_at, model, endpoint, streaming, num_choices, upstream_time, cause, session
        )
        appender.append(_OPEN, encode(row))
        self._open[request_id] = row
        if request_id > self._last_request_id:  # noqa: PLR1730 - a call of max costs more than the row's checksum
            self._last_request_id = request_id

    def settle(self, settle: Settle) -> None:
        """A request ended. Flush before the client sees it end.

        A refusal that was never opened and finds no room is counted instead, and told in a note when there is room.
        """
        record = settle.record
        request_id = record.request_id
        payload = encode_settle(settle)
        size = len(payload)
        if request_id in self._open:
            self._appender.append(_SETTLE, payload)
            del self._open[request_id]
        elif self._has_room(size):
            self._appender.append(_SETTLE, payload)
            self._last_request_id = max(self._last_request_id, request_id)
        else:
            self._num_unlogged += 1
            self._unlogged_since = self._unlogged_since or self._clock()
            return
        self._num_settled += 1
        if size + HEADER.size > self._settle_room:  # noqa: PLR1730 - as above
            self._settle_room = size + HEADER.size

    def note(self, at: float, kind: str, data: bytes) -> None:
        """Something else that the books need (`storage/rows` names the kinds). DiskFull where there is no room."""
        payload = encode(Note(at, kind, data))
        if not self._has_room(len(payload)):
            raise DiskFull(f"{self.paths.root}: no room in the journal for a note")
        self._appender.append(RowKind.NOTE, payload)
        if kind == POLICY_NOTE:
            self._policy = data

    def reassigned(self, move: Reassign) -> None:
        """A replica serves another pool. DiskFull where there is no room."""
        self.note(move.at, REASSIGN_NOTE, encode(move))

    def policy(self, at: float, policy: Policy) -> None:
        """That policy is in force from now on: called at start and at each reload; one that is already is not noted."""
        data = encode_policy(policy)
        if data != self._policy:
            self.note(at, POLICY_NOTE, data)

    def flush(self) -> None:
        """One write: what was appended survives the death of this process. DiskFull or StorageError where it fails."""
        if self._marks and self._keeper.synced > self._marked:  # at most ten times a second
            self._mark()
        if self._num_unlogged:
            self._tell_unlogged()
        self._appender.flush()

    def close(self) -> None:
        """Flush, sync, release the lock. What is still open then will be found as interrupted."""
        try:
            self._appender.close()
        finally:
            self._lock.release()

    def _has_room(self, size: int) -> bool:
        """Whether a record fits without taking the room that open requests were promised."""
        return self._appender.left - size >= (len(self._open) + 1) * self._settle_room or self.accepting

    def _mark(self) -> None:
        """Say in the log how far the device has it: what lies before can later be told from a torn write."""
        self._marked = self._keeper.synced
        if self._appender.left > SETTLE_ROOM:
            self._appender.append(RowKind.SYNCED, encode(self._marked))

    def _tell_unlogged(self) -> None:
        if self._keeper.has_reserve:
            told = Unlogged(self._num_unlogged, self._unlogged_since, self._clock())
            self._num_unlogged, self._unlogged_since = 0, 0.0
            self.note(told.until, UNLOGGED_NOTE, encode(told))

    def _checkpoint(self) -> bytes:
        return encode(Checkpoint(self._last_request_id, tuple(self._open.values()), self._policy))

    def _resume(self, writer: int) -> None:
        began = time.perf_counter()
        tail = recover(self.paths.journal)
        if tail is None:
            self._begin_anew()
            return
        self._open, self._policy, self._last_request_id = tail.opens, tail.policy, tail.last_request_id
        remove_after(self.paths.journal, tail.header.base)
        sequence = (tail.last_request_id & ((1 << SEQUENCE_BITS) - 1)) + SEQUENCE_LEAP
        self.next_request_id = (writer << SEQUENCE_BITS) + sequence
        if tail.sealed:
            self._appender.begin(tail.header.base + tail.end)
        else:
            self._appender.resume(tail)
        interrupted = tuple(self._open.values())
        self._settle_interrupted(interrupted)
        self.recovered = Recovered(interrupted, tail.torn[1] - tail.torn[0], time.perf_counter() - began)

    def _begin_anew(self) -> None:
        """No segment holds anything: start at the offset at which the first of them would have."""
        found = segments(self.paths.journal)
        base = base_of(found[0]) if found else 0
        remove_after(self.paths.journal, -1)
        self._appender.begin(base)

    def _settle_interrupted(self, interrupted: tuple[Open, ...]) -> None:
        now = self._clock()
        policy = decode_policy(self._policy) if self._policy else Policy()
        for opened in interrupted:
            self.settle(settlement(opened, policy, now))
        self.flush()

"""The work of the projector: post the log to the books, write it as Parquet, again and again. Heavy imports."""

import gc
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import Struct
from sqlalchemy.exc import OperationalError

from plimsoll.errors import DataDirectoryBusy, LedgerAway
from plimsoll.ledger.sessions import Sessions
from plimsoll.policy.policy import Policy
from plimsoll.storage.archive import archive
from plimsoll.storage.batch import Batch
from plimsoll.storage.beside import Beside
from plimsoll.storage.budgeting import BudgetKeeper, Listener, MinuteHand
from plimsoll.storage.database import told
from plimsoll.storage.datadir import DataDirectory, Lock
from plimsoll.storage.keeper import NO_ROOM
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import first_offset, read_rows, sync_range
from plimsoll.storage.requestlog import RequestLog

BATCH_ROWS: Final = 40_000
"""Most rows of one transaction: a fifth of a second's work. What it costs beside its rows (grants, balances, recent
minutes) is much the same for half as many."""
PAUSE: Final = 0.3
"""s between looks at a log that has nothing new, so that no projection is more than 1 s behind."""
T = TypeVar("T")
ARCHIVE_EVERY: Final = 60.0
"""s between looks for segments that have become old."""
TAKEOVER: Final = 15.0
"""s to wait for a predecessor that is still catching up."""


def relax_collector() -> None:
    """For a process that does nothing but project: rows die by reference count, passes over them cost a fifth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


class Advance(Struct, frozen=True):
    """What one round did."""

    num_settled: int  # requests posted to the books
    posted_to: int  # offset in the log
    written_to: int  # offset up to which it is in Parquet
    more: bool  # whether there is more to do at once


class Projections:
    """Both projections of one data directory, held under the projector's lock."""

    def __init__(self, directory: Path, ledger: str | None = None, *, takeover: float = 0.0) -> None:
        """DataDirectoryBusy where another projector has it, after waiting `takeover` s for it to end."""
        paths = DataDirectory(directory)
        self._log = paths.identity().log
        self._journal = paths.journal
        self._lock = _take_over(paths.projector_lock, takeover)
        try:
            self.books = LedgerDatabase(ledger or paths.ledger)
        except BaseException:
            self._lock.release()
            raise
        self._requests = RequestLog(paths)
        self._reached = self.books.position(self._log, first_offset(self._journal))
        self._sessions: Sessions | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the lock and the database."""
        self.books.close()
        self._lock.release()

    def advance(self, *, force: bool = False) -> Advance:
        """Post what is new, and write a Parquet file where one is due (with `force`: of whatever there is)."""
        sessions, self._sessions = self._sessions or self.books.sessions(self._log), None  # spoilt if this fails
        batch = Batch(self._reached, self.books.policies, sessions)
        batch.take(read_rows(self._journal, self._reached), BATCH_ROWS)
        if batch.end == batch.start:
            self._sessions = sessions
        else:
            sync_range(self._journal, batch.start, batch.end)
            if self.books.post(self._log, batch):
                self._reached, self._sessions = batch.end, sessions
            else:  # another projector, of a copy of this directory or with another lock, was here
                self._reached = self.books.position(self._log)
        more = self._requests.advance(self._reached, force=force)
        return Advance(batch.num_settled, self._reached, self._requests.offset, more or batch.end > batch.start)

    def archive(self, at: float, policy: Policy | None) -> int:
        """Pack old segments where the policy says so; how many."""
        if policy is not None:
            self._requests.states.keep = policy.storage.states_keep
        after = None if policy is None else policy.storage.archive_after
        if after is None:
            return 0
        return archive(self._journal, min(self._reached, self._requests.offset), at - after)

    def catch_up(self) -> Advance:
        """Advance until everything that is written by now is projected."""
        done = self.advance(force=True)
        total = done.num_settled
        while done.more:
            done = self.advance(force=True)
            total += done.num_settled
        return Advance(total, done.posted_to, done.written_to, False)


class Follower:
    """Advances until it is told to stop, and then once more. Waits out a full disk or a lost database, and says so."""

    def __init__(
        self,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
        pause: float = PAUSE,
        listener: Listener | None = None,
    ) -> None:
        """`listener` is told of each minute of the budget service."""
        self._listener = listener
        self._stopped = stopped
        self._say = say
        self._pause = pause
        self._trouble = ""

    def run(self, directory: Path, ledger: str | None = None) -> None:
        """Follow the log of that data directory; see `Projections` for what it raises."""
        projections = self._open(directory, ledger)
        if projections is None:
            return
        with projections:
            keeper = BudgetKeeper(DataDirectory(directory), projections.books)
            hand = MinuteHand(keeper, time.time, self._say, self._listener)
            with closing(Beside()) as beside:
                self._follow(projections, keeper, hand, beside)
            if self._try(projections.catch_up) is None:
                self._say("ended before it had caught up: the next one will")

    def _follow(self, projections: Projections, keeper: BudgetKeeper, hand: MinuteHand, beside: Beside) -> None:
        """Where budgets are many a minute's assessment reads and forecasts for seconds: the log goes on meanwhile."""
        archiving = 0.0
        while not self._stopped():
            if idle := self._idle(beside):
                hand.before()
            advance = self._try(projections.advance)
            if advance is None:
                time.sleep(self._pause * 3)
            elif not advance.more:
                if idle and hand.due:
                    beside.start(hand.after)
                archiving = self._archive(projections, keeper.policy, archiving)
                time.sleep(self._pause)

    def _idle(self, beside: Beside) -> bool:
        try:
            return beside.idle
        except (OSError, OperationalError) as error:
            self._wait_for(_trouble(error))
            return False

    def _archive(self, projections: Projections, policy: Policy | None, before: float) -> float:
        """Look once a minute; the instant of the last look."""
        at = time.monotonic()
        if at - before < ARCHIVE_EVERY:
            return before
        try:
            num = projections.archive(time.time(), policy)
        except OSError as error:
            self._say(f"nothing is archived: {error.strerror or error}")
        else:
            if num:
                self._say(f"{num} segments of the journal archived")
        return at

    def _open(self, directory: Path, ledger: str | None) -> Projections | None:
        """None where it was told to stop before the database was there."""
        while not self._stopped():
            try:
                return Projections(directory, ledger, takeover=TAKEOVER)
            except LedgerAway as error:
                self._wait_for(str(error))
                time.sleep(self._pause * 3)
        return None

    def _try(self, step: Callable[[], T]) -> T | None:
        try:
            done = step()
        except (OSError, OperationalError) as error:
            self._wait_for(_trouble(error))
            return None
        if self._trouble:
            self._say("projections go on")
            self._trouble = ""
        return done

    def _wait_for(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._say(f"projections wait: {trouble}")
        self._trouble = trouble


def _trouble(error: OSError | OperationalError) -> str:
    """What to wait for. Errors of the file system but for a full disk are raised: waiting does not help them."""
    if isinstance(error, OperationalError):
        return f"the ledger: {told(error)}"  # SQLite on a full disk says "disk I/O error", too
    if error.errno not in NO_ROOM:
        raise error
    return error.strerror or str(error)


def _take_over(path: Path, seconds: float) -> Lock:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return Lock(path)
        except DataDirectoryBusy:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)

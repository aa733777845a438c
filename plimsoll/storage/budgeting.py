"""The budget service: once a minute, beside `serve` in the projector's process, off the data path.

It reads the books (`knowing`), forecasts (`outlooks`), assesses (`ledger/assessment`, `ledger/monthend`), keeps the
states for `plimsoll budget status`, and hands decisions and the report to the gateway by the inbox. It writes no entry
itself: decisions become entries when the gateway has journaled them and the projector posts them, so that the ledger
can be rebuilt from the journal.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sqlalchemy.exc import OperationalError

from plimsoll.errors import PlimsollError
from plimsoll.governor import recording
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.figures import History
from plimsoll.ledger.promise import Promises
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.storage.budgetminute import Minute, assess
from plimsoll.storage.database import told
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.knowing import Knowledge
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.outlooks import Outlooks

EVERY: Final = 60.0
Listener = Callable[[Policy, Minute, Mapping[Owner, History]], None]
"""Told of each minute: by which policy, what it came to, recent traffic."""


def together(*listeners: Listener) -> Listener:
    """All of them as one, in that order."""

    def listen(policy: Policy, minute: Minute, histories: Mapping[Owner, History]) -> None:
        for listener in listeners:
            listener(policy, minute, histories)

    return listen


class BudgetKeeper:
    """One data directory's budgets, assessed again and again."""

    def __init__(self, paths: DataDirectory, books: LedgerDatabase, outlooks: Outlooks | None = None) -> None:
        self._paths = paths
        self._inbox = Inbox(paths.root)
        self._knowledge = Knowledge(books)
        self._outlooks = Outlooks() if outlooks is None else outlooks
        self._policy_seen = (0, 0)
        self._promises: Promises | None = None
        self._last_at = float("-inf")
        self.histories: Mapping[Owner, History] = {}
        """Recent traffic as of the last minute."""

    @property
    def policy(self) -> Policy | None:
        """By which the last minute was assessed."""
        return None if self._promises is None else self._promises.policy

    @property
    def may_decide(self) -> bool:
        """Whether all earlier decisions are in the journal. Asked before the projector catches up: what was decided
        is then in the books, and is not decided again."""
        return not self._inbox.decisions()

    def assess(self, policy: Policy, at: float) -> Minute:
        """Everything as of that instant; changes nothing."""
        if self._promises is None or self._promises.policy is not policy:
            self._promises = Promises(policy)
        known = self._knowledge.known(self._promises, at)
        self.histories = known.histories
        return assess(self._promises, known, at, self._outlooks)

    def keep(self, at: float, *, decide: bool) -> Minute | None:
        """Assess, keep the states, hand over report and decisions. None where the clock went back or no policy is.

        With `decide` False decisions wait for a later minute: they follow from the books and will still be due.
        """
        policy = self._policy()
        if policy is None or at <= self._last_at:
            return None
        minute = self.assess(policy, at)
        self._knowledge.keep(minute.rows, at)
        if decide:
            for decided in minute.decisions:
                self._inbox.put(decided)
        self._inbox.put_report(recording.encode(minute.report))
        self._last_at = at
        return minute

    def _policy(self) -> Policy | None:
        """The gateway's copy; a damaged one leaves the policy before in force."""
        before = self.policy
        try:
            found = self._paths.policy.stat()
        except FileNotFoundError:
            return before
        seen = (found.st_mtime_ns, found.st_size)
        if seen == self._policy_seen and before is not None:
            return before
        try:
            policy = document.load(self._paths.policy)
        except PlimsollError:
            return before
        self._policy_seen = seen
        return policy


class MinuteHand:
    """Calls `keep` once a minute of the wall clock, after the projector has caught up; tells trouble once."""

    def __init__(
        self,
        keeper: BudgetKeeper,
        clock: Callable[[], float],
        say: Callable[[str], None],
        listener: Listener | None = None,
    ) -> None:
        self._keeper = keeper
        self._listener = listener
        self._clock = clock
        self._say = say
        self._minute = -1
        self._may_decide = self._failed = False
        self._trouble = ""

    @property
    def due(self) -> bool:
        """Whether another minute has begun since the last one was assessed."""
        return int(self._clock() // EVERY) != self._minute

    def before(self) -> None:
        """Call before the projector catches up, never while `after` runs."""
        self._may_decide = self._keeper.may_decide

    def after(self) -> None:
        """Call when it has, in any thread: the minute is assessed, unless it was.

        Where the database is away, whoever follows the log says so and waits; only what fails again is told from here.
        """
        at = self._clock()
        minute = int(at // EVERY)
        if minute == self._minute:
            return
        if minute < self._minute:
            there = datetime.fromtimestamp(self._minute * EVERY, UTC)
            self._tell(f"the clock went back: budgets stand still until it shows {there:%Y-%m-%dT%H:%MZ} again")
            return
        try:
            made = self._keeper.keep(at, decide=self._may_decide)
        except OSError as error:
            self._tell(f"budgets stand still: {error}")
            return
        except OperationalError as error:
            if self._failed:
                self._tell(f"budgets stand still: the ledger: {told(error)}")
            self._failed = True
            return
        self._failed = False
        self._minute = minute
        self._trouble = ""
        policy = self._keeper.policy
        if made is not None and policy is not None and self._listener is not None:
            self._listener(policy, made, self._keeper.histories)

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._say(trouble)
        self._trouble = trouble

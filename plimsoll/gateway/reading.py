"""What an engine's answer means: its kind, its usage, whether another try may help, how it ended."""

from typing import Final

from plimsoll.gateway.enginehead import AnswerHead
from plimsoll.gateway.hands import Attempt, Usage
from plimsoll.gateway.stream import EventScanner
from plimsoll.gateway.usage import BodyEnds
from plimsoll.slo.outcome import Outcome, Reason

_DONE: Final = (Outcome.COMPLETED, Reason.DONE)
_NO_LIMIT: Final = 1 << 62


class Reading:
    """One answer, looked at while it passes. Content-coded bodies pass unseen."""

    __slots__ = ("_closes", "_ends", "_first_told", "_status", "length", "limit", "scanner", "tokens")

    def __init__(self, head: AnswerHead, attempt: Attempt) -> None:
        self.scanner: EventScanner | None = None
        self._ends: BodyEnds | None = None
        self._status = head.status
        self._closes = head.until_close
        self._first_told = attempt.first_told
        self.limit = attempt.reserved_output_tokens or _NO_LIMIT
        self.tokens = attempt.tokens
        self.length = head.length  # to announce to the client; None: the end is not known beforehand
        if head.plain and head.content_type.startswith(b"text/event-stream"):
            self.scanner = EventScanner(attempt.endpoint, hide_usage=attempt.hide_usage)
            self.length = None  # what is hidden would make a length wrong
        elif head.plain:
            self._ends = BodyEnds()

    def add(self, body: bytes) -> None:
        """The next bytes of what is no stream."""
        if self._ends is not None:
            self._ends.add(body)

    def outgrown(self) -> bool:
        """Whether the output has just passed its reservation, or a doubling of it."""
        total = self.tokens.num_tokens
        if total <= self.limit:
            return False
        while total > self.limit:
            self.limit *= 2
        return True

    @property
    def whole_but_for_framing(self) -> bool:
        """The stream said that it is done; only the transfer coding's end may be missing."""
        return self.scanner is not None and self.scanner.saw_final

    @property
    def cut_short(self) -> bool:
        """A stream that ended with its connection, without having said that it is done."""
        return self._closes and self.scanner is not None and not self.scanner.saw_final

    def usage(self) -> Usage:
        """Token counts that the answer told so far."""
        if self.scanner is not None:
            usage = self.scanner.usage()
        else:
            usage = self._ends.usage() if self._ends is not None else Usage()
        if self._first_told is not None:  # a cache taken over is none that was hit, whatever it is called
            usage.cached_tokens = self._first_told.cached_tokens
        return usage

    def verdict(self) -> tuple[Outcome, Reason]:
        """How a whole answer counts. An error inside a stream is the engine's, unless it gave a 4xx code for it."""
        if self.scanner is not None and self.scanner.error is not None:
            refused = 400 <= self.scanner.error < 500
            return Outcome.FAILED, Reason.ENGINE_REFUSED if refused else Reason.ENGINE_ERROR
        if self._status >= 400:
            return Outcome.FAILED, Reason.ENGINE_REFUSED
        return _DONE


def engine_fault(status: int) -> Reason | None:
    """Why an answer of that status is not passed on but counts as a failed attempt; None where it is passed on.

    501 is passed on: this engine will never do that, and no other try will help. A redirect is not: it would lead the
    client past us, to an address that is ours to know.
    """
    if status < 400:
        return Reason.ENGINE_ERROR if 300 <= status != 304 else None
    if status in (429, 503):
        return Reason.ENGINE_BUSY
    return Reason.ENGINE_ERROR if status >= 500 and status != 501 else None

"""How long each side has kept the other waiting, and when that is too long."""

from plimsoll.policy.policy import Timeouts
from plimsoll.slo.outcome import Reason

FRAMING_GRACE = 1.0
"""s that a stream which said it is done may take to end its body. Not Final: compiled code would fix it, tests shorten
it."""


class Patience:
    """Instants of one exchange on the hands' clock; 0.0: not yet, or not now. Nothing is armed per event: `overdue`
    is asked a few times a second."""

    __slots__ = ("attempt_at", "last_read_at", "sent", "stalled_at", "started_at")

    def __init__(self) -> None:
        self.started_at = 0.0  # first forward
        self.attempt_at = 0.0  # latest forward
        self.sent = False  # whether the latest attempt's request is with the engine
        self.last_read_at = 0.0  # latest body bytes of the attempt
        self.stalled_at = 0.0  # since when the client holds us back

    def attempt(self, now: float) -> None:
        """A new attempt begins."""
        self.started_at = self.started_at or now
        self.attempt_at = now
        self.sent = False
        self.last_read_at = self.stalled_at = 0.0

    def stalled_for(self, now: float) -> float:
        """Seconds that the client held us back since it began to; ends the stall."""
        if not self.stalled_at:
            return 0.0
        stalled, self.stalled_at = now - self.stalled_at, 0.0
        if self.last_read_at:
            self.last_read_at = now  # the engine was not silent, we did not listen
        return stalled

    def overdue(self, now: float, timeouts: Timeouts) -> Reason | None:
        """Which limit of the policy is passed; None while all hold."""
        if now - self.started_at > timeouts.total:
            return Reason.TOTAL_TIMEOUT
        if self.stalled_at:
            return Reason.SLOW_CLIENT if now - self.stalled_at > timeouts.client_stall else None
        if not self.sent:
            return Reason.CONNECT_FAILED if now - self.attempt_at > timeouts.connect else None
        if not self.last_read_at:
            return Reason.FIRST_BYTE_TIMEOUT if now - self.attempt_at > timeouts.first_byte else None
        return Reason.IDLE_TIMEOUT if now - self.last_read_at > timeouts.idle else None

    def framing_is_late(self, now: float) -> bool:
        """Whether the engine was silent for so long, and heard by us, that a finished stream's body will not end."""
        return not self.stalled_at and 0.0 < self.last_read_at < now - FRAMING_GRACE

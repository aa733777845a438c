"""The seam between the hands and the governor: events one way, decisions the other.

Today both live in one process and the channel is a plain call. With several stream processes and one governor process
the same small messages go over a socket, and decisions come later; the driver never looks at what `send` returns.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from plimsoll.governor.decisions import Decision
from plimsoll.governor.events import Event

Deliver = Callable[[Sequence[Decision]], None]


class Decider(Protocol):
    """What the hands need of `governor.Governor`."""

    def handle(self, event: Event) -> Sequence[Decision]:
        """Take one event, return what is to be done about it."""


class Channel(Protocol):
    """Brings events to a governor and its decisions to whoever asked for them by `open`."""

    def open(self, deliver: Deliver) -> None:
        """From now on decisions go there. Called once, before the first `send`."""

    def send(self, event: Event) -> None:
        """Tell the governor; what it decides is delivered now or later, in the order of the events."""


class DirectChannel:
    """The governor is in this process: decisions are delivered before `send` returns."""

    __slots__ = ("_deliver", "_handle")

    def __init__(self, governor: Decider) -> None:
        self._handle = governor.handle
        self._deliver: Deliver = _nobody

    def open(self, deliver: Deliver) -> None:
        """See `Channel`."""
        self._deliver = deliver

    def send(self, event: Event) -> None:
        """See `Channel`."""
        decisions = self._handle(event)
        if decisions:
            self._deliver(decisions)


def _nobody(decisions: Sequence[Decision]) -> None:
    raise RuntimeError(f"decisions without hands: {decisions}")

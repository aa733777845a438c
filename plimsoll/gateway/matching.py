"""Requests between being read (and let pass by plugins) and arriving, while engines are asked what they hold of them.
That takes milliseconds, within a bound, and counts as time in the queue."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Clock, Exchange
from plimsoll.gateway.openai import Body
from plimsoll.governor.events import RequestArrived
from plimsoll.governor.matched import Matched

Cancel = Callable[[], None]


class Found(NamedTuple):
    """What engines said."""

    matched: Matched
    prompt_tokens: int = 0  # as an engine counts them; 0: not said
    matches: tuple[Any, ...] = ()  # `kvpool.Match`es, to be told where it goes


Finder = Callable[[RequestArrived, Body, bytes, Callable[[Found], None]], Cancel | None]
"""Asks for a request with that body and those bytes; the last is called later, once, unless what is returned is called
before. None: nobody is asked for this one."""


def no_finder(arrival: RequestArrived, body: Body, data: bytes, done: Callable[[Found], None]) -> Cancel | None:
    """Hands that know prefixes by what was sent where."""
    return None


class Matching:
    """Holds them meanwhile, so that a client may leave and a fault end one of them only."""

    def __init__(
        self,
        find: Finder,
        clock: Clock,
        admit: Callable[[Flight, RequestArrived], None],
        give_up: Callable[[Exchange, Exception], None],
    ) -> None:
        """`admit` is told of those that arrive."""
        self._running: dict[int, Cancel] = {}
        self._find = find
        self._clock = clock
        self._admit = admit
        self._give_up = give_up

    def begin(self, flight: Flight, arrival: RequestArrived) -> None:
        """It may arrive, at once where nobody is to be asked."""
        body = flight.body
        refused = arrival.checked is not None and arrival.checked.reason is not None
        cancel: Cancel | None = None
        if body is not None and not refused:
            data = flight.exchange.request.body
            cancel = self._find(arrival, body, data, lambda found: self._found_late(flight, arrival, found))
        if cancel is None:
            self._admit(flight, arrival)
        else:
            self._running[flight.request_id] = cancel

    def forget(self, flight: Flight) -> bool:
        """It is over (its client left, or a fault struck it); whether it was here."""
        cancel = self._running.pop(flight.request_id, None)
        if cancel is None:
            return False
        cancel()
        return True

    def _found_late(self, flight: Flight, arrival: RequestArrived, found: Found) -> None:
        """Called by nobody who would see what goes wrong here."""
        try:
            if self._running.pop(flight.request_id, None) is not None:
                self._found(flight, arrival, found)
        except Exception as fault:
            self._give_up(flight.exchange, fault)

    def _found(self, flight: Flight, arrival: RequestArrived, found: Found) -> None:
        flight.matches = found.matches
        at = max(arrival.at, self._clock())
        prompt_tokens = found.prompt_tokens or arrival.prompt_tokens
        self._admit(flight, replace(arrival, at=at, prompt_tokens=prompt_tokens, matched=found.matched))

"""Requests between being read and arriving: which plugins look at them is the governor's word, what they say is told
to it with the arrival, and refusing is again its own. Times count from when a request was read. Then comes `matching`.
"""

from collections.abc import Callable

from msgspec.structs import replace

from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Clock, Exchange
from plimsoll.gateway.matching import Finder, Matching
from plimsoll.gateway.plugin import Asked, Cancel, Found, PluginRunner, Said
from plimsoll.governor import decisions
from plimsoll.governor.events import Checked, Event, RequestArrived, RequestRead
from plimsoll.requestlog.record import format_request_id

_NONE: Found = Found(())


class Checking:
    """Holds them meanwhile, so that a client may leave and a fault end one of them only."""

    def __init__(
        self,
        send: Callable[[Event], None],
        clock: Clock,
        whom: tuple[PluginRunner, Finder],
        admit: Callable[[Flight, RequestArrived], None],
        give_up: Callable[[Exchange, Exception], None],
    ) -> None:
        """`whom` is asked; `admit` is told of those that arrive."""
        self.flights: dict[int, Flight] = {}
        self._running: dict[int, Cancel] = {}
        self._send = send
        self._clock = clock
        self._run, find = whom
        self._matching = Matching(find, clock, admit, give_up)
        self._give_up = give_up

    def begin(self, flight: Flight, arrival: RequestArrived, *, plugins: bool) -> None:
        """It was read: the governor says who looks at it, where there are plugins."""
        if not plugins:
            self._matching.begin(flight, arrival)
            return
        flight.arrival = arrival
        self.flights[arrival.request_id] = flight
        self._send(
            RequestRead(
                arrival.at,
                arrival.request_id,
                arrival.tenant,
                arrival.model,
                arrival.prompt_tokens,
                arrival.criticality,
                arrival.tier,
            )
        )

    def ask(self, decision: decisions.RunPlugins) -> None:
        """Carry that out."""
        flight = self.flights.get(decision.request_id)
        if flight is None:
            return
        if not decision.plugins:
            self._found(flight, decision, _NONE)
        else:
            self._running[decision.request_id] = self._run(
                decision.plugins, _asked(flight), lambda found: self._found_late(flight, decision, found)
            )

    def forget(self, flight: object) -> bool:
        """It is over (its client left, or a fault struck it); whether it was here."""
        if not isinstance(flight, Flight):
            return False
        if self.flights.pop(flight.request_id, None) is None:
            return self._matching.forget(flight)
        cancel = self._running.pop(flight.request_id, None)
        if cancel is not None:
            cancel()
        return True

    def _found_late(self, flight: Flight, decision: decisions.RunPlugins, found: Found) -> None:
        """Called by nobody who would see what goes wrong here."""
        try:
            self._found(flight, decision, found)
        except Exception as fault:
            self._give_up(flight.exchange, fault)

    def _found(self, flight: Flight, decision: decisions.RunPlugins, found: Found) -> None:
        arrival = flight.arrival
        self._running.pop(flight.request_id, None)
        if arrival is None or self.flights.pop(flight.request_id, None) is None:
            return
        said = (*found.said, *[(name, Said.DROPPED) for name in decision.dropped])
        told = ",".join([f"{name}:{each.value}" for name, each in said])
        flight.why_not = found.detail
        checked = Checked(arrival.at, told, found.reason, bool(decision.dropped))
        self._matching.begin(flight, replace(arrival, at=max(arrival.at, self._clock()), checked=checked))


def _asked(flight: Flight) -> Asked:
    request, body, arrival = flight.exchange.request, flight.body, flight.arrival
    if body is None or arrival is None:
        raise TypeError(f"request {flight.request_id:016x} has plugins before its body was read")
    return Asked(
        format_request_id(flight.request_id),
        flight.tenant.name,
        arrival.tier or flight.tenant.tier,
        body.model,
        str(flight.endpoint),
        arrival.cause,
        request.body,
        body.is_json,
        request.header(b"content-type").decode("latin-1"),
    )

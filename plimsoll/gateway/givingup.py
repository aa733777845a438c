"""Ending a request that a fault of the gateway itself has struck, whatever state it is in."""

import logging
from collections.abc import Callable

from plimsoll.errors import IllegalTransition
from plimsoll.gateway.errors import Refusal
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Clock, Exchange
from plimsoll.gateway.routes import is_messages
from plimsoll.governor.events import Event, RequestCancelled, RequestFinished, RequestRefused
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason

_log = logging.getLogger("plimsoll.gateway")


class GivingUp:
    """Tells of the fault once, settles the request as failed by us, answers it."""

    def __init__(self, send: Callable[[Event], None], clock: Clock) -> None:
        self.flights: dict[int, Flight] = {}  # the driver's own: who is given up is taken out, so that nothing follows
        self._send = send
        self._clock = clock

    def give_up(self, exchange: Exchange, fault: Exception) -> None:
        """That request; never raises."""
        flight = exchange.context
        request_id = flight.request_id if isinstance(flight, Flight) else 0
        _log.error("request %016x: a fault of the gateway itself ended it", request_id, exc_info=fault)
        if isinstance(flight, Flight) and flight.arrival is not None:
            self.flights.pop(request_id, None)
            self._settle(flight)
        reason = Reason.INTERNAL_ERROR
        answer = Refusal(reason, request_id=request_id, anthropic=is_messages(exchange.request.target)).answer()
        exchange.answer(answer.status, answer.headers, answer.body)
        exchange.evict(reason)

    def _settle(self, flight: Flight) -> None:
        """Tell the governor whatever its state allows: dispatched, queued, never heard of, or over already."""
        at, request_id, reason = self._clock(), flight.request_id, Reason.INTERNAL_ERROR
        for event in (
            RequestFinished(at, request_id, Outcome.FAILED, reason, Timing(), 0, 0),
            RequestCancelled(at, request_id),
            RequestRefused(
                at,
                request_id,
                flight.tenant.name,
                reason,
                trace_id=flight.labels.trace_id,
                parent_span_id=flight.labels.parent_span_id,
            ),
        ):
            try:
                return self._send(event)
            except IllegalTransition:
                continue
            except Exception as fault:
                _log.error("request %016x could not be settled", request_id, exc_info=fault)
        return None

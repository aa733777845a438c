"""Between the data path and the driver: no fault of the gateway itself may leave a request unanswered or unsettled.

An exception that reached the event loop would close one connection and nothing else: the governor would keep the
request's room for ever. Here it is caught, told once, and its request given up (`Driver.give_up`).
"""

import logging
from typing import Protocol

from plimsoll.gateway.errors import Refusal
from plimsoll.gateway.hands import Answer, ClientRequest, Ended, Exchange, Hands
from plimsoll.gateway.routes import is_messages
from plimsoll.slo.outcome import Reason

_log = logging.getLogger("plimsoll.gateway")


class Fallible(Hands, Protocol):
    """Hands that can end a request which they failed."""

    def give_up(self, exchange: Exchange, fault: Exception) -> None:
        """Tell of the fault once, settle the request as failed by us, answer it."""


class Guard:
    """Implements `hands.Hands` by others; never raises."""

    def __init__(self, hands: Fallible) -> None:
        self._hands = hands

    def head_read(self, request: ClientRequest) -> Answer | None:
        """See `Hands`."""
        try:
            return self._hands.head_read(request)
        except Exception as fault:
            return _sorry(request, fault)

    def request(self, exchange: Exchange) -> None:
        """See `Hands`."""
        try:
            self._hands.request(exchange)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def client_left(self, exchange: Exchange, at: float) -> None:
        """See `Hands`."""
        try:
            self._hands.client_left(exchange, at)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def first_token(self, exchange: Exchange, at: float, *, hedge: bool = False) -> None:
        """See `Hands`."""
        try:
            self._hands.first_token(exchange, at, hedge=hedge)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def outgrown(self, exchange: Exchange, tokens: int, at: float) -> None:
        """See `Hands`."""
        try:
            self._hands.outgrown(exchange, tokens, at)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def attempt_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        try:
            self._hands.attempt_failed(exchange, reason, retry_after, at)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def hedge_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        try:
            self._hands.hedge_failed(exchange, reason, retry_after, at)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def prefill_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        try:
            self._hands.prefill_failed(exchange, reason, retry_after, at)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def ended(self, exchange: Exchange, end: Ended) -> None:
        """See `Hands`."""
        try:
            self._hands.ended(exchange, end)
        except Exception as fault:
            self._hands.give_up(exchange, fault)

    def refusal(self, request: ClientRequest, reason: Reason, at: float) -> Answer:
        """See `Hands`."""
        try:
            return self._hands.refusal(request, reason, at)
        except Exception as fault:
            return _sorry(request, fault)

    def failure(self, exchange: Exchange, reason: Reason) -> Answer:
        """See `Hands`."""
        try:
            return self._hands.failure(exchange, reason)
        except Exception as fault:
            return _sorry(exchange.request, fault)

    def failure_event(self, exchange: Exchange, reason: Reason) -> bytes:
        """See `Hands`."""
        try:
            return self._hands.failure_event(exchange, reason)
        except Exception as fault:
            _log.error("a fault of the gateway itself", exc_info=fault)
            return _refusal(exchange.request).event()


def _sorry(request: ClientRequest, fault: Exception) -> Answer:
    _log.error("a fault of the gateway itself", exc_info=fault)
    return _refusal(request).answer()


def _refusal(request: ClientRequest) -> Refusal:
    return Refusal(Reason.INTERNAL_ERROR, anthropic=is_messages(request.target))

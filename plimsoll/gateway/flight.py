"""One request on its way through the hands, from whole to settled."""

from typing import Any

from plimsoll.gateway.hands import Exchange
from plimsoll.gateway.labels import ClientLabels
from plimsoll.gateway.openai import BadBody, Body, read_body
from plimsoll.governor.events import Endpoint, RequestArrived
from plimsoll.policy.policy import Tenant
from plimsoll.slo.outcome import Reason
from plimsoll.slo.timing import TokenClock


class Flight:
    """What the driver must remember of one request while it is open."""

    __slots__ = (
        "arrival",
        "body",
        "endpoint",
        "exchange",
        "hinted",
        "labels",
        "left",
        "matches",
        "opened",
        "request_id",
        "tenant",
        "tokens",
        "why_not",
    )

    def __init__(
        self, exchange: Exchange, request_id: int, tenant: Tenant, endpoint: Endpoint, labels: ClientLabels
    ) -> None:
        self.exchange = exchange
        self.request_id = request_id
        self.tenant = tenant
        self.endpoint = endpoint
        self.labels = labels
        self.body: Body | None = None  # None: not read yet
        self.arrival: RequestArrived | None = None  # None: the governor has not been told
        self.tokens: TokenClock | None = None  # made at the first dispatch
        self.opened = False  # the journal knows of it
        self.hinted = ""  # what its client was told before its answer that is taken from it
        self.why_not = ""  # what a plugin says, for the client alone
        self.matches: tuple[Any, ...] = ()  # `kvpool.Match`es that want to know where it goes
        self.left = False  # the client went while the body was being read off the loop

    def said(self, reason: Reason) -> str:
        """A plugin's words, where it is refused for these."""
        return self.why_not if reason in {Reason.PLUGIN_DENIED, Reason.PLUGIN_FAILED} else ""


def flight_of(exchange: Exchange) -> Flight:
    """The flight of a dispatched exchange."""
    flight = exchange.context
    if flight.__class__ is not Flight:
        raise TypeError(f"an exchange that was never dispatched: {flight!r}")
    return flight


def read(flight: Flight) -> Body | BadBody:
    """Read the body; a fault comes back as a value."""
    try:
        return read_body(flight.endpoint, flight.exchange.request.body)
    except BadBody as error:
        return error

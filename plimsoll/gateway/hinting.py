"""What a client that asks learns before its answer: that its request waits, and what is taken from it (103, RFC 8297).

Only those that ask: many clients take any 1xx but 100 for the answer itself.
"""

from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Headers
from plimsoll.governor.decisions import Dispatch, Enqueue

DEGRADED = b"x-plimsoll-degraded"
QUEUED = b"x-plimsoll-queued"


def hint(flight: Flight, decision: Enqueue | Dispatch) -> None:
    """Tell it what is new; nothing where all was told before, or its answer has begun."""
    fields: Headers = [(DEGRADED, decision.degraded.encode())] if decision.degraded else []
    if isinstance(decision, Enqueue):
        fields = [(QUEUED, decision.reason.encode()), *fields]
    elif decision.degraded == flight.hinted:
        return
    if fields:
        flight.hinted = decision.degraded
        flight.exchange.hint(fields)

"""What a simulated client asks, as the event that live hands would make of it."""

from math import inf
from typing import Final

from plimsoll.governor.events import ENTROPY_EVERY, Criticality, Endpoint, RequestArrived
from plimsoll.policy.policy import UpstreamTrust
from plimsoll.sim.flight import Flight

MAX_HASHES: Final = 16
"""The governor is told of so many prefix hashes, as by the live hands; the engine's own cache knows all."""

_CHAT: Final = Endpoint.CHAT
_CRITICALITIES: Final = {str(each): each for each in Criticality}


def arrived(flight: Flight, at: float, upstream_trust: UpstreamTrust) -> RequestArrived:
    """The event of its arrival; by position, since keywords cost time on this path."""
    hashes, hash_tokens = flight.hashes, flight.hash_tokens
    if len(hashes) > MAX_HASHES:
        stride = _stride(len(hashes))
        hashes = hashes[stride - 1 :: stride]
        hash_tokens *= stride
    return RequestArrived(
        at,
        flight.request_id,
        flight.tenant,
        flight.model,
        flight.prompt_tokens,
        flight.max_output_tokens,
        1,
        hashes,
        hash_tokens,
        _CHAT,
        flight.streaming,
        flight.asked_tier,
        flight.cause,
        _CRITICALITIES[flight.criticality],
        flight.session,
        inf,
        flight.upstream_time,
        upstream_trust,
        "",
        "",
        "",
        0,
        "",
        flight.prompt_entropy if flight.request_id % ENTROPY_EVERY == 0 else None,
    )


def _stride(num_hashes: int) -> int:
    """Every how many-th hash the governor is told: stretches double in size until 16 cover the prompt."""
    stride = 1
    while num_hashes // stride > MAX_HASHES:
        stride *= 2
    return stride

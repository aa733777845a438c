"""Parts of the scheduling rules: whose word on saturation counts, and classes of a tenant's requests."""

from enum import StrEnum
from fractions import Fraction
from math import inf

from msgspec import Struct


class SaturationRule(StrEnum):
    """Whose word says how full a pool is."""

    RESERVED = "reserved"  # what the gateway has booked there
    REPORTED = "reported"  # what replicas say: their own queues and KV


class Drafts(StrEnum):
    """Whether a pool's engines guess tokens by a draft (speculative decoding)."""

    ON = "on"
    OFF = "off"
    SWITCH = "switch"  # as each request asks


class SpeculationRules(Struct, frozen=True):
    """Whose requests are kept from drafts that would be wrong."""

    below: Fraction = Fraction(3, 10)  # of the draft tokens accepted, as predicted
    explore: int = 32  # one in so many is drafted all the same, so that a change is seen


class Late(StrEnum):
    """What becomes of a waiting request that can no longer meet its TTFT or E2E objective."""

    LAST = "last"  # it waits behind its tenant's others, until its time in the queue is over
    IN_TURN = "in_turn"  # it keeps its place


class RequestClass(Struct, frozen=True):
    """Kinds of requests that matter more or less to their tenant; they divide its turns by weight."""

    name: str
    causes: tuple[str, ...] = ()
    weight: Fraction = Fraction(1)
    decay: float = inf  # s of pressure after which the weight has halved
    sheddable: bool = False  # leaves the queue first

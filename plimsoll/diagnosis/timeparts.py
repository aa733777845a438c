"""The parts of a request's time: names, how each is known, and the arrays that hold them."""

from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats


class Part(StrEnum):
    """A part of a request's time; the order is that of the columns of `TimeParts.seconds`."""

    UPSTREAM = "upstream"
    PLUGINS = "plugins"
    GATEWAY_QUEUE = "gateway_queue"
    ENGINE_QUEUE = "engine_queue"
    KV_PRESSURE = "kv_pressure"
    OWN_PREFILL = "own_prefill"
    OTHERS_PREFILL = "others_prefill"
    DECODE = "decode"
    STALL = "stall"
    CLIENT = "client"
    UNKNOWN = "unknown"


PARTS: Final = tuple(Part)
COLUMN: Final = {part: index for index, part in enumerate(PARTS)}
HOW: Final = {
    Part.UPSTREAM: "reported",
    Part.PLUGINS: "measured",
    Part.GATEWAY_QUEUE: "measured",
    Part.ENGINE_QUEUE: "inferred",
    Part.KV_PRESSURE: "inferred",
    Part.OWN_PREFILL: "inferred",
    Part.OTHERS_PREFILL: "inferred",
    Part.DECODE: "inferred",
    Part.STALL: "measured",
    Part.CLIENT: "measured",
    Part.UNKNOWN: "unknown",
}


class TimeParts(Struct, frozen=True):
    """`seconds[i]` are the parts of row i in the order of PARTS; they sum to `total[i]`, from upstream to the end."""

    seconds: Floats  # (n, 11)
    total: Floats  # (n,)
    crowded: Floats  # (n, tenants): s of queueing and of others' prompts on its replica, by whose prompts they were
    modelled: NDArray[np.bool_]  # (n,): its replica has a profile and it got a token
    pace: Floats  # (n,): how many times longer than the model says its decode steps took; NaN: not known

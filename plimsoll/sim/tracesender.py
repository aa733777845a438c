"""Who sends the rows of a trace."""

from math import inf

from msgspec import Struct


class Sender(Struct, frozen=True):
    """Who sends rows of a trace. `of` takes the rows of that tenant of the trace, else rows of nobody by `weight`."""

    name: str
    of: str = ""
    weight: float = 1.0
    rate: float = 1.0  # factor on the number of requests: below 1 some are left out, above 1 some come more than once
    prompt: float = 1.0  # factors on the lengths
    output: float = 1.0
    model: str = ""
    tier: str = ""
    cause: str = ""
    criticality: str = ""
    max_output: int = 0  # as TenantProfile
    streaming: bool = True
    patience: float = inf

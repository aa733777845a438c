"""One request of a workload: what its client asks for, and what only the engine will find out."""

from math import inf

from msgspec import Struct


class Arrival(Struct, frozen=True, gc=False):
    """`at` is s from the start of the workload. `output_tokens` is the true length: the governor never sees it."""

    at: float
    tenant: str
    model: str
    prompt_tokens: int
    output_tokens: int
    max_output_tokens: int = 0  # as the client asked; 0: it did not
    hashes: tuple[int, ...] = ()  # equal at i: equal up to the end of the i-th stretch of `hash_tokens`
    hash_tokens: int = 512
    tier: str = ""
    cause: str = ""
    session: str = ""
    criticality: str = "critical"
    streaming: bool = True
    patience: float = inf  # s after which the client leaves
    upstream_time: float | None = None
    prompt_entropy: float | None = None  # bits a byte

"""One request of somebody else's traffic, whatever file it came from."""

from collections.abc import Sequence

from msgspec import Struct


class TraceRow(Struct, frozen=True, gc=False):
    """What a trace says of one request. `at` is s after the first row; "" and () mean that the trace does not say."""

    at: float
    prompt_tokens: int  # ≥ 1
    output_tokens: int  # ≥ 1
    prefix_ids: tuple[int, ...] = ()  # one a block of `block_tokens`: equal ids at equal places are equal tokens
    block_tokens: int = 0  # tokens that one prefix id stands for; 0: no ids
    tenant: str = ""
    session: str = ""
    cause: str = ""
    criticality: str = ""
    cached_tokens: int | None = None  # of the prompt, that the engine had already
    upstream_time: float | None = None  # s spent before the request came


def length_of(rows: Sequence[TraceRow]) -> float:
    """s that a trace in order of time stands for: up to its last row, and one more mean gap; 0 where it is empty."""
    return rows[-1].at + rows[-1].at / max(1, len(rows) - 1) if rows else 0.0

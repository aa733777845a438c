"""What will be sent when, by whom: a trace's rows made into a plan before the first request goes out.

A plan depends on trace, tenants, options and seed alone: the same in every process and at every speed. Each choice is
drawn from a hash of (seed, purpose, row), never from a generator that others advance.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate
from math import log

from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.load.tenants import Sender
from plimsoll.storage.tracerow import TraceRow


class Shape(Struct, frozen=True):
    """How a trace is made into load. Times of the trace are divided by `speed`; lengths are multiplied, then capped."""

    speed: float = 1.0
    seed: int = 0
    skip: float = 0.0  # s of the trace left out at its start
    duration: float = 0.0  # s of the trace; 0: all
    limit: int = 0  # requests; 0: all
    sample_ratio: float = 1.0  # of requests that are kept, drawn by row
    prompt_scale: float = 1.0
    output_scale: float = 1.0
    max_prompt_tokens: int = 0  # 0: as the trace says
    max_output_tokens: int = 0
    cancel_ratio: float = 0.0  # of requests whose client leaves before the answer ended
    cancel_after: float = 2.0  # s, mean of an exponential, from the scheduled arrival


class Planned(Struct, frozen=True, gc=False):
    """One request to come. `at` is s after the replay's start; `leaves_after` s after that, 0: stays to the end."""

    index: int  # row of the trace, from 0
    at: float
    sender: int  # place in the tenant map
    prompt_tokens: int
    output_tokens: int
    prefix_ids: tuple[int, ...] = ()
    block_tokens: int = 0
    session: str = ""
    cause: str = ""
    criticality: str = ""
    leaves_after: float = 0.0


def draw(seed: int, purpose: str, index: int) -> float:
    """A number in [0, 1) that depends on its arguments alone."""
    digest = blake2b(f"{seed}/{purpose}/{index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / (1 << 53)


def plan(rows: Iterable[TraceRow], senders: tuple[Sender, ...], shape: Shape) -> Iterator[Planned]:
    """The requests in order of time. Raises UsageError where a row's tenant has no key in the map."""
    places = {sender.name: place for place, sender in enumerate(senders)}
    bounds = list(accumulate(sender.weight for sender in senders))
    num = 0
    for index, row in enumerate(rows):
        if row.at < shape.skip:
            continue
        if (shape.duration and row.at >= shape.skip + shape.duration) or (shape.limit and num >= shape.limit):
            return
        if row.tenant and row.tenant not in places:
            raise UsageError(f"tenant {row.tenant} of the trace has no key in the tenant map")
        # Requests of one session belong to one tenant, so the session's name is drawn for, not the row.
        chance = draw(shape.seed, f"tenant {row.session}", 0 if row.session else index)
        drawn = min(bisect_right(bounds, chance * bounds[-1]), len(senders) - 1)
        if draw(shape.seed, "sample", index) >= shape.sample_ratio:
            continue
        num += 1
        yield _planned(index, row, places[row.tenant] if row.tenant else drawn, shape)


def _planned(index: int, row: TraceRow, sender: int, shape: Shape) -> Planned:
    prompt = _scaled(row.prompt_tokens, shape.prompt_scale, shape.max_prompt_tokens)
    block = _scaled(row.block_tokens, shape.prompt_scale, 0) if row.prefix_ids else 0
    num_blocks = -(-prompt // block) if block else 0
    return Planned(
        index=index,
        at=(row.at - shape.skip) / shape.speed,
        sender=sender,
        prompt_tokens=prompt,
        output_tokens=_scaled(row.output_tokens, shape.output_scale, shape.max_output_tokens),
        prefix_ids=row.prefix_ids[:num_blocks],
        block_tokens=block,
        session=row.session,
        cause=row.cause,
        criticality=row.criticality,
        leaves_after=_leaves_after(index, shape),
    )


def _scaled(tokens: int, scale: float, cap: int) -> int:
    scaled = max(1, round(tokens * scale))
    return min(scaled, cap) if cap else scaled


def _leaves_after(index: int, shape: Shape) -> float:
    if draw(shape.seed, "cancel", index) >= shape.cancel_ratio:
        return 0.0
    return -log(1.0 - draw(shape.seed, "cancel after", index)) * shape.cancel_after + 1e-3

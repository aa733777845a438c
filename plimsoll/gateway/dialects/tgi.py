"""Text Generation Inference. Names: router/src (Apache-2.0).

Its scheduler counts tokens, not blocks: `max_batch_total_tokens` of `/info` is what all running requests may take, so
a block here is one token.
"""

import msgspec

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading


def read(page: bytes) -> Reading:
    """`/metrics`."""
    metrics = Exposition(page)
    return Reading(running=metrics.count("tgi_batch_current_size"), waiting=metrics.count("tgi_queue_size"))


class _Info(msgspec.Struct):
    max_total_tokens: int | None = None
    max_batch_total_tokens: int | None = None


def read_facts(page: bytes) -> Reading:
    """`/info`."""
    info = msgspec.json.decode(page, type=_Info)
    tokens = info.max_batch_total_tokens
    return Reading(kv_blocks=tokens, block_size=1 if tokens else None, max_context=info.max_total_tokens)


DIALECT = Dialect("/metrics", read, "/info", read_facts)

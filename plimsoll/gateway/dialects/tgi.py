"""Text Generation Inference. Names: router/src (Apache-2.0).

Its scheduler counts tokens, not blocks: `max_batch_total_tokens` of `/info` is what all running requests may take, so
a block here is one token.
"""

import msgspec

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading
from plimsoll.requestlog.enginestate import EngineState


def read(page: bytes) -> Reading:
    """`/metrics`."""
    metrics = Exposition(page)
    return Reading(running=metrics.count("tgi_batch_current_size"), waiting=metrics.count("tgi_queue_size"))


def read_state(page: bytes) -> EngineState:
    """`/metrics`. Its time a token is one mean a request, kept as the histogram of gaps for want of better."""
    metrics = Exposition(page)
    return EngineState(
        accepted_tokens=metrics.count("tgi_request_skipped_tokens_sum"),
        itl=metrics.histogram("tgi_request_mean_time_per_token_duration"),
        queue=metrics.histogram("tgi_request_queue_duration"),
    )


class _Info(msgspec.Struct):
    max_total_tokens: int | None = None
    max_batch_total_tokens: int | None = None


def read_facts(page: bytes) -> Reading:
    """`/info`."""
    info = msgspec.json.decode(page, type=_Info)
    tokens = info.max_batch_total_tokens
    return Reading(kv_blocks=tokens, block_size=1 if tokens else None, max_context=info.max_total_tokens)


DIALECT = Dialect("/metrics", read, "/info", read_facts, read_state=read_state)

"""llama.cpp's server. Names: tools/server (MIT).

Its KV cache is cut into equal slots, one a running request: a block here is a slot's whole context. `/metrics` needs
the server's `--metrics`; without it `/slots` tells who is busy.
"""

import msgspec

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading
from plimsoll.requestlog.enginestate import EngineState


def read(page: bytes) -> Reading:
    """`/metrics`."""
    metrics = Exposition(page)
    read_tokens = metrics.count("llamacpp:prompt_tokens_total")
    cached = metrics.count("llamacpp:prompt_tokens_cached_total")
    return Reading(
        running=metrics.count("llamacpp:requests_processing"),
        waiting=metrics.count("llamacpp:requests_deferred"),
        prefix_queries=read_tokens + cached if read_tokens is not None and cached is not None else None,
        prefix_hits=cached,
    )


def read_state(page: bytes) -> EngineState:
    """`/metrics`: counters, no histograms."""
    metrics = Exposition(page)
    return EngineState(
        output_tokens=metrics.count("llamacpp:tokens_predicted_total"),
        draft_tokens=metrics.count("llamacpp:spec_decode_num_draft_tokens_total"),
        accepted_tokens=metrics.count("llamacpp:spec_decode_num_accepted_tokens_total"),
    )


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: int | None = None


class _Props(msgspec.Struct):
    total_slots: int | None = None
    default_generation_settings: _Generation = _Generation()


class _Slot(msgspec.Struct):
    n_ctx: int | None = None
    is_processing: bool | None = None


def read_facts(page: bytes) -> Reading:
    """`/props`: how many slots, and the context of each."""
    props = msgspec.json.decode(page, type=_Props)
    return _slots(props.total_slots, props.default_generation_settings.n_ctx)


def read_slots(page: bytes) -> Reading:
    """`/slots`: those at work; who waits is not told."""
    slots = msgspec.json.decode(page, type=list[_Slot])
    contexts = [slot.n_ctx for slot in slots if slot.n_ctx]
    known = bool(slots) and all(slot.is_processing is not None for slot in slots)
    running = sum(slot.is_processing is True for slot in slots) if known else None
    return _slots(len(slots) or None, min(contexts, default=None))._replace(running=running)


def _slots(num: int | None, context: int | None) -> Reading:
    return Reading(kv_blocks=num if context else None, block_size=context if num else None, max_context=context)


DIALECT = Dialect("/metrics", read, "/props", read_facts, "/slots", read_slots, read_state)

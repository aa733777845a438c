"""vLLM. Names: vllm/v1/metrics/loggers.py (Apache-2.0); version 0's too, where they differ.

With data parallelism every engine core has its own series, told apart by `engine`: counts are summed.
"""

from typing import Final

import msgspec

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading
from plimsoll.requestlog.enginestate import EngineState

LORA: Final = "vllm:lora_requests_info"


def read(page: bytes) -> Reading:
    """`/metrics`."""
    metrics = Exposition(page)
    info = "vllm:cache_config_info"
    blocks = metrics.label(info, "num_gpu_blocks")
    sizes = metrics.label(info, "block_size")
    adapters = metrics.texts(LORA, "running_lora_adapters")  # the set that ran last comes last
    slots = metrics.label(LORA, "max_lora")
    return Reading(
        running=metrics.count("vllm:num_requests_running"),
        waiting=metrics.count("vllm:num_requests_waiting"),
        kv_usage=metrics.mean("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        kv_blocks=sum(blocks) or None,
        block_size=sizes[0] if sizes else None,
        prefix_queries=metrics.count("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        prefix_hits=metrics.count("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        preemptions=metrics.count("vllm:num_preemptions_total"),
        adapters=tuple([name.strip() for name in adapters[-1].split(",") if name.strip()]) if adapters else None,
        adapter_slots=slots[0] if slots else None,
    )


def read_state(page: bytes) -> EngineState:
    """`/metrics`. Experts' balance is in its log only."""
    metrics = Exposition(page)
    waiting = metrics.texts(LORA, "waiting_lora_adapters")
    return EngineState(
        started_at=metrics.total("process_start_time_seconds"),
        output_tokens=metrics.count("vllm:generation_tokens_total"),
        draft_tokens=metrics.count("vllm:spec_decode_num_draft_tokens_total"),
        accepted_tokens=metrics.count("vllm:spec_decode_num_accepted_tokens_total"),
        adapters_waiting=len(list(filter(None, waiting[-1].split(",")))) if waiting else None,
        loaded_tokens=metrics.count("vllm:external_prefix_cache_hits_total"),
        ttft=metrics.histogram("vllm:time_to_first_token_seconds"),
        itl=metrics.histogram("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        queue=metrics.histogram("vllm:request_queue_time_seconds"),
    )


class _Model(msgspec.Struct):
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


def read_facts(page: bytes) -> Reading:
    """`/v1/models`: each entry says `max_model_len`; adapters share their base's."""
    lengths = [model.max_model_len for model in msgspec.json.decode(page, type=_Models).data if model.max_model_len]
    return Reading(max_context=max(lengths) if lengths else None)


DIALECT = Dialect("/metrics", read, "/v1/models", read_facts, read_state=read_state)

"""TensorRT-LLM: `trtllm-serve`'s own names, and those of Triton's backend (both Apache-2.0)."""

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading, ratio
from plimsoll.requestlog.enginestate import EngineState

TRITON_REQUESTS = "nv_trt_llm_request_metrics"
TRITON_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"


def read(page: bytes) -> Reading:
    """`/prometheus/metrics` of trtllm-serve, `/metrics` of Triton."""
    metrics = Exposition(page)
    return _read_triton(metrics) if metrics.samples(TRITON_REQUESTS) else _read_serve(metrics)


def _read_serve(metrics: Exposition) -> Reading:
    reused = metrics.count("trtllm_kv_cache_reused_blocks_total")
    missed = metrics.count("trtllm_kv_cache_missed_blocks_total")
    size = metrics.count("trtllm_kv_cache_tokens_per_block")
    known = reused is not None and missed is not None and size is not None
    return Reading(
        running=metrics.count("trtllm_num_requests_running"),
        waiting=metrics.count("trtllm_num_requests_waiting"),
        kv_usage=metrics.mean("trtllm_kv_cache_utilization"),
        kv_blocks=metrics.count("trtllm_kv_cache_max_blocks"),
        block_size=size,
        prefix_queries=(reused + missed) * size if known else None,  # type: ignore[operator]  # `known` says so
        prefix_hits=reused * size if known else None,  # type: ignore[operator]
    )


def read_state(page: bytes) -> EngineState:
    """`/prometheus/metrics` of trtllm-serve; Triton's page has none of it."""
    metrics = Exposition(page)
    return EngineState(
        started_at=metrics.total("process_start_time_seconds"),
        output_tokens=metrics.count("trtllm_generation_tokens_total"),
        draft_tokens=metrics.count("trtllm_spec_decode_num_draft_tokens_total"),
        accepted_tokens=metrics.count("trtllm_spec_decode_num_accepted_tokens_total"),
        loaded_bytes=metrics.total("trtllm_kv_cache_onboard_bytes_total"),
        ttft=metrics.histogram("trtllm_time_to_first_token_seconds"),
        itl=metrics.histogram("trtllm_time_per_output_token_seconds"),
        queue=metrics.histogram("trtllm_request_queue_time_seconds"),
    )


def _read_triton(metrics: Exposition) -> Reading:
    blocks = metrics.count(TRITON_BLOCKS, kv_cache_block_type="max")
    return Reading(
        running=metrics.count(TRITON_REQUESTS, request_type="scheduled"),
        waiting=metrics.count(TRITON_REQUESTS, request_type="waiting"),
        kv_usage=ratio(metrics.total(TRITON_BLOCKS, kv_cache_block_type="used"), blocks),
        kv_blocks=blocks,
        block_size=metrics.count(TRITON_BLOCKS, kv_cache_block_type="tokens_per"),
    )


DIALECT = Dialect("/prometheus/metrics", read, spare_path="/metrics", read_spare=read, read_state=read_state)

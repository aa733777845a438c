"""SGLang. Names: python/sglang/srt/metrics/collector.py (Apache-2.0).

Every scheduler rank may tell the same figure: within a data-parallel rank the largest counts, over them the sum.
"""

import msgspec

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Dialect, Reading
from plimsoll.requestlog.enginestate import EngineState


def read(page: bytes) -> Reading:
    """`/metrics`."""
    metrics = Exposition(page)
    page_size = _by_rank(metrics, "sglang:page_size", summed=False)
    pages = _by_rank(metrics, "sglang:num_pages")
    tokens = _by_rank(metrics, "sglang:max_total_num_tokens")
    if pages is None and tokens is not None:
        page_size = page_size or 1
        pages = tokens // page_size
    return Reading(
        running=_by_rank(metrics, "sglang:num_running_reqs"),
        waiting=_by_rank(metrics, "sglang:num_queue_reqs"),
        kv_usage=metrics.mean("sglang:token_usage"),
        kv_blocks=pages or None,
        block_size=page_size,
        prefix_queries=_by_rank(metrics, "sglang:prompt_tokens_total"),
        prefix_hits=metrics.count("sglang:cached_tokens_total"),
        preemptions=_by_rank(metrics, "sglang:num_retracted_requests_total"),
        max_context=_by_rank(metrics, "sglang:context_len", summed=False),
    )


def read_state(page: bytes) -> EngineState:
    """`/metrics`. Experts' balance is a summary: a sum and a count."""
    metrics = Exposition(page)
    return EngineState(
        started_at=metrics.total("process_start_time_seconds"),
        output_tokens=_by_rank(metrics, "sglang:generation_tokens_total"),
        balance_total=metrics.total("sglang:eplb_balancedness_sum"),
        balance_looks=metrics.count("sglang:eplb_balancedness_count"),
        loaded_tokens=_by_rank(metrics, "sglang:load_back_tokens_total"),
        ttft=metrics.histogram("sglang:time_to_first_token_seconds"),
        itl=metrics.histogram("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        queue=metrics.histogram("sglang:queue_time_seconds"),
        **_guesses(metrics),
    )


def _guesses(metrics: Exposition) -> dict[str, int]:
    """It counts verifications; each has so many draft tokens, of which its mean accept length, less one, were right."""
    calls = metrics.count("sglang:spec_verify_calls_total")
    drafts, length = metrics.mean("sglang:spec_num_draft_tokens"), metrics.mean("sglang:spec_accept_length")
    if calls is None or drafts is None or length is None:
        return {}
    return {"draft_tokens": int(calls * drafts), "accepted_tokens": int(calls * max(0.0, length - 1.0))}


def _by_rank(metrics: Exposition, name: str, *, summed: bool = True) -> int | None:
    ranks: dict[bytes, float] = {}
    for labels, value in metrics.samples(name):
        rank = labels.get(b"dp_rank", b"")
        ranks[rank] = max(value, ranks.get(rank, value))
    if not ranks:
        return None
    return int(sum(ranks.values()) if summed else max(ranks.values()))


class _Info(msgspec.Struct):
    max_model_len: int | None = None
    max_total_num_tokens: int | None = None
    page_size: int | None = None


def read_facts(page: bytes) -> Reading:
    """`/get_model_info` and `/get_server_info` differ by version; what is there of these is taken."""
    info = msgspec.json.decode(page, type=_Info)
    size = info.page_size or 1
    blocks = info.max_total_num_tokens // size if info.max_total_num_tokens else None
    return Reading(kv_blocks=blocks, block_size=size if blocks else None, max_context=info.max_model_len)


DIALECT = Dialect("/metrics", read, "/get_server_info", read_facts, read_state=read_state)

"""What others than the engine tell of a replica: DCGM of its GPUs, LMCache of KV below them, Dynamo of its worker.

A pool names them beside its replicas (`exporters`). One URL stands for the replica at its place in the list; a single
one for all of the pool.
"""

from collections.abc import Callable
from typing import Final

from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Reading, ratio
from plimsoll.requestlog.enginestate import EngineState

_NO_VALUE: Final = 9.2e18
"""DCGM writes 9223372036854775794 for a field that its GPU does not have."""


def read_dcgm(page: bytes) -> EngineState:
    """Rates are summed over the GPUs of the page, activity and clocks are means."""
    metrics = Exposition(page)
    return EngineState(
        pcie_rate=_sum(metrics, "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
        nvlink_rate=_sum(metrics, "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
        tensor_active=_mean(metrics, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        memory_active=_mean(metrics, "DCGM_FI_PROF_DRAM_ACTIVE"),
        sm_clock=_mean(metrics, "DCGM_FI_DEV_SM_CLOCK"),
    )


def read_lmcache(page: bytes) -> EngineState:
    """Tokens that it brought back for the engine, and how long requests waited for them."""
    metrics = Exposition(page)
    return EngineState(
        loaded_tokens=metrics.count("lmcache:num_hit_tokens_total"),
        loading_time=metrics.total("lmcache:time_to_retrieve_sum"),
    )


def read_dynamo(page: bytes) -> EngineState:
    """Nothing beyond what the engine's own series say, which a Dynamo worker serves on the same page."""
    return EngineState(started_at=Exposition(page).total("process_start_time_seconds"))


def read_dynamo_load(page: bytes) -> Reading:
    """A worker's blocks and requests, by the names of Dynamo's components."""
    metrics = Exposition(page)
    blocks = metrics.count("dynamo_component_total_blocks", "dynamo_component_kvstats_total_blocks")
    active = metrics.total("dynamo_component_kvstats_active_blocks")
    usage = metrics.mean("dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent")
    return Reading(
        running=metrics.count("dynamo_component_inflight_requests"),
        kv_usage=usage if usage is not None else ratio(active, blocks),
        kv_blocks=blocks,
    )


EXPORTERS: Final[dict[str, Callable[[bytes], EngineState]]] = {
    "dcgm": read_dcgm,
    "lmcache": read_lmcache,
    "dynamo": read_dynamo,
}


def _values(metrics: Exposition, name: str) -> list[float]:
    return [value for _, value in metrics.samples(name) if abs(value) < _NO_VALUE]


def _sum(metrics: Exposition, *names: str) -> float | None:
    values = [value for name in names for value in _values(metrics, name)]
    return sum(values) if values else None


def _mean(metrics: Exposition, name: str) -> float | None:
    values = _values(metrics, name)
    return sum(values) / len(values) if values else None

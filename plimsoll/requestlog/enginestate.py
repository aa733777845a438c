"""What an engine tells of itself beyond its load, and a replica's state by windows of time: one row each.

Counters run since the engine's start, so a window holds by how much they grew; where one is smaller than before, the
engine was started again and what it shows now is the growth. None is "did not say", which is never zero (law 8).
"""

from typing import Final

from msgspec import Struct

WINDOW: Final = 10.0
"""s of a window. Windows begin at whole multiples of it."""


class Histogram(Struct, frozen=True, array_like=True, gc=False):
    """An engine's own histogram: `counts[i]` values were at most `bounds[i]` s; the last bound may be infinite."""

    total: float  # s, of all values together
    bounds: tuple[float, ...]
    counts: tuple[int, ...]


class EngineState(Struct, frozen=True, gc=False):
    """One look. Names of the metrics by engine are in docs/engines.md; `…_rate`, ratios and clocks are gauges."""

    started_at: float | None = None  # UTC epoch s of its process
    output_tokens: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None  # of the draft tokens, those that were right
    balancedness: float | None = None  # of experts' ranks: mean load ÷ load of the busiest, 0 to 1
    balance_total: float | None = None  # of engines that keep a sum of it …
    balance_looks: int | None = None  # … over so many looks, in place of a gauge
    adapter_loads: int | None = None
    adapters_waiting: int | None = None  # gauge: adapters whose requests wait for a slot or a load
    model_loads: int | None = None
    model_load_failures: int | None = None
    loaded_tokens: int | None = None  # KV brought up from below the GPU's memory
    loaded_bytes: float | None = None  # the same, of engines that count bytes
    loading_time: float | None = None  # s that bringing it up took, summed over requests
    pcie_rate: float | None = None  # bytes/s over PCIe, both ways
    nvlink_rate: float | None = None  # bytes/s over NVLink, both ways
    tensor_active: float | None = None  # share of time in which the tensor cores were at work
    memory_active: float | None = None  # share of time in which the GPU's memory was read or written
    sm_clock: float | None = None  # MHz
    ttft: Histogram | None = None
    itl: Histogram | None = None
    queue: Histogram | None = None


COUNTERS: Final = (
    "prefix_queries", "prefix_hits", "preemptions", "output_tokens", "draft_tokens", "accepted_tokens",
    "adapter_loads", "model_loads", "model_load_failures", "loaded_tokens", "loaded_bytes", "loading_time",
)  # fmt: skip
"""Columns of a window that are growths; by the names of reports and states."""
GAUGES: Final = (
    "running", "waiting", "kv_usage", "balancedness", "adapters_waiting", "pcie_rate", "nvlink_rate", "tensor_active",
    "memory_active", "sm_clock",
)  # fmt: skip
"""Columns that are means over the looks that told them."""
HISTOGRAMS: Final = ("ttft", "itl", "queue")


class ReplicaWindow(Struct, frozen=True, array_like=True, gc=False):
    """One replica in [from_at, until_at), UTC epoch s. Additive only: new columns go to the end."""

    replica: str
    from_at: float
    until_at: float
    num_looks: int
    num_healthy: int  # looks at which it was up
    num_starts: int  # times it was seen to have been started since the look before
    max_waiting: int | None = None
    max_kv_usage: float | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    balancedness: float | None = None
    adapters_waiting: float | None = None
    pcie_rate: float | None = None
    nvlink_rate: float | None = None
    tensor_active: float | None = None
    memory_active: float | None = None
    sm_clock: float | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    preemptions: int | None = None
    output_tokens: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    adapter_loads: int | None = None
    model_loads: int | None = None
    model_load_failures: int | None = None
    loaded_tokens: int | None = None
    loaded_bytes: float | None = None
    loading_time: float | None = None
    ttft: Histogram | None = None
    itl: Histogram | None = None
    queue: Histogram | None = None


def grown(before: float | None, now: float | None) -> float | None:
    """By how much a counter grew between two looks; None where either did not tell it."""
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def histogram_grown(before: Histogram | None, now: Histogram | None) -> Histogram | None:
    """The same of a histogram; one with other bounds or less in it than before is that of a new process."""
    if before is None or now is None:
        return None
    if before.bounds != now.bounds or any(a > b for a, b in zip(before.counts, now.counts, strict=True)):
        return now
    counts = tuple([b - a for a, b in zip(before.counts, now.counts, strict=True)])
    return Histogram(max(0.0, now.total - before.total), now.bounds, counts)


def histograms_added(one: Histogram | None, other: Histogram | None) -> Histogram | None:
    """What two growths are together; where bounds differ the later one stands alone."""
    if one is None or other is None or one.bounds != other.bounds:
        return other if one is None or other is not None else one
    counts = tuple([a + b for a, b in zip(one.counts, other.counts, strict=True)])
    return Histogram(one.total + other.total, one.bounds, counts)

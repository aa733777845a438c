"""What changed in what replicas said of themselves, between two times; from their windows, never from a simulator."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats
from plimsoll.requestlog.enginestate import ReplicaWindow

COLUMNS: Final = (
    "from_at", "until_at", "num_looks", "num_healthy", "num_starts", "running", "kv_usage", "preemptions",
    "balancedness", "memory_active", "sm_clock", "pcie_rate", "nvlink_rate", "draft_tokens", "accepted_tokens",
    "adapter_loads", "adapters_waiting", "model_loads", "model_load_failures", "loaded_tokens", "loaded_bytes",
    "loading_time",
)  # fmt: skip
"""Columns of replicas' windows that a diagnosis reads."""
AROUND: Final = 60.0
"""s before a change was noticed from which a start belongs to it."""
BUSY: Final = 0.5
"""Mean running requests below which an engine's gauges say nothing of its work."""


class States:
    """Windows of all replicas as columns; unknown is NaN (law 8)."""

    def __init__(self, windows: Iterable[ReplicaWindow] = ()) -> None:
        rows = sorted(windows, key=lambda row: (row.from_at, row.replica))
        self.num = len(rows)
        self.replica: Sequence[str] = [row.replica for row in rows]
        self._columns = {name: _floats([getattr(row, name) for row in rows]) for name in COLUMNS}

    def __getitem__(self, column: str) -> Floats:
        return self._columns[column]

    def names(self) -> list[str]:
        """Replicas that any window is of."""
        return sorted(set(self.replica))


class EngineSignal(Struct, frozen=True):
    """One replica: pairs (before, during), each None where it was not told. Rates are a second."""

    name: str
    acceptance: tuple[float | None, float | None]  # of draft tokens, those that were right
    balancedness: tuple[float | None, float | None]
    memory_active: tuple[float | None, float | None]
    sm_clock: tuple[float | None, float | None]
    pcie_rate: tuple[float | None, float | None]
    nvlink_rate: tuple[float | None, float | None]
    load_speed: tuple[float | None, float | None]  # KV brought up (tokens, or bytes) ÷ s that it took
    loading: tuple[float | None, float | None]  # s of bringing KV up
    adapter_loads: tuple[float | None, float | None]
    adapters_waiting: tuple[float | None, float | None]
    preemptions: tuple[float | None, float | None]
    num_starts: int  # new processes or loads of the model, around the change and since
    num_failed_loads: int
    down: float  # share of looks during which it was not up


def engine_signals(states: States, begin: float, end: float) -> tuple[EngineSignal, ...]:
    """Of each replica, the time before `begin` against [begin, end]."""
    found = []
    replicas = np.array(states.replica, dtype=object)
    for name in states.names():
        mine = replicas == name
        before = mine & (states["until_at"] <= begin)
        during = mine & (states["until_at"] > begin) & (states["from_at"] < end)
        around = mine & (states["until_at"] > begin - AROUND) & (states["from_at"] < end)
        if during.any():
            found.append(_signal(states, name, before, during, around))
    return tuple(found)


def _signal(
    states: States, name: str, before: NDArray[np.bool_], during: NDArray[np.bool_], around: NDArray[np.bool_]
) -> EngineSignal:
    busy = ~(states["running"] < BUSY)

    def mean(column: str) -> tuple[float | None, float | None]:
        return _mean(states[column][before & busy]), _mean(states[column][during & busy])

    def rate(column: str) -> tuple[float | None, float | None]:
        return _rate(states, column, before), _rate(states, column, during)

    def quotient(over: str, under: str) -> tuple[float | None, float | None]:
        return _quotient(states, over, under, before), _quotient(states, over, under, during)

    brought = "loaded_bytes" if _total(states["loaded_bytes"][during]) else "loaded_tokens"
    looks = float(np.nansum(states["num_looks"][around]))
    starts = max(_total(states["num_starts"][around]) or 0.0, _total(states["model_loads"][around]) or 0.0)
    return EngineSignal(
        name=name,
        acceptance=quotient("accepted_tokens", "draft_tokens"),
        balancedness=mean("balancedness"),
        memory_active=mean("memory_active"),
        sm_clock=mean("sm_clock"),
        pcie_rate=mean("pcie_rate"),
        nvlink_rate=mean("nvlink_rate"),
        load_speed=quotient(brought, "loading_time"),
        loading=rate("loading_time"),
        adapter_loads=rate("adapter_loads"),
        adapters_waiting=mean("adapters_waiting"),
        preemptions=rate("preemptions"),
        num_starts=int(starts),
        num_failed_loads=int(_total(states["model_load_failures"][during]) or 0),
        down=1.0 - float(np.nansum(states["num_healthy"][around])) / looks if looks else 0.0,
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def _total(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.sum()) if known.size else None


def _rate(states: States, column: str, rows: NDArray[np.bool_]) -> float | None:
    total = _total(states[column][rows])
    span = float((states["until_at"][rows] - states["from_at"][rows]).sum())
    return total / span if total is not None and span > 0.0 else None


def _quotient(states: States, over: str, under: str, rows: NDArray[np.bool_]) -> float | None:
    top, bottom = _total(states[over][rows]), _total(states[under][rows])
    return top / bottom if top is not None and bottom else None

"""What one look at an engine told: any part may be missing, and None is "did not say"."""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import structs

from plimsoll.requestlog.enginestate import EngineState, Histogram


class Reading(NamedTuple):
    """The parts of a `ReplicaReport` that engines tell. Tokens and blocks as there."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    preemptions: int | None = None
    max_context: int | None = None
    adapters: tuple[str, ...] | None = None  # LoRA adapters that run
    adapter_slots: int | None = None

    def over(self, other: "Reading") -> "Reading":
        """This, with what it does not say taken from `other`."""
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return other._replace(**said)

    def plausible(self) -> "Reading":
        """This, with what no engine can mean (a load below nothing, 10^26 blocks) taken as not said."""
        said = self._asdict()
        return Reading(**{name: said[name] if _can_be(name, said[name]) else None for name in said})


_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "running": (0, 1e6),
    "waiting": (0, 1e9),
    "kv_usage": (0, 2),  # some engines count cached blocks too and pass 1 a little
    "kv_blocks": (1, 1e10),
    "block_size": (1, 1e8),
    "max_context": (1, 1e9),
    "adapter_slots": (1, 1e6),
}
_MOST_ADAPTERS: Final = 1024
_COUNTER: Final = (0.0, 1e18)  # since the engine's start


def _can_be(name: str, value: float | tuple[str, ...] | None) -> bool:
    if isinstance(value, tuple):
        return len(value) <= _MOST_ADAPTERS
    low, high = _BOUNDS.get(name, _COUNTER)
    return value is not None and low <= value <= high


def nothing(_page: bytes) -> EngineState:
    """Of engines that tell no more than their load."""
    return EngineState()


def over(state: EngineState, other: EngineState) -> EngineState:
    """A state, with what it does not say taken from another."""
    missing = {name: value for name, value in structs.asdict(other).items() if getattr(state, name) is None}
    return structs.replace(state, **missing)


def plausible_state(state: EngineState) -> EngineState:
    """A state, with what no engine can mean taken as not said."""
    said = structs.asdict(state)
    return EngineState(**{name: said[name] if _is_told(name, said[name]) else None for name in said})


def _is_told(name: str, value: float | Histogram | None) -> bool:
    if isinstance(value, Histogram):
        return value.total >= 0.0 and all(0 <= count <= _COUNTER[1] for count in value.counts)
    if name in ("balancedness", "tensor_active", "memory_active"):
        return value is not None and 0.0 <= value <= 1.0
    return value is not None and _COUNTER[0] <= value <= _COUNTER[1]


class Dialect(NamedTuple):
    """Where to look and how to read it. `facts` is asked once after an engine has come up: what it was built with.

    `read_state` reads from the same page what the governor does not need and the log keeps.
    """

    path: str
    read: Callable[[bytes], Reading]
    facts_path: str = ""
    read_facts: Callable[[bytes], Reading] = lambda _: Reading()
    spare_path: str = ""  # asked where `path` is not served (404, 405, 501)
    read_spare: Callable[[bytes], Reading] = lambda _: Reading()
    read_state: Callable[[bytes], EngineState] = nothing


def ratio(part: float | None, whole: float | None) -> float | None:
    """part ÷ whole; None where either is unknown or the whole is nothing."""
    return part / whole if part is not None and whole else None

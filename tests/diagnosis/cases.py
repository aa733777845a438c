"""Cases that make every root cause there is speak, for and against, with all of its sentences."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from plimsoll.diagnosis.case import Case, Cause
from plimsoll.diagnosis.causes import causes
from plimsoll.diagnosis.enginesignals import EngineSignal
from plimsoll.diagnosis.excess import Excess
from plimsoll.diagnosis.signals import PathSignal, ReplicaSignal, Signals, TenantSignal
from plimsoll.diagnosis.timeparts import COLUMN, PARTS, Part

VICTIM, NEIGHBOUR = "acme", "eel"
UNKNOWN = (None, None)
CALM = EngineSignal(
    "http://r1", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
    0, 0, 0.0,
)  # fmt: skip
SLOWER = (ReplicaSignal("http://r1", 100, 100, 2.4, 1.0, 0), ReplicaSignal("http://r2", 100, 100, 1.3, 1.0, 0))
QUIET = TenantSignal(NEIGHBOUR, 100, 1.0, 1.0, 1.0, 1.0, None, None, 500.0, appeared=False)
SELF = replace(QUIET, name=VICTIM)


def case(parts: dict[Part, float], *tenants: TenantSignal, mix: float = 0.0, **more: object) -> Case:
    """Seconds by part; `more` are fields of a case or of its signals."""
    like, longer = np.zeros(len(PARTS)), np.zeros(len(PARTS))
    for part, seconds in parts.items():
        like[COLUMN[part]] = seconds
    longer[COLUMN[Part.DECODE]] = mix
    of_signals = {name: more.pop(name) for name in ("replicas", "load", "engine_path", "client_path") if name in more}
    told = Signals(**({"tenants": tenants, "replicas": SLOWER, "load": None} | of_signals))  # type: ignore[arg-type]
    usual = {"by_replica": {"http://r1": 0.9, "http://r2": 0.1}, "culprits": {}, "failed_share": 0.0}
    return Case(VICTIM, Excess(50, like, longer, "before"), told, **(usual | more))  # type: ignore[arg-type]


def cases() -> Iterator[Case]:
    """One or more a cause."""
    waited = {Part.OTHERS_PREFILL: 3.0, Part.GATEWAY_QUEUE: 2.0}
    blamed = {NEIGHBOUR: 0.8}
    for signal in (
        replace(QUIET, prompt_rate=3.0, prompt=2.0), replace(QUIET, prompt_rate=3.0, rate=3.0),
        replace(QUIET, appeared=True, prompt=None), replace(QUIET, prompt_rate=None), replace(QUIET, prompt_rate=1.1),
    ):  # fmt: skip
        yield case(waited, signal, culprits=blamed)
    yield case(waited, replace(SELF, prompt=2.0), culprits={VICTIM: 0.8}, mix=1.0)
    yield case({Part.DECODE: 0.1}, replace(SELF, output=2.0), mix=3.0)
    yield case(waited, replace(SELF, rate=3.0), culprits={VICTIM: 0.8}, load=2.0)
    yield case(waited, replace(QUIET, rate=2.0), replace(SELF, rate=2.0), load=2.0, culprits={VICTIM: 0.3})
    yield case({Part.KV_PRESSURE: 3.0}, QUIET)
    yield case({Part.OWN_PREFILL: 3.0}, replace(SELF, hits=10.0, hits_before=900.0))
    yield from _of_replicas(waited)
    yield from _outside()
    yield from _within_engines(waited)


def _of_replicas(waited: dict[Part, float]) -> Iterator[Case]:
    calm = replace(SLOWER[1], pace_during=1.0)
    yield case({Part.DECODE: 3.0}, replicas=(SLOWER[0], calm))
    yield case({Part.STALL: 3.0}, replicas=(calm, replace(calm, name="http://r1")))
    yield case(waited, replicas=(replace(calm, failed=50), SLOWER[0]), failed_share=0.9)
    yield case(waited, replicas=(replace(calm, num_during=0), SLOWER[0]))
    yield case({Part.DECODE: 3.0})
    yield case({Part.DECODE: 3.0}, engines=(CALM,))


def _outside() -> Iterator[Case]:
    worse, as_before = PathSignal(3.0, 0.4, 0.1), PathSignal(1.0, 0.0, 0.0)
    for part in (Part.UPSTREAM, Part.CLIENT, Part.STALL, Part.UNKNOWN):
        yield case({part: 3.0}, by_replica={})
    for engine, client in ((worse, as_before), (as_before, worse)):
        yield case({Part.UNKNOWN: 3.0}, by_replica={}, engine_path=engine, client_path=client)


def _within_engines(waited: dict[Part, float]) -> Iterator[Case]:
    computing = {Part.DECODE: 3.0}
    shape = replace(QUIET, entropy=-1.2)
    for engine in (
        replace(CALM, balancedness=(0.9, 0.4)),
        replace(CALM, balancedness=(0.9, 0.9), memory_active=(0.9, 0.4), nvlink_rate=(1e9, 3e9)),
        replace(CALM, acceptance=(0.8, 0.3)),
    ):
        yield case(computing, QUIET, engines=(engine,))
    yield case(computing, shape, engines=(replace(CALM, acceptance=(0.8, 0.3)),))
    yield case(computing, replace(shape, entropy=1.2))
    queued = {Part.ENGINE_QUEUE: 3.0}
    loading = replace(CALM, load_speed=(1e9, 2e8), loading=(1.0, 4.0), pcie_rate=(1e9, 3e9))
    yield case(queued, engines=(loading,))
    for engine in (
        replace(CALM, adapter_loads=(0.1, 2.0)),
        replace(CALM, adapter_loads=(None, 2.0)),
        replace(CALM, adapters_waiting=(0.1, 2.0)),
    ):
        yield case(queued, engines=(engine,), adapter_share=0.9, attributed=0.1)
    yield case(queued, engines=(replace(CALM, num_starts=2, num_failed_loads=1),))
    yield case(waited, engines=(replace(CALM, name="http://r2", down=0.7), CALM))
    yield case(computing, engines=(replace(CALM, num_starts=1),))
    yield case(waited, engines=(replace(CALM, preemptions=(0.01, 2.0)),))


def every_cause() -> list[Cause]:
    """All that those cases name."""
    return [cause for each in cases() for cause in causes(each)]

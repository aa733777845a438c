"""Which form of engine a profile needs: plain where it can be, stepping or gated or in parts where it must."""

from math import inf

from msgspec.structs import replace

from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.disaggregated import DisaggregatedReplica
from plimsoll.sim.engine import Engine
from plimsoll.sim.gaptally import GapTally
from plimsoll.sim.gate import GatedReplica
from plimsoll.sim.replica import Replica
from plimsoll.sim.stepping import SteppingReplica


def engine_for(
    profile: EngineProfile,
    name: str,
    start_at: float = -inf,
    thresholds: list[float] | None = None,
    sketches: bool = True,
    *,
    takes_over: bool = False,
) -> Engine:
    """An engine of that profile, started at `start_at` (long ago: warm); it `takes_over` caches from others of its own.

    Where `thresholds` of token gaps are given, gaps are counted (`gaptally.py`) and `runs` may not be asked for;
    without `sketches` against those thresholds only, where that is less work.
    """
    parts = profile.disaggregation
    if parts is None:
        return _single(profile, name, start_at, thresholds, sketches, takes_over=takes_over)
    decoding = replace(profile, frontend=0.0)  # a request comes in once
    return DisaggregatedReplica(
        profile,
        parts,
        name,
        [_single(profile, name, start_at, thresholds, sketches) for _ in range(parts.prefill_replicas)],
        [_single(decoding, name, start_at, thresholds, sketches) for _ in range(parts.decode_replicas)],
    )


def _single(
    profile: EngineProfile,
    name: str,
    start_at: float,
    thresholds: list[float] | None,
    sketches: bool,
    *,
    takes_over: bool = False,
) -> Engine:
    engine: Engine
    if profile.speculation is not None or profile.rounds is not None or profile.data_parallel is not None:
        engine = SteppingReplica(profile, name, thresholds)
    else:
        engine = Replica(profile, name, None if thresholds is None else GapTally(thresholds, sketches))
    delays = profile.cold_start is not None or profile.lora is not None or profile.kv_tiers is not None
    gated = delays or takes_over or profile.frontend > 0.0
    return GatedReplica(profile, engine, start_at) if gated else engine

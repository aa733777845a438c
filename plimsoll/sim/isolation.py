"""What a noisy neighbour does to others: pairs of runs with and without it, the same dice for everybody else."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.policy.policy import Policy
from plimsoll.sim.estimate import Estimate, estimate
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload


class Isolation(Struct, frozen=True):
    """P99 TTFT of a tier with the neighbour ÷ without it, while the neighbour is there; s where not a ratio."""

    tier: str
    ratio: Estimate
    alone: Estimate
    beside: Estimate
    num: tuple[int, ...]  # requests judged, by seed


def isolation(
    policy: Policy,
    profiles: Mapping[str, EngineProfile],
    workload: Workload,
    *,
    neighbour: str,
    tier: str,
    seeds: Sequence[int],
) -> Isolation:
    """One pair of runs a seed. Requests that never got a token count as longer than all others."""
    (noisy,) = [tenant for tenant in workload.tenants if tenant.name == neighbour]
    window = EPOCH + noisy.starts, EPOCH + min(noisy.ends, workload.duration)
    alone, beside, counts = [], [], []
    for seed in seeds:
        quiet = _times(policy, profiles, workload.without(neighbour), seed, tier, window)
        loud = _times(policy, profiles, workload, seed, tier, window)
        alone.append(_p99(quiet))
        beside.append(_p99(loud))
        counts.append(len(quiet))
    ratios = [with_it / without for with_it, without in zip(beside, alone, strict=True)]
    return Isolation(tier, estimate(ratios), estimate(alone), estimate(beside), tuple(counts))


def _times(  # noqa: PLR0917 - one run and what to look at
    policy: Policy,
    profiles: Mapping[str, EngineProfile],
    workload: Workload,
    seed: int,
    tier: str,
    window: tuple[float, float],
) -> list[float]:
    settled: list[Settle] = []
    Simulation(policy, profiles, workload.arrivals(seed), settled.append).run()
    records = [s.record for s in settled if s.record.tier == tier and window[0] <= s.record.arrived_at < window[1]]
    return [float("inf") if record.ttft is None else record.ttft for record in records]


def _p99(times: list[float]) -> float:
    """The smallest value that at least 99 % do not exceed."""
    ordered = sorted(times)
    return ordered[-(-99 * len(ordered) // 100) - 1]

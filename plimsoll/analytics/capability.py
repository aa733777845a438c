"""What replicas and models have shown that they can do: steady speed, few stalls, a place between quality and latency.

From what was streamed by hour, replica and load. Load is how many requests the replica said it ran when a request was
sent there, by octave: only hours of like load are compared. Unknown is None.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.analytics.firstchoice import serves, small_for
from plimsoll.policy.policy import Policy
from plimsoll.slo.front import Candidate, beaten_by
from plimsoll.slo.steadiness import bound, is_unsteady, variation_bound

DAYS: Final = 7
FEW_STREAMS: Final = 10  # in an hour at one load, from which its speed counts
FEW_HOURS: Final = 3  # at one load, from which they have a variation
FEW_GAPS: Final = 1000  # between tokens, from which the share of stalls is told
FEW_FOR_P99: Final = 300  # streams, from which a P99 of their times is told


class Hour(Struct, frozen=True, array_like=True):
    """What one replica streamed in one hour at one load."""

    from_at: float  # UTC epoch s
    pool: str
    model: str
    replica: str
    load: int  # octave of the requests that ran there; -1: it did not say
    num: int  # streams of two tokens and more
    tokens: int  # of these, after each one's first
    time: float  # s from first to last token, all of them together
    gaps: int  # between tokens that were seen
    stalls: int  # … longer than `steadiness.STALL`
    paces: dict[int, int] = {}  # streams by time a token, in `slo/timing.bucket_of`
    firsts: dict[int, int] = {}  # … and by time from dispatch to first token


class ReplicaCapability(Struct, frozen=True):
    """One replica over the week."""

    replica: str
    pool: str
    num: int  # streams
    hours: int  # in which there were any
    speed: float | None  # tokens a second of one stream, in the mean
    variation: float | None  # of the speed between hours of like load: standard deviation ÷ mean
    stall_ratio: float | None  # share of gaps above half a second
    unsteady: bool  # it stalls or varies much more than its pool's others: tiers that prefer capable ones avoid it


class ModelCapability(Struct, frozen=True):
    """One pool's model between quality and latency."""

    pool: str
    model: str
    quality: float | None  # as the policy says
    latency: float | None  # s a token, in the mean of all streams
    stall_ratio: float | None
    beaten_by: tuple[str, ...] | None  # pools that are as good and as fast, and better in one; None: not known
    ttft_p99: float | None = None  # s from dispatch to first token
    tpot_p99: float | None = None  # s a token, of one stream
    serves: tuple[
        str, ...
    ] = ()  # tiers of whose requests it is the first choice, of several pools, as budgets are usual
    small_for: tuple[str, ...] = ()  # pools whose degraded requests go here first


class Capabilities(Struct, frozen=True):
    """What a log says of all of them."""

    source: str
    since: float
    until: float
    replicas: tuple[ReplicaCapability, ...]
    models: tuple[ModelCapability, ...]


def capabilities(hours: Iterable[Hour], policy: Policy, source: str, since: float, until: float) -> Capabilities:
    """Of all replicas that streamed, and of all pools that the policy names; pools in its order."""
    by_replica: dict[tuple[str, str], list[Hour]] = defaultdict(list)
    by_pool: dict[str, list[Hour]] = defaultdict(list)
    for hour in hours:
        by_replica[hour.pool, hour.replica].append(hour)
        by_pool[hour.pool].append(hour)
    stalls, varies = _bounds(by_replica, _stalls, bound), _bounds(by_replica, _variation, variation_bound)
    replicas = tuple(
        [_replica(key, found, stalls.get(key[0]), varies.get(key[0])) for key, found in sorted(by_replica.items())]
    )
    return Capabilities(source, since, until, replicas, _models(by_pool, policy))


def _bounds(
    by_replica: Mapping[tuple[str, str], Sequence[Hour]],
    of: Callable[[Sequence[Hour]], float | None],
    bound_of: Callable[[Sequence[float]], float | None],
) -> dict[str, float | None]:
    """By pool, beyond which of these figures a replica is unsteady."""
    known: dict[str, list[float]] = defaultdict(list)
    for (pool, _), hours in by_replica.items():
        figure = of(hours)
        if figure is not None:
            known[pool].append(figure)
    return {pool: bound_of(figures) for pool, figures in known.items()}


def _replica(
    key: tuple[str, str], hours: Sequence[Hour], stalls: float | None, varies: float | None
) -> ReplicaCapability:
    ratio, variation = _stalls(hours), _variation(hours)
    latency = _latency(hours)
    return ReplicaCapability(
        replica=key[1],
        pool=key[0],
        num=sum([hour.num for hour in hours]),
        hours=len({hour.from_at for hour in hours}),
        speed=None if latency is None else 1.0 / latency,
        variation=variation,
        stall_ratio=ratio,
        unsteady=is_unsteady(ratio, stalls) or is_unsteady(variation, varies),
    )


def _variation(hours: Sequence[Hour]) -> float | None:
    """Pooled over loads: each load's squared coefficient of variation by its degrees of freedom."""
    by_load: dict[int, list[float]] = defaultdict(list)
    for hour in hours:
        if hour.load >= 0 and hour.num >= FEW_STREAMS and hour.time > 0.0:
            by_load[hour.load].append(hour.tokens / hour.time)
    squares, free = 0.0, 0
    for speeds in by_load.values():
        if len(speeds) >= FEW_HOURS:
            squares += (len(speeds) - 1) * (stdev(speeds) / fmean(speeds)) ** 2
            free += len(speeds) - 1
    return sqrt(squares / free) if free else None


def _latency(hours: Sequence[Hour]) -> float | None:
    tokens, time = sum([hour.tokens for hour in hours]), sum([hour.time for hour in hours])
    return time / tokens if tokens and time > 0.0 else None


def _stalls(hours: Sequence[Hour]) -> float | None:
    gaps = sum([hour.gaps for hour in hours])
    return sum([hour.stalls for hour in hours]) / gaps if gaps >= FEW_GAPS else None


def _p99(hours: Sequence[Hour], of: Callable[[Hour], dict[int, int]]) -> float | None:
    """By nearest rank, the middle of its bucket (within 1.1 %)."""
    counts: dict[int, int] = defaultdict(int)
    for hour in hours:
        for bucket, num in of(hour).items():
            counts[bucket] += num
    num = sum(counts.values())
    left = ceil(0.99 * num)
    for bucket in sorted(counts) if num >= FEW_FOR_P99 else ():
        left -= counts[bucket]
        if left <= 0:
            return float(2.0 ** ((bucket - 0.5) / 32.0))
    return None


def _models(by_pool: Mapping[str, Sequence[Hour]], policy: Policy) -> tuple[ModelCapability, ...]:
    times = {pool.name: _latency(by_pool.get(pool.name, ())) for pool in policy.pools}
    rated = [Candidate(pool.name, pool.quality, times[pool.name]) for pool in policy.pools if pool.quality is not None]
    on = {one.name: one for one in rated}
    found = []
    for pool in policy.pools:
        hours = by_pool.get(pool.name, ())
        found.append(
            ModelCapability(
                pool.name, pool.model, pool.quality, times[pool.name], _stalls(hours),
                beaten_by(on[pool.name], rated) if pool.name in on else None,
                _p99(hours, lambda hour: hour.firsts), _p99(hours, lambda hour: hour.paces),
            )
        )  # fmt: skip
    shown = {one.pool: (one.ttft_p99, one.tpot_p99) for one in found}
    first, small = serves(policy, shown), small_for(policy, times)
    return tuple([replace(one, serves=first.get(one.pool, ()), small_for=small.get(one.pool, ())) for one in found])

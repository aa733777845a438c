"""Traffic to simulate: synthetic tenants drawn from profiles, or somebody's trace, as one stream of arrivals in order.

Arrival instants come by change of time: gaps of unit mean are summed and mapped through the inverse of the tenant's
cumulated rate, so that a change of rate moves later arrivals and redraws none.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice, repeat, starmap
from math import inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.outage import Outage, Upgrade
from plimsoll.sim.randomness import stream
from plimsoll.sim.tenantprofile import Bursts, TenantProfile, tokens_of
from plimsoll.sim.tracetraffic import TraceTraffic

BLOCK: Final = 1024  # requests drawn at once
HASH_TOKENS: Final = 512
_VARIANTS: Final = 1 << 33  # names of shared beginnings lie above those of sessions


class Workload:
    """Tenants, traces and a duration in s. `arrivals(seed)` is the same for the same seed, whoever else takes part."""

    def __init__(  # noqa: PLR0917 - what a workload is made of
        self,
        tenants: tuple[TenantProfile, ...],
        duration: float,
        model: str = "",
        traces: tuple[TraceTraffic, ...] = (),
        start_at: float | None = None,
        outages: tuple[Outage | Upgrade, ...] = (),
    ) -> None:
        self.tenants = tenants
        self.duration = duration
        self.model = model
        self.traces = traces
        self.outages = outages
        self.start_at = start_at
        """UTC epoch s at which simulated time starts; None: the simulation's own."""

    @property
    def names(self) -> tuple[str, ...]:
        """Whose requests it holds, each once, in the order of the file."""
        senders = [name for trace in self.traces for name in trace.names]
        return tuple(dict.fromkeys([*(tenant.name for tenant in self.tenants), *senders]))

    def without(self, name: str) -> "Workload":
        """The same traffic without one tenant; nobody else's requests change."""
        rest = tuple(tenant for tenant in self.tenants if tenant.name != name)
        return self._with(rest, tuple(trace.without(name) for trace in self.traces))

    def scaled(self, factor: float, names: Collection[str] | None = None) -> "Workload":
        """The same traffic at `factor` times its rate, of those tenants only where `names` is given; the same dice."""
        tenants = tuple(
            tenant.scaled(factor) if names is None or tenant.name in names else tenant for tenant in self.tenants
        )
        return self._with(tenants, tuple(trace.scaled(factor, names) for trace in self.traces))

    def lasting(self, duration: float, model: str) -> "Workload":
        """The same for so long (0: as it is), with a model for whoever names none."""
        return self._with(self.tenants, self.traces, duration or self.duration, self.model or model)

    def with_outages(self, outages: tuple[Outage | Upgrade, ...]) -> "Workload":
        """The same with these instead of its own."""
        return Workload(self.tenants, self.duration, self.model, self.traces, self.start_at, outages)

    def _with(
        self,
        tenants: tuple[TenantProfile, ...],
        traces: tuple[TraceTraffic, ...],
        duration: float = 0.0,
        model: str = "",
    ) -> "Workload":
        return Workload(tenants, duration or self.duration, model or self.model, traces, self.start_at, self.outages)

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """All requests, in order of time; ties go by the order of tenants, traces last."""
        streams = [_Tenant(tenant, self, seed).arrivals() for tenant in self.tenants]
        streams += [trace.arrivals(seed, self.duration, self.model, n) for n, trace in enumerate(self.traces)]
        return _merged(streams)


def _merged(streams: list[Iterator[Arrival]]) -> Iterator[Arrival]:
    """All of them in order of time, ties by the order of streams; `heapq.merge` with a key costs twice as much."""
    if len(streams) == 1:
        return streams[0]
    return _taken_in_turn(streams)


def _taken_in_turn(streams: list[Iterator[Arrival]]) -> Iterator[Arrival]:
    heads = [(first.at, number, first, each) for number, each in enumerate(streams) for first in islice(each, 1)]
    heapify(heads)
    while heads:
        _, number, arrival, each = heads[0]
        yield arrival
        following = next(each, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following.at, number, following, each))


class _Tenant:
    """Draws one tenant's requests, block by block."""

    def __init__(self, profile: TenantProfile, workload: Workload, seed: int) -> None:
        self._profile = profile
        self._seed = seed
        self._duration = workload.duration
        self._model = profile.model or workload.model
        digest = stream(seed, "prefix", profile.key).integers(1 << 19)
        self._base = int(digest) << 44  # of its prefix hashes: nobody else's
        self._beginnings: dict[int, tuple[int, ...]] = {}

    def arrivals(self) -> Iterator[Arrival]:
        """In order of time; a session's later turns are merged in where they fall."""
        alone = self._profile.turns == 1 and self._profile.turns_spread is None
        return chain.from_iterable(self._singles()) if alone else self._sessions()

    def _starts(self, rate_factor: float) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Instants of arrival, a block at a time, with the block's number."""
        edges, rates = self._rates()
        grown = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates * rate_factor)])
        number, total = 0, 0.0
        while True:
            sums = total + np.cumsum(self._gaps(number))
            total = float(sums[-1])
            yield number, _inverse(sums[sums < grown[-1]], grown, edges)
            if total >= grown[-1]:
                return
            number += 1

    def _rates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Instants at which the rate changes, from 0 to the end, and the rate from each to the next."""
        edges = np.array([0.0, *self._profile.edges(self._duration)])
        rates = np.array([self._profile.rate_at(start) for start in edges[:-1].tolist()])
        if self._profile.bursts is None:
            return edges, rates
        turns, is_on = self._turns(self._profile.bursts)
        whole = np.union1d(edges, turns[turns < self._duration])
        starts = whole[:-1]
        high, low = self._profile.bursts.factors
        on = is_on[np.searchsorted(turns, starts, side="right") - 1]
        return whole, rates[np.searchsorted(edges, starts, side="right") - 1] * np.where(on, high, low)

    def _turns(self, bursts: Bursts) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The instants at which it turns on or off, from 0 on beyond the end, and which of the two."""
        draws = stream(self._seed, "bursts", self._profile.key)
        on = bool(draws.random() < bursts.on / (bursts.on + bursts.off))
        instants, states, at = [0.0], [on], 0.0
        while at < self._duration:
            at += float(draws.exponential(bursts.on if on else bursts.off))
            on = not on
            instants.append(at)
            states.append(on)
        return np.array(instants), np.array(states)

    def _gaps(self, block: int) -> NDArray[np.float64]:
        """Gaps of unit mean between arrivals."""
        burstiness = self._profile.burstiness
        if burstiness == 0.0:
            return np.ones(BLOCK)
        draws = stream(self._seed, "arrivals", self._profile.key, block)
        return draws.gamma(1.0 / burstiness, burstiness, BLOCK)

    def _singles(self) -> Iterator[Iterator[Arrival]]:
        """Requests that are no sessions, a block at a time; made without a line of Python each, and when they are due:
        what is made early has left the processor's caches by then."""
        profile = self._profile
        before = [repeat(each) for each in (profile.name, self._model)]
        after = [repeat(each) for each in (profile.tier, profile.cause, "", profile.criticality, profile.streaming)]
        for block, starts in self._starts(1.0):
            first, second = self._normals("prompt", block), self._normals("output", block)
            prompts = (tokens_of(profile.prompt, first) + profile.shared_tokens).tolist()
            outputs, caps = self._capped(tokens_of(profile.output, _joint(first, second, profile.correlation)).tolist())
            columns = [
                starts.tolist(), *before, prompts, outputs, caps, self._beginnings_of(block), repeat(HASH_TOKENS),
                *after, repeat(profile.patience), self._upstream(block), repeat(profile.entropy),
            ]  # fmt: skip
            yield starmap(Arrival, zip(*columns, strict=False))

    def _capped(self, outputs: list[int]) -> tuple[list[int], list[int]]:
        """How long outputs become, and what their clients ask for at most."""
        cap = self._profile.max_output
        if cap < 0:
            return outputs, outputs
        return [min(output, cap) for output in outputs] if cap else outputs, [cap] * len(outputs)

    def _beginnings_of(self, block: int) -> Iterable[tuple[int, ...]]:
        """The hashes of what each request of a block shares with others."""
        profile = self._profile
        if profile.variants == 1:
            return repeat(self._shared_hashes(0))
        drawn = stream(self._seed, "variant", profile.key, block).integers(profile.variants, size=BLOCK)
        return [self._shared_hashes(variant) for variant in drawn.tolist()]

    def _sessions(self) -> Iterator[Arrival]:
        """Sessions begin as the rate says; their turns wait in a list until no earlier arrival can come."""
        waiting: list[Arrival] = []
        for block, starts in self._starts(1.0 / self._profile.mean_turns):
            for index, at in enumerate(starts.tolist()):
                waiting += self._session(block * BLOCK + index, at)
            settled = float(starts[-1]) if len(starts) == BLOCK else inf
            waiting.sort(key=lambda arrival: arrival.at)
            num = bisect_right(waiting, settled, key=lambda arrival: arrival.at)
            yield from waiting[:num]
            del waiting[:num]
        yield from waiting

    def _session(self, number: int, at: float) -> Iterator[Arrival]:
        profile = self._profile
        draws = stream(self._seed, "session", profile.key, number)
        variant = int(draws.integers(profile.variants))
        turns = self._turns_of(number)
        if profile.think_spread is None:
            gaps = draws.exponential(profile.think, turns)
        else:
            gaps = tokens_of(profile.think_spread, draws.standard_normal(turns)) / 1000.0
        first, second = draws.standard_normal(turns), draws.standard_normal(turns)
        prompts = tokens_of(profile.prompt, first).tolist()
        if profile.followup is not None:
            prompts[1:] = tokens_of(profile.followup, first[1:]).tolist()
        outputs, caps = self._capped(tokens_of(profile.output, _joint(first, second, profile.correlation)).tolist())
        upstream = self._upstream_of(number)
        history, session = profile.shared_tokens, f"{profile.key}-{number}"
        for turn in range(turns):
            prompt = history + prompts[turn]
            if at < self._duration and prompt <= profile.prompt.most + profile.shared_tokens:
                yield Arrival(
                    at, profile.name, self._model, prompt, outputs[turn], caps[turn],
                    self._hashes(variant, number, prompt), HASH_TOKENS, profile.tier, profile.cause, session,
                    profile.criticality, profile.streaming, profile.patience, upstream, profile.entropy,
                )  # fmt: skip
            history = prompt + outputs[turn]
            at += float(gaps[turn])

    def _turns_of(self, session: int) -> int:
        """How many turns a session has."""
        spread = self._profile.turns_spread
        if spread is None:
            return self._profile.turns
        return int(tokens_of(spread, stream(self._seed, "turns", self._profile.key, session).standard_normal(1))[0])

    def _shared_hashes(self, variant: int) -> tuple[int, ...]:
        """Names for the whole stretches of the beginning that all of a variant share."""
        known = self._beginnings.get(variant)
        if known is None:
            known = self._hashes(variant, 0, self._profile.shared_tokens)
            if len(self._beginnings) < BLOCK:
                self._beginnings[variant] = known
        return known

    def _hashes(self, variant: int, number: int, tokens: int) -> tuple[int, ...]:
        """Names for the whole stretches of a prompt's first `tokens` tokens: its variant's, then its session's own."""
        num_shared = self._profile.shared_tokens // HASH_TOKENS
        shared, own = self._base + (_VARIANTS + variant << 10), self._base + (number << 10)
        return tuple(shared + i if i < num_shared else own + i for i in range(tokens // HASH_TOKENS))

    def _normals(self, purpose: str, block: int) -> NDArray[np.float64]:
        return stream(self._seed, purpose, self._profile.key, block).standard_normal(BLOCK)

    def _upstream(self, block: int) -> Iterable[float | None]:
        lengths = self._profile.upstream
        if lengths is None:
            return repeat(None)
        return [ms / 1000.0 for ms in tokens_of(lengths, self._normals("upstream", block)).tolist()]

    def _upstream_of(self, session: int) -> float | None:
        """What was spent before a session's requests came here: retrieval and tools of one agent take alike long."""
        lengths = self._profile.upstream
        if lengths is None:
            return None
        normal = stream(self._seed, "upstream of a session", self._profile.key, session).standard_normal(1)
        return int(tokens_of(lengths, normal)[0]) / 1000.0


def _joint(first: NDArray[np.float64], second: NDArray[np.float64], correlation: float) -> NDArray[np.float64]:
    """`second` made to correlate with `first`, both standard normal."""
    return second if correlation == 0.0 else correlation * first + sqrt(1.0 - correlation**2) * second


def _inverse(sums: NDArray[np.float64], grown: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The instants at which the cumulated rate reaches `sums`; where the rate is 0 nothing falls."""
    segment = np.searchsorted(grown, sums, side="right") - 1
    span = grown[segment + 1] - grown[segment]
    part = (sums - grown[segment]) / np.where(span > 0, span, 1.0)
    return np.asarray(edges[segment] + part * (edges[segment + 1] - edges[segment]), dtype=np.float64)

"""Traffic to simulate: synthetic tenants drawn from profiles, or somebody's trace, as one stream of arrivals in order.

Arrival instants come by change of time: gaps of unit mean are summed and mapped through the inverse of the tenant's
cumulated rate, so that a change of rate moves later arrivals and redraws none.
"""

from collections.abc import Iterator
from heapq import merge
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.randomness import stream
from plimsoll.sim.tenantprofile import Lengths, TenantProfile

BLOCK: Final = 1024  # requests drawn at once
HASH_TOKENS: Final = 512
_VARIANTS: Final = 1 << 33  # names of shared beginnings lie above those of sessions


class Workload:
    """Tenants and a duration in s. `arrivals(seed)` is the same for the same seed, whoever else takes part."""

    def __init__(self, tenants: tuple[TenantProfile, ...], duration: float, model: str = "") -> None:
        self.tenants = tenants
        self.duration = duration
        self.model = model

    def without(self, name: str) -> "Workload":
        """The same traffic without one tenant; nobody else's requests change."""
        rest = tuple(tenant for tenant in self.tenants if tenant.name != name)
        return Workload(rest, self.duration, self.model)

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """All requests, in order of time; ties go by the order of tenants."""
        streams = [_Tenant(tenant, self, seed).arrivals() for tenant in self.tenants]
        return merge(*streams, key=lambda arrival: arrival.at)


class _Tenant:
    """Draws one tenant's requests, block by block."""

    def __init__(self, profile: TenantProfile, workload: Workload, seed: int) -> None:
        self._profile = profile
        self._seed = seed
        self._duration = workload.duration
        self._model = profile.model or workload.model
        digest = stream(seed, "prefix", profile.name).integers(1 << 19)
        self._base = int(digest) << 44  # of its prefix hashes: nobody else's

    def arrivals(self) -> Iterator[Arrival]:
        """In order of time; a session's later turns are merged in where they fall."""
        if self._profile.turns == 1:
            yield from self._singles()
        else:
            yield from self._sessions()

    def _starts(self, rate_factor: float) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Instants of arrival, a block at a time, with the block's number."""
        edges = [0.0, *self._profile.edges(self._duration)]
        rates = [self._profile.rate_at(start) * rate_factor for start in edges[:-1]]
        grown = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates)])
        number, total = 0, 0.0
        while True:
            sums = total + np.cumsum(self._gaps(number))
            total = float(sums[-1])
            yield number, _inverse(sums[sums < grown[-1]], grown, np.array(edges))
            if total >= grown[-1]:
                return
            number += 1

    def _gaps(self, block: int) -> NDArray[np.float64]:
        """Gaps of unit mean between arrivals."""
        burstiness = self._profile.burstiness
        if burstiness == 0.0:
            return np.ones(BLOCK)
        draws = stream(self._seed, "arrivals", self._profile.name, block)
        return draws.gamma(1.0 / burstiness, burstiness, BLOCK)

    def _singles(self) -> Iterator[Arrival]:
        profile = self._profile
        for block, starts in self._starts(1.0):
            prompts = self._lengths(profile.prompt, "prompt", block)
            outputs = self._lengths(profile.output, "output", block)
            variants = stream(self._seed, "variant", profile.name, block).integers(profile.variants, size=BLOCK)
            upstream = self._upstream(block)
            for index, at in enumerate(starts.tolist()):
                prompt = int(prompts[index]) + profile.shared_tokens
                hashes = self._hashes(int(variants[index]), block * BLOCK + index, profile.shared_tokens)
                yield self._arrival(at, prompt, int(outputs[index]), hashes, "", upstream[index])

    def _sessions(self) -> Iterator[Arrival]:
        """Sessions begin as the rate says; their turns wait in a list until no earlier arrival can come."""
        waiting: list[Arrival] = []
        for block, starts in self._starts(1.0 / self._profile.turns):
            for index, at in enumerate(starts.tolist()):
                waiting += self._session(block * BLOCK + index, at)
            settled = float(starts[-1]) if len(starts) == BLOCK else inf
            waiting.sort(key=lambda arrival: arrival.at)
            while waiting and waiting[0].at <= settled:
                yield waiting.pop(0)
        yield from waiting

    def _session(self, number: int, at: float) -> Iterator[Arrival]:
        profile = self._profile
        draws = stream(self._seed, "session", profile.name, number)
        variant = int(draws.integers(profile.variants))
        gaps = draws.exponential(profile.think, profile.turns)
        prompts, outputs = (_draw(lengths, draws, profile.turns) for lengths in (profile.prompt, profile.output))
        history = profile.shared_tokens
        for turn in range(profile.turns):
            prompt, output = history + int(prompts[turn]), int(outputs[turn])
            if at < self._duration and prompt <= profile.prompt.most + profile.shared_tokens:
                hashes = self._hashes(variant, number, prompt)
                yield self._arrival(at, prompt, output, hashes, f"{profile.name}-{number}", None)
            history = prompt + output
            at += float(gaps[turn])

    def _arrival(  # noqa: PLR0917 - the parts of one request
        self, at: float, prompt: int, output: int, hashes: tuple[int, ...], session: str, upstream: float | None
    ) -> Arrival:
        profile = self._profile
        return Arrival(
            at=at,
            tenant=profile.name,
            model=self._model,
            prompt_tokens=prompt,
            output_tokens=min(output, profile.max_output) if profile.max_output > 0 else output,
            max_output_tokens=output if profile.max_output < 0 else profile.max_output,
            hashes=hashes,
            hash_tokens=HASH_TOKENS,
            tier=profile.tier,
            cause=profile.cause,
            session=session,
            criticality=profile.criticality,
            streaming=profile.streaming,
            patience=profile.patience,
            upstream_time=upstream,
        )

    def _hashes(self, variant: int, number: int, tokens: int) -> tuple[int, ...]:
        """Names for the whole stretches of a prompt's first `tokens` tokens: its variant's, then its session's own."""
        num_shared = self._profile.shared_tokens // HASH_TOKENS
        shared, own = self._base + (_VARIANTS + variant << 10), self._base + (number << 10)
        return tuple(shared + i if i < num_shared else own + i for i in range(tokens // HASH_TOKENS))

    def _lengths(self, lengths: Lengths, purpose: str, block: int) -> NDArray[np.int64]:
        return _draw(lengths, stream(self._seed, purpose, self._profile.name, block), BLOCK)

    def _upstream(self, block: int) -> list[float | None]:
        lengths = self._profile.upstream
        if lengths is None:
            return [None] * BLOCK
        return [ms / 1000.0 for ms in self._lengths(lengths, "upstream", block).tolist()]


def _draw(lengths: Lengths, draws: np.random.Generator, num: int) -> NDArray[np.int64]:
    """`num` token counts, at least 1."""
    values = lengths.median * np.exp(lengths.sigma * draws.standard_normal(num))
    return np.clip(np.rint(values), 1, lengths.most).astype(np.int64)


def _inverse(sums: NDArray[np.float64], grown: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The instants at which the cumulated rate reaches `sums`; where the rate is 0 nothing falls."""
    segment = np.searchsorted(grown, sums, side="right") - 1
    span = grown[segment + 1] - grown[segment]
    part = (sums - grown[segment]) / np.where(span > 0, span, 1.0)
    return np.asarray(edges[segment] + part * (edges[segment + 1] - edges[segment]), dtype=np.float64)

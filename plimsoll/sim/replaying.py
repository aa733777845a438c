"""Runs of a real engine played on a modelled one: the same prompts and lengths, arriving as they did.

A run is open where requests came whatever the engine did; closed where each came when another had ended. A closed one
is played closed: what came right after an end comes as long after that end, however long the model takes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FINISHED, Job

CLOSE: Final = 0.01
"""s: who comes so soon after an end came because of it."""
CLOSED_FROM: Final = 0.8
"""A run is closed where at least so many of those that did not come at its start came because of an end."""


class Seen(Struct, frozen=True):
    """One request as its client saw it; times in s from the run's start, `gaps` between tokens or their mean `tpot`."""

    arrived_at: float
    prompt_tokens: int
    output_tokens: int
    ttft: float
    gaps: tuple[float, ...] = ()
    ended_at: float = 0.0
    tpot: float = 0.0  # where `gaps` are not known; 0: neither is, or there is one token


class EngineRun(Struct, frozen=True):
    """One run on one replica, in order of arrival."""

    name: str
    seen: tuple[Seen, ...]
    noisy: str = ""  # why it is better left out

    @property
    def has_gaps(self) -> bool:
        """Whether it tells single gaps between tokens: then these are compared, else each request's mean of them."""
        return any(seen.gaps for seen in self.seen)


class Modelled(Struct, frozen=True):
    """What the model says of one request, s; gaps where the run has them."""

    ttft: float
    gaps: tuple[float, ...]
    tpot: float  # 0: one token


def causes(run: EngineRun) -> list[int]:
    """For each request the one whose end it waited for, -1 for none; all -1 in an open run."""
    ends = sorted((seen.ended_at, place) for place, seen in enumerate(run.seen))
    instants = [end for end, _ in ends]
    found, used = [], set()
    for place, seen in enumerate(run.seen):
        at = bisect_right(instants, seen.arrived_at + 1e-6) - 1
        while at >= 0 and (ends[at][1] in used or ends[at][1] == place):
            at -= 1
        cause = ends[at][1] if at >= 0 and seen.arrived_at - instants[at] <= CLOSE else -1
        if cause >= 0:
            used.add(cause)
        found.append(cause)
    at_start = sum(seen.arrived_at <= run.seen[0].arrived_at + CLOSE for seen in run.seen)
    closed = sum(cause >= 0 for cause in found)
    return found if closed >= CLOSED_FROM * max(1, len(found) - at_start) else [-1] * len(found)


def replay(run: EngineRun, profile: EngineProfile, after: Sequence[int]) -> list[Modelled]:
    """Each request's times, in the order of the run; `after` is what `causes` said."""
    replica, has_gaps = engine_for(profile, ""), run.has_gaps or not any(seen.tpot for seen in run.seen)
    followers: dict[int, list[int]] = {}
    for place, cause in enumerate(after):
        if cause >= 0:
            followers.setdefault(cause, []).append(place)
    coming = [(seen.arrived_at, place) for place, seen in enumerate(run.seen) if after[place] < 0]
    heapify(coming)
    came: dict[int, float] = {}
    found: dict[int, Modelled] = {}
    while coming or replica.next_at() < inf:
        at = replica.next_at()
        if coming and coming[0][0] < at:
            at, place = heappop(coming)
            seen = run.seen[place]
            replica.advance(at)
            came[place] = at
            replica.submit(at, Job(place, seen.prompt_tokens, seen.output_tokens))
            continue
        for output in replica.advance(at):
            if output.kind != FINISHED:
                continue
            job = output.job
            found[job.id] = Modelled(
                job.first_token_at - came[job.id],
                _gaps(replica, job) if has_gaps else (),
                (job.last_token_at - job.first_token_at) / max(1, job.output_tokens - 1),
            )
            ended = run.seen[job.id].ended_at
            for place in followers.get(job.id, ()):
                heappush(coming, (job.last_token_at + run.seen[place].arrived_at - ended, place))
    return [found[place] for place in range(len(run.seen))]


def _gaps(replica: Engine, job: Job) -> tuple[float, ...]:
    return tuple([gap.first_gap + gap.increment * step for gap in replica.runs(job) for step in range(gap.num)])

"""One run of an agent, judged: the requests of a session from the first one's start to the last one's end.

Its time is told in accounts that add up: *llm*, when any of its requests was with us; by cause, what its requests
report to have spent upstream between them (`tool`, `rag` …), as far as there was a gap to spend it in; and the rest,
which is the agent's own.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct

from plimsoll.policy.objective import RunObjective
from plimsoll.slo.charge import charge
from plimsoll.slo.verdict import Charge, Judgement

NO_CAUSE = "unnamed"
"""Upstream time that no cause was given for."""


class Turn(Struct, frozen=True, array_like=True, gc=False):
    """What a run needs of one of its requests. Instants in UTC epoch s, times in s."""

    request_id: int
    session: str
    arrived_at: float
    finished_at: float  # inf: still under way
    upstream_time: float | None = None
    cause: str = ""
    client_stall: float = 0.0
    lost: bool = False  # it did not complete, through our doing
    spoilt: bool = False  # it did not complete, through the client's
    judged: bool = False  # some objective judged it
    kept: bool = False  # and none was broken

    @property
    def began_at(self) -> float:
        """Its arrival, less what it reports to have spent before."""
        return self.arrived_at - (self.upstream_time or 0.0)


class RunTimes(NamedTuple):
    """Where a run's time went, in s: `total` = `llm` + the sum of `upstream` + `own`."""

    started_at: float
    ended_at: float
    total: float
    llm: float
    upstream: dict[str, float]  # by cause
    own: float


class Weights(NamedTuple):
    """Turns by their weight: 2^(−age at the run's end ÷ half-life), 1 each without one."""

    kept: float  # of those that broke no objective
    judged: float


def parted(turns: Iterable[Turn], idle: float) -> list[list[Turn]]:
    """A session's requests by run: another one begins where none came for `idle` after the last one's end."""
    parts: list[list[Turn]] = []
    busy_until = -inf
    for turn in in_order(turns):
        if turn.arrived_at > busy_until + idle:
            parts.append([])
        parts[-1].append(turn)
        busy_until = max(busy_until, turn.finished_at)
    return parts


def in_order(turns: Iterable[Turn]) -> list[Turn]:
    """By arrival."""
    return sorted(turns, key=lambda turn: (turn.arrived_at, turn.request_id))


def times_of(turns: Sequence[Turn]) -> RunTimes:
    """Of one run's turns, by arrival."""
    started_at, ended_at = turns[0].began_at, max([turn.finished_at for turn in turns])
    llm, upstream, busy_until = 0.0, dict[str, float](), started_at
    for turn in turns:
        gap = max(0.0, turn.arrived_at - busy_until)
        if turn.upstream_time and gap:
            cause = turn.cause or NO_CAUSE
            upstream[cause] = upstream.get(cause, 0.0) + min(turn.upstream_time, gap)
        llm += max(0.0, turn.finished_at - max(turn.arrived_at, busy_until))
        busy_until = max(busy_until, turn.finished_at)
    total = ended_at - started_at
    return RunTimes(started_at, ended_at, total, llm, upstream, max(0.0, total - llm - sum(upstream.values())))


def judged(turns: Sequence[Turn], total: float, objective: RunObjective) -> Judgement:
    """Late is late, whoever left; a turn that we lost makes the run bad, one that the client spoilt excludes it."""
    if total > objective.below or any(turn.lost for turn in turns):
        return Judgement.BAD
    return Judgement.EXCLUDED if any(turn.spoilt for turn in turns) else Judgement.GOOD


def charged(turns: Sequence[Turn], times: RunTimes, objective: RunObjective) -> Charge:
    """Whose fault a bad run is: ours where we lost a turn, else by the table of `slo/charge` with what was with us
    against all the rest. A run has no usual time, since agents differ, so each side is weighed alone."""
    if any(turn.lost for turn in turns):
        return Charge.OURS
    if times.total - sum([turn.client_stall for turn in turns]) <= objective.below:
        return Charge.CLIENT
    return charge(objective.below, times.total - times.llm, times.llm, 0.0, 0.0)


def weights_of(turns: Sequence[Turn], ended_at: float, half_life: float | None) -> Weights:
    """The turns that anything judged."""
    kept = whole = 0.0
    for turn in turns:
        if turn.judged:
            weight = 1.0 if half_life is None else 2.0 ** ((turn.finished_at - ended_at) / half_life)
            whole += weight
            kept += weight * turn.kept
    return Weights(kept, whole)

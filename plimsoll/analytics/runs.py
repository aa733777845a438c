"""Runs of agents: the requests of one session, from the first one's start to the last one's end.

A run is over when nothing of its session was under way for longer than the policy's `idle`; only then is it judged. Its
time is told in accounts that add up: *llm*, when any of its requests was with us; by cause, what its requests report
to have spent upstream between them (`tool`, `rag` …), as far as there was a gap to spend it in; and the rest, which is
the agent's own.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from plimsoll.policy.objective import RunObjective
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.intervals import clopper_pearson
from plimsoll.slo.outcome import REASONS, Blame, Outcome
from plimsoll.slo.verdict import Judgement

NO_CAUSE: Final = "unnamed"
"""Upstream time that no cause was given for."""


class Run(Struct, frozen=True):
    """One run. Instants in UTC epoch s, times in s; `total` = `llm` + the sum of `upstream` + `own`."""

    tenant: str
    tier: str
    session: str
    started_at: float  # the first request's arrival, less its upstream time
    ended_at: float
    num_turns: int
    total: float
    llm: float
    upstream: dict[str, float]  # by cause
    own: float
    judgement: Judgement | None  # None: it may still go on
    kept_ratio: float | None  # turns that broke no objective, weighted by half-life where one is given


class RunFigures(Struct, frozen=True):
    """The runs of one tenant. Sums of time are over runs that are over."""

    tenant: str
    num: int
    num_open: int
    num_good: int
    num_bad: int
    num_excluded: int  # the client left, or its own request was wrong
    ratio: float | None  # good ÷ (good + bad); None: nothing to say
    low: float | None
    high: float | None
    target: float
    total: float
    llm: float
    upstream: dict[str, float]
    own: float


def runs(records: Iterable[Record], policy: Policy, now: float) -> list[Run]:
    """All runs of tenants whose tier has a run objective, by their start; requests without a session are none."""
    sessions: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.session:
            sessions.setdefault((record.tenant, record.session), []).append(record)
    promised = _promised(policy)
    found = []
    for (tenant, _), turns in sessions.items():
        objective = promised.get(tenant)
        if objective is not None:
            found += [_run(part, objective, now) for part in _parted(turns, objective.idle)]
    return sorted(found, key=lambda run: (run.started_at, run.tenant, run.session))


def figures(found: Iterable[Run], policy: Policy) -> list[RunFigures]:
    """By tenant, in the order of their names."""
    by_tenant: dict[str, list[Run]] = {}
    for run in found:
        by_tenant.setdefault(run.tenant, []).append(run)
    promised = _promised(policy)
    return [_figures(tenant, by_tenant[tenant], promised[tenant]) for tenant in sorted(by_tenant)]


def _promised(policy: Policy) -> dict[str, RunObjective]:
    """By tenant, where its tier promises anything of runs."""
    objectives = ((tenant.name, policy.tier(tenant.tier).run) for tenant in policy.tenants)
    return {name: objective for name, objective in objectives if objective is not None}


def _parted(turns: list[Record], idle: float) -> list[list[Record]]:
    """A session's requests, split where nothing was under way for longer than `idle`."""
    turns.sort(key=lambda turn: (turn.arrived_at, turn.request_id))
    parts: list[list[Record]] = []
    busy_until = float("-inf")
    for turn in turns:
        if _began(turn) > busy_until + idle:
            parts.append([])
        parts[-1].append(turn)
        busy_until = max(busy_until, turn.finished_at)
    return parts


def _began(turn: Record) -> float:
    return turn.arrived_at - (turn.upstream_time or 0.0)


def _run(turns: list[Record], objective: RunObjective, now: float) -> Run:
    started_at, ended_at = _began(turns[0]), max(turn.finished_at for turn in turns)
    llm, upstream, busy_until = 0.0, dict[str, float](), started_at
    for turn in turns:
        gap = max(0.0, turn.arrived_at - busy_until)
        if turn.upstream_time and gap:
            cause = turn.cause or NO_CAUSE
            upstream[cause] = upstream.get(cause, 0.0) + min(turn.upstream_time, gap)
        llm += max(0.0, turn.finished_at - max(turn.arrived_at, busy_until))
        busy_until = max(busy_until, turn.finished_at)
    total = ended_at - started_at
    return Run(
        tenant=turns[0].tenant,
        tier=turns[0].tier,
        session=turns[0].session,
        started_at=started_at,
        ended_at=ended_at,
        num_turns=len(turns),
        total=total,
        llm=llm,
        upstream=upstream,
        own=max(0.0, total - llm - sum(upstream.values())),
        judgement=None if now <= ended_at + objective.idle else _judged(turns, total, objective),
        kept_ratio=_kept(turns, ended_at, objective.half_life),
    )


def _judged(turns: list[Record], total: float, objective: RunObjective) -> Judgement:
    """Late is late, whoever left; a turn that we lost makes the run bad, one that the client spoilt excludes it."""
    blames = {REASONS[turn.reason].blame for turn in turns if turn.outcome is not Outcome.COMPLETED}
    if Blame.OURS in blames or total > objective.below:
        return Judgement.BAD
    return Judgement.EXCLUDED if blames else Judgement.GOOD


def _kept(turns: list[Record], ended_at: float, half_life: float | None) -> float | None:
    """The share of turns that broke no objective; the older a turn, the less it counts: 2^(−age ÷ half-life)."""
    kept = whole = 0.0
    for turn in turns:
        if any(verdict.num_good or verdict.num_bad for verdict in turn.verdicts):
            weight = 1.0 if half_life is None else 2.0 ** ((turn.finished_at - ended_at) / half_life)
            whole += weight
            kept += weight * all(not verdict.num_bad for verdict in turn.verdicts)
    return kept / whole if whole else None


def _figures(tenant: str, found: list[Run], objective: RunObjective) -> RunFigures:
    over = [run for run in found if run.judgement is not None]
    counts = {judgement: sum(run.judgement is judgement for run in over) for judgement in Judgement}
    good, bad = counts[Judgement.GOOD], counts[Judgement.BAD]
    low, high = clopper_pearson(good, good + bad) if good + bad else (None, None)
    upstream: dict[str, float] = {}
    for run in over:
        for cause, seconds in run.upstream.items():
            upstream[cause] = upstream.get(cause, 0.0) + seconds
    return RunFigures(
        tenant=tenant,
        num=len(found),
        num_open=len(found) - len(over),
        num_good=good,
        num_bad=bad,
        num_excluded=counts[Judgement.EXCLUDED],
        ratio=good / (good + bad) if good + bad else None,
        low=low,
        high=high,
        target=float(objective.target),
        total=sum(run.total for run in over),
        llm=sum(run.llm for run in over),
        upstream=dict(sorted(upstream.items())),
        own=sum(run.own for run in over),
    )

"""Runs of agents in a log, judged by `slo/runs`, and their figures by tenant."""

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.policy.objective import RunObjective
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.requestlog.turns import turn_of
from plimsoll.slo.intervals import clopper_pearson
from plimsoll.slo.runs import Turn, charged, judged, parted, times_of, weights_of
from plimsoll.slo.verdict import Charge, Judgement


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
    charge: Charge | None = None  # of a bad run


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
    sessions: dict[tuple[str, str], list[Turn]] = {}
    for record in records:
        if record.session:
            sessions.setdefault((record.tenant, record.session), []).append(turn_of(record))
    promised = _promised(policy)
    found = []
    for (tenant, _), turns in sessions.items():
        objective = promised.get(tenant)
        if objective is not None:
            tier = policy.tenant(tenant).tier
            found += [_run(tenant, tier, part, objective, now) for part in parted(turns, objective.idle)]
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


def _run(tenant: str, tier: str, turns: list[Turn], objective: RunObjective, now: float) -> Run:
    times = times_of(turns)
    kept, whole = weights_of(turns, times.ended_at, objective.half_life)
    judgement = None if now <= times.ended_at + objective.idle else judged(turns, times.total, objective)
    return Run(
        tenant=tenant,
        tier=tier,
        session=turns[0].session,
        started_at=times.started_at,
        ended_at=times.ended_at,
        num_turns=len(turns),
        total=times.total,
        llm=times.llm,
        upstream=times.upstream,
        own=times.own,
        judgement=judgement,
        kept_ratio=kept / whole if whole else None,
        charge=charged(turns, times, objective) if judgement is Judgement.BAD else None,
    )


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

"""`plimsoll headroom`: how much more can be taken until the first promise breaks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from plimsoll.cli import workloads
from plimsoll.cli.crew import Crew, Stopped, Tell
from plimsoll.cli.options import FirstSeed, Jobs, PolicyFile, Rules, RunTime
from plimsoll.cli.output import print_json
from plimsoll.cli.simprogress import sim_progress
from plimsoll.cli.simulating import Task, policy_at, workload_of
from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy
from plimsoll.sim.headroom import Search
from plimsoll.sim.headroom import headroom as answer_of
from plimsoll.sim.simulation import EPOCH
from plimsoll.sim.trial import Key, Spent, Trial, run_trial
from plimsoll.sim.workload import Workload

BEYOND = (1.2, 1.5)
"""Loads past the break, in its units, that show what breaks next."""


def headroom(
    *,
    config: PolicyFile,
    workload: Annotated[Path, Parameter(help="The mix of today, as `simulate` takes it.")],
    tier: Annotated[str, Parameter(help="Let only this tier's tenants grow.")] = "",
    tenant: Annotated[str, Parameter(help="Let only this tenant grow.")] = "",
    data: Annotated[Path | None, Parameter(help="A gateway's data directory: count what this month has spent.")] = None,
    rules: Rules = "",
    duration: RunTime = 0.0,
    seeds: Annotated[int, Parameter(help="Runs with other dice; the interval comes from them.")] = 5,
    first_seed: FirstSeed = 1,
    jobs: Jobs = 1,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print the answer as JSON.")] = False,
) -> None:
    """Tell how much more of a mix (or of one tier or tenant) can be taken until the first objective breaks, and where.

    Simulates the policy at rising load, the same dice at every load, and halves the way to the break, seed by seed. A
    promise breaks when more requests (or tokens) miss it than its target allows; with --data, when what is left of this
    month's budget could not carry the rest of the month.

    Example: plimsoll headroom -c policy.yaml --workload today.yaml --tier gold --jobs 2
    """
    if seeds < 1 or (tier and tenant):
        raise UsageError("headroom: --seeds must be at least 1; give --tier or --tenant, not both")
    policy = policy_at(config, rules)
    load = _workload(workload, duration, policy)
    names = _names(policy, load, tier, tenant)
    plan = _Plan(config, workload, rules, duration, names, {} if data is None else spent_of(data))
    with Crew(jobs) as crew:
        searches, more = _Search(plan, load, policy, crew).all(range(first_seed, first_seed + seeds))
    found = answer_of(searches, names or load.names, more, complete=not crew.stopping)
    if json_output:
        print_json(found)
        return
    from plimsoll.cli.headroomtable import show  # noqa: PLC0415 - tables, only where they are shown

    show(found, policy, what=f"Tier {tier}" if tier else tenant)


@dataclass(frozen=True)
class _Plan:
    """What all trials have in common, as text, so that another process makes the same of it."""

    policy_path: Path
    workload_path: Path
    rules: str
    duration: float
    names: tuple[str, ...] | None
    spent: Mapping[Key, Spent]


@dataclass(frozen=True)
class _Attempt:
    plan: _Plan
    seed: int
    factor: float


def _try(attempt: _Attempt, tell: Tell, stopped: Stopped) -> Trial:
    """One trial, here or in another process."""
    plan = attempt.plan
    policy = policy_at(plan.policy_path, plan.rules)
    load = _workload(plan.workload_path, plan.duration, policy)

    def looked(at: float, num: int) -> bool:
        tell(at, num)
        return stopped()

    return run_trial(
        policy, workloads.profiles_of(policy, load), load, attempt.factor, plan.names, attempt.seed, plan.spent, looked,
        step=max(1.0, load.duration / 200),
    )  # fmt: skip


class _Search:
    """Carries a plan out."""

    def __init__(self, plan: _Plan, load: Workload, policy: Policy, crew: Crew) -> None:
        self._plan = plan
        self._load = load
        self._zone = policy.service.timezone
        self._crew = crew

    def all(self, seeds: Sequence[int]) -> tuple[list[Search], list[Trial]]:
        """The first two seeds search from 1 on, the others start where those have found the break; trials beyond it."""
        scouts = [Search(seed) for seed in seeds[:2]]
        self._round(scouts)
        found = [log(search.factor) for search in scouts if search.factor is not None]
        start = exp(sum(found) / len(found)) if found else 1.0
        others = [Search(seed, start) for seed in seeds[len(scouts) :]]
        self._round(others)
        attempts = [_Attempt(self._plan, search.seed, start * beyond) for beyond in BEYOND for search in scouts]
        return scouts + others, self._trials(attempts) if found else []

    def _round(self, searches: Sequence[Search]) -> None:
        """Until all have ended: one trial of each that goes on, then the next."""
        while not self._crew.stopping:
            asked = [(search, search.next()) for search in searches]
            going = [(search, factor) for search, factor in asked if factor is not None]
            if not going:
                return
            by_seed = {search.seed: search for search, _ in going}
            for trial in self._trials([_Attempt(self._plan, search.seed, factor) for search, factor in going]):
                by_seed[trial.seed].tell(trial)

    def _trials(self, attempts: Sequence[_Attempt]) -> list[Trial]:
        """The trials that came to their end."""
        start_at = self._load.start_at or EPOCH
        factors = sorted({attempt.factor for attempt in attempts})
        about = f"{factors[0]:.2f}×" if len(factors) == 1 else f"{factors[0]:.2f}–{factors[-1]:.2f}×"
        found: dict[int, Trial] = {}
        with sim_progress(len(attempts), self._load.duration, start_at, self._zone, f"load {about}: ") as progress:
            for place, trial in self._crew.run(_try, attempts, progress.told):
                progress.done(place)
                if trial.complete:
                    found[place] = trial
        return [found[place] for place in sorted(found)]


def _workload(path: Path, duration: float, policy: Policy) -> Workload:
    return workload_of(Task(path, path, "", duration, 0, None), policy)[0]


def _names(policy: Policy, load: Workload, tier: str, tenant: str) -> tuple[str, ...] | None:
    """Whose load grows; None: everybody's."""
    if tenant:
        if tenant not in load.names:
            raise UsageError(f"headroom: no tenant {tenant!r} in the workload; it has {', '.join(load.names)}")
        return (tenant,)
    if not tier:
        return None
    if tier not in {each.name for each in policy.tiers}:
        raise UsageError(f"headroom: no tier {tier!r}; the policy has {', '.join(each.name for each in policy.tiers)}")
    members = {each.name for each in policy.tenants if each.tier == tier}
    names = tuple(name for name in load.names if name in members)
    if not names:
        raise UsageError(f"headroom: nobody of tier {tier!r} is in the workload; it has {', '.join(load.names)}")
    return names


def spent_of(data: Path) -> dict[Key, Spent]:
    """This month's judged and bad so far, by promise, from the log of a data directory; its last arrival is now."""
    from plimsoll.analytics.gathering import EVERYTHING, zone_of  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.cli.logwindow import data_directory  # noqa: PLC0415 - as above
    from plimsoll.slo.budget import period_bounds, period_of  # noqa: PLC0415 - as above
    from plimsoll.storage.aggregate import aggregate  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force, policy_versions  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    directory = data_directory(data)
    with connect(directory) as connection:
        policy = policy_in_force(directory)
        now = connection.execute("SELECT max(arrived_at) FROM requests").fetchall()[0][0]
        gathered = aggregate(connection, policy, EVERYTHING, policy_versions(directory))
    found: dict[Key, Spent] = {}
    for key, (num, bad) in gathered.budgets.items():
        zone = zone_of(policy, key.tenant)
        if key.period == period_of(now, zone):
            so_far = found.get(Key(key.tenant, key.tier, key.objective), Spent(0, 0, 0.0))
            left = period_bounds(key.period, zone)[1] - now
            found[Key(key.tenant, key.tier, key.objective)] = Spent(so_far.num_judged + num, so_far.num_bad + bad, left)
    return found

"""One run at one load: what was kept of each promise, and, where asked, how it broke."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Final

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.policy.objective import Objective
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload
from plimsoll.slo.intervals import surely_above
from plimsoll.slo.outcome import Outcome

FEW: Final = 5.0
"""Below so many allowed bad events, one more or less decides: then only a surely exceeded target counts as broken."""
NUM_SPANS: Final = 20
"""Equal spans of the run, of which the worst is told."""


class Spent(Struct, frozen=True):
    """What a tenant's objective has used of this month so far, and how much of the month is left."""

    num_judged: int
    num_bad: int
    seconds_left: float


class Key(Struct, frozen=True, order=True):
    """One promise to one tenant."""

    tenant: str
    tier: str
    objective: str


class Kept(Struct, frozen=True):
    """One promise over one run. `allowed_ratio` is 1 − target, or what the rest of the month's budget leaves of it."""

    key: Key
    num_judged: int
    num_bad: int
    allowed_ratio: float

    @property
    def burn(self) -> float | None:
        """Bad ratio ÷ allowed ratio: above 1 it breaks; None where nothing was judged."""
        if not self.num_judged:
            return None
        ratio = self.num_bad / self.num_judged
        return ratio / self.allowed_ratio if self.allowed_ratio > 0.0 else (inf if ratio else 0.0)

    @property
    def broken(self) -> bool:
        """Whether more went wrong than was allowed; where few are allowed, whether that is sure."""
        if self.num_bad <= self.num_judged * self.allowed_ratio:
            return False
        if self.num_judged * self.allowed_ratio >= FEW:
            return True
        return surely_above(self.num_bad, self.num_judged, max(self.allowed_ratio, 0.0))


class Breach(Struct, frozen=True):
    """How one promise broke: counts of its bad requests by where and why, and the worst span of the run."""

    key: Key
    num_bad: int  # requests
    pools: dict[str, int]
    endings: dict[str, int]  # by outcome and reason, where they did not complete
    queued_ratio: float | None  # of the time to first token of those that got one, the part spent in our queue
    worst_at: float  # UTC epoch s at which the worst span begins
    worst_span: float  # s
    worst_num: int  # of its bad requests, those that arrived in it
    kv_usage: float | None  # mean of what their replicas said when they were dispatched, 0 to 1
    running: float | None  # mean sequences running there


class Trial(Struct, frozen=True):
    """One seed at one factor."""

    factor: float
    seed: int
    num: int  # requests that ended
    num_chosen: int  # of these, those of the tenants whose load is `factor` times theirs
    duration: float  # s of arrivals
    kept: tuple[Kept, ...]
    breaches: tuple[Breach, ...] = ()
    complete: bool = True

    @property
    def broken(self) -> tuple[Kept, ...]:
        """The promises that broke, the worst first."""
        return tuple(
            sorted((kept for kept in self.kept if kept.broken), key=lambda kept: (-(kept.burn or 0), kept.key))
        )


def run_trial(  # noqa: PLR0917 - what a trial is made of
    policy: Policy,
    profiles: Mapping[str, EngineProfile],
    workload: Workload,
    factor: float,
    names: Collection[str] | None,
    seed: int,
    spent: Mapping[Key, Spent],
    looked: Callable[[float, int], bool] | None = None,
    step: float = 10.0,
) -> Trial:
    """Simulate `names` (None: all) at `factor` times their rate.

    `looked` is told every `step` simulated s how far it is, and may end the run by answering True.
    """
    start_at = workload.start_at or EPOCH
    counts = _Counts(names, start_at, workload.duration)
    arrivals = workload.scaled(factor, names).arrivals(seed)
    simulation = Simulation(policy, profiles, arrivals, counts.add, start_at, outages=workload.outages, sketches=False)
    until, complete = start_at, True
    while not simulation.ended:
        until += step
        simulation.run(until)
        if looked is not None and looked(min(until, simulation.now) - start_at, simulation.num_arrived):
            complete = simulation.ended
            break
    promises = {(tier.name, each.name): each for tier in policy.tiers for each in tier.objectives}
    rate = {key: num / workload.duration for key, (num, _) in counts.judged.items()}
    kept = tuple(
        Kept(key, num, bad, _allowed(promises.get((key.tier, key.objective)), spent.get(key), rate[key]))
        for key, (num, bad) in sorted(counts.judged.items())
    )
    broken = {each.key for each in kept if each.broken}
    breaches = tuple(counts.breach(key) for key in sorted(broken))
    return Trial(factor, seed, counts.num, counts.num_chosen, workload.duration, kept, breaches, complete)


def _allowed(objective: Objective | None, spent: Spent | None, rate: float) -> float:
    """1 − target; with a month already begun, what its grant leaves for the rest of it at this rate."""
    if objective is None:
        return 1.0
    allowed = float(1 - objective.target)
    if spent is None or rate <= 0.0 or spent.seconds_left <= 0.0:
        return allowed
    to_come = rate * spent.seconds_left
    return ((spent.num_judged + to_come) * allowed - spent.num_bad) / to_come


class _Counts:
    """Verdicts by promise; of each bad one where, when and why."""

    def __init__(self, names: Collection[str] | None, start_at: float, duration: float) -> None:
        self.num = self.num_chosen = 0
        self._names = names
        self.judged: dict[Key, tuple[int, int]] = {}
        self._start_at = start_at
        self._span = duration / NUM_SPANS
        self._bad: dict[Key, _Bad] = {}

    def add(self, settle: Settle) -> None:
        record = settle.record
        self.num += 1
        self.num_chosen += self._names is None or record.tenant in self._names
        for verdict in record.verdicts:
            if verdict.num_good + verdict.num_bad == 0:
                continue
            key = Key(record.tenant, record.tier, verdict.objective)
            num, bad = self.judged.get(key, (0, 0))
            self.judged[key] = num + verdict.num_good + verdict.num_bad, bad + verdict.num_bad
            if verdict.num_bad:
                span = min(NUM_SPANS - 1, max(0, int((record.arrived_at - self._start_at) / self._span)))
                self._bad.setdefault(key, _Bad()).add(record, span)

    def breach(self, key: Key) -> Breach:
        return self._bad[key].breach(key, self._start_at, self._span)


class _Bad:
    """The bad requests of one promise, added up."""

    def __init__(self) -> None:
        self.num = 0
        self.pools: Counter[str] = Counter()
        self.endings: Counter[str] = Counter()
        self.spans: Counter[int] = Counter()
        self.queued = self.waited = 0.0
        self.usages: list[float] = []
        self.running: list[int] = []

    def add(self, record: Record, span: int) -> None:
        self.num += 1
        self.pools[record.pool or "(none)"] += 1
        self.spans[span] += 1
        if record.outcome is not Outcome.COMPLETED:
            self.endings[f"{record.outcome.value}: {record.reason.value}"] += 1
        if record.ttft is not None:
            self.queued += record.queued_for or 0.0
            self.waited += record.ttft
        if record.report_kv_usage is not None:
            self.usages.append(record.report_kv_usage)
        if record.report_running is not None:
            self.running.append(record.report_running)

    def breach(self, key: Key, start_at: float, span: float) -> Breach:
        worst, num = min(self.spans.items(), key=lambda item: (-item[1], item[0]))
        return Breach(
            key=key,
            num_bad=self.num,
            pools=dict(sorted(self.pools.items(), key=lambda item: (-item[1], item[0]))),
            endings=dict(sorted(self.endings.items(), key=lambda item: (-item[1], item[0]))),
            queued_ratio=self.queued / self.waited if self.waited else None,
            worst_at=start_at + worst * span,
            worst_span=span,
            worst_num=num,
            kv_usage=sum(self.usages) / len(self.usages) if self.usages else None,
            running=sum(self.running) / len(self.running) if self.running else None,
        )

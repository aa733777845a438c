"""One seed of `plimsoll simulate`, in this process or another: a run, its data directory, its figures."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from plimsoll.analytics.figures import Report
from plimsoll.analytics.report import report_of
from plimsoll.cli import workloads
from plimsoll.cli.crew import Stopped, Tell
from plimsoll.cli.report import make
from plimsoll.errors import UsageError
from plimsoll.governor import recording
from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import ReplicaReport, ReplicasReported
from plimsoll.governor.snapshot import RuleState, rule_states
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.policy.presets import preset
from plimsoll.requestlog.codec import encode
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.sim.budgets import SimulatedBudgets
from plimsoll.sim.capabilities import SimulatedCapabilities
from plimsoll.sim.outage import planned
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.spending import Spending
from plimsoll.sim.summary import LeftOut, ReplicaSummary, Run
from plimsoll.sim.workload import Workload
from plimsoll.slo.outcome import Reason
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from plimsoll.storage.rows import BUDGETS_NOTE, CAPABILITIES_NOTE, DECISION_NOTE, STATES_NOTE
from plimsoll.storage.statewindows import StateWindows

NUM_SLICES = 600
"""Looks at the progress, the interrupt, the replicas and the journal, over a run …"""
SHORTEST_SLICE, LONGEST_SLICE = 1.0, 20.0
"""… but no nearer and no farther from one another than this, simulated s."""

MINUTE = 60.0
"""Simulated s between assessments of the budgets, as live."""
_TOO_LONG = frozenset({Reason.ENGINE_REFUSED, Reason.PROMPT_TOO_LONG})


@dataclass(frozen=True)
class Task:
    """Everything that a run depends on, as text, so that another process makes the same of it."""

    policy_path: Path
    workload_path: Path
    rules: str
    duration: float  # s; 0: the workload's own
    seed: int
    data: Path | None  # data directory to leave; None: none
    policy_text: str = ""  # instead of the file's, where it was changed
    workload_text: str = ""
    alone: bool = True  # its figures bound themselves; else other seeds do


def policy_at(path: Path, rules: str, text: str = "") -> Policy:
    """The policy of a file (or a changed text of it), under the scheduling rules asked for."""
    policy = document.parse(text, str(path)) if text else document.load(path)
    return preset(policy, rules) if rules else policy


def policy_of(task: Task) -> Policy:
    """The policy, under the scheduling rules asked for."""
    return policy_at(task.policy_path, task.rules, task.policy_text)


def workload_of(task: Task, policy: Policy) -> tuple[Workload, tuple[LeftOut, ...]]:
    """The workload, as long as asked for, and what of its traces was left out."""
    load, left_out = workloads.load(task.workload_path, task.workload_text)
    try:
        planned(load.outages, policy.pools)
    except UsageError as error:
        raise UsageError(f"{task.workload_path}: {error}") from error
    return load.lasting(task.duration, policy.pools[0].model if policy.pools else ""), left_out


def run_task(task: Task, progress: Tell, stopped: Stopped) -> Run:
    """Simulate; `progress` is told the simulated time and the requests so far, `stopped` asked now and then."""
    policy = policy_of(task)
    return _Running(task, policy, workload_of(task, policy)[0], progress, stopped).run()


class _Running:
    """One run with everything that watches it."""

    def __init__(self, task: Task, policy: Policy, load: Workload, progress: Tell, stopped: Stopped) -> None:
        self._task = task
        self._policy = policy
        self._duration = load.duration
        self._progress = progress
        self._stopped = stopped
        self._settled: list[Settle] = []
        self._start_at = load.start_at or EPOCH
        self._slice = min(LONGEST_SLICE, max(SHORTEST_SLICE, load.duration / NUM_SLICES))
        self._spending = Spending(policy, self._start_at, load.duration)
        arrivals = load.arrivals(task.seed)
        self._windows = StateWindows()
        self._states: list[ReplicaWindow] = []
        self._simulation = Simulation(
            policy,
            workloads.profiles_of(policy, load),
            arrivals,
            self._settled.append,
            self._start_at,
            outages=load.outages,
            reported=self._reported if task.data is not None else None,
        )
        self._looks = _Looks()
        self._budgets = SimulatedBudgets(policy)
        self._assess_at = self._start_at + MINUTE
        self._capabilities = SimulatedCapabilities(policy, self._start_at)
        self._too_long = 0  # requests that no engine of their model could ever hold

    def run(self) -> Run:
        report = self._report_kept(self._task.data) if self._task.data is not None else self._report_of(None)
        simulation = self._simulation
        return Run(
            seed=self._task.seed,
            num_requests=simulation.num_arrived,
            simulated=simulation.now - self._start_at,
            report=report,
            replicas=self._looks.replicas(simulation, self._policy),
            complete=simulation.ended,
            spending=self._spending.curves(),
            duration=self._duration,
            notes=self._notes(),
        )

    def _reported(self, told: ReplicasReported) -> None:
        self._states += self._windows.add(told.at, told.reports)

    def _notes(self) -> tuple[str, ...]:
        """What was asked of engines that none of them could do, and rules of other packages that failed."""
        rules = rule_states(self._simulation.governor.register)
        return (*self._too_long_note(), *[_rule_note(rule) for rule in rules if rule.num_faults])

    def _too_long_note(self) -> tuple[str, ...]:
        if not self._too_long:
            return ()
        return (
            f"{self._too_long:,} requests of seed {self._task.seed} are longer than their engines could ever hold: "
            "refused, and no objective judges them.",
        )

    def _report_of(self, journal: Journal | None) -> Report:
        return report_of(self._records(journal), self._policy, source=f"simulation, seed {self._task.seed}")

    def _report_kept(self, data: Path) -> Report:
        """As a gateway would leave it, and what `plimsoll report` says of that, with intervals by blocks of time."""
        with closing(Journal.open(data, clock=lambda: self._simulation.now, marks=False)) as journal:
            (data / "policy.yaml").write_text(self._task.policy_text or self._task.policy_path.read_text())
            journal.policy(self._start_at, self._policy)
            report = self._report_of(journal)
            last = self._windows.close()
            if last:
                journal.note(self._simulation.now, STATES_NOTE, encode(last))
        with Projections(data) as projections:
            projections.catch_up()
        if not self._task.alone or not report.total.num:
            return report
        return make(data, since=None, until=None, tenant=None, policy=None)[0]

    def _records(self, journal: Journal | None) -> Iterator[Record]:
        """The rows as they are made, slice by slice, so that a long run needs no memory for them."""
        simulation, until = self._simulation, self._start_at
        while not (simulation.ended or self._stopped()):
            until += self._slice
            simulation.run(until)
            for settle in self._settled:
                if journal is not None:
                    journal.settle(settle)
                self._spending.add(settle.record)
                self._budgets.settled(settle)
                self._capabilities.settled(settle.record)
                self._too_long += settle.record.reason in _TOO_LONG
                yield settle.record
            self._settled.clear()
            if journal is not None:
                if self._states:
                    journal.note(simulation.now, STATES_NOTE, encode(self._states))
                    self._states.clear()
                for move in simulation.fleet.moves:
                    journal.reassigned(move)
            simulation.fleet.moves.clear()
            if until >= self._assess_at:
                self._assess(until, journal)
            if until >= self._capabilities.due_at:
                self._tell_capabilities(until, journal)
            if not simulation.ended:
                self._looks.add(simulation.fleet.report(until))
            if journal is not None:
                journal.flush()
            self._progress(min(until, simulation.now) - self._start_at, simulation.num_arrived)

    def _assess(self, at: float, journal: Journal | None) -> None:
        """As the budget service does once a minute: decide, write it down, tell the governor."""
        self._assess_at += MINUTE
        num_before = len(self._budgets.decisions)
        report = self._budgets.minute(at)
        if journal is not None:
            for decided in self._budgets.decisions[num_before:]:
                journal.note(at, DECISION_NOTE, encode(decided))
            journal.note(at, BUDGETS_NOTE, recording.encode(report))
        if not self._simulation.ended:
            self._simulation.tell(report)

    def _tell_capabilities(self, at: float, journal: Journal | None) -> None:
        """As the projector does once an hour."""
        report = self._capabilities.report(at)
        if journal is not None:
            journal.note(at, CAPABILITIES_NOTE, recording.encode(report))
        if not self._simulation.ended:
            self._simulation.tell(report)


class _Looks:
    """What replicas said of themselves at regular looks."""

    def __init__(self) -> None:
        self._num = 0
        self._busy: list[int] = []
        self._sums: list[list[float]] = []

    def add(self, reports: tuple[ReplicaReport, ...]) -> None:
        if not self._num:
            self._busy = [0] * len(reports)
            self._sums = [[0.0, 0.0, 0.0] for _ in reports]
        self._num += 1
        for number, report in enumerate(reports):
            running, waiting = report.running or 0, report.waiting or 0
            self._busy[number] += running + waiting > 0
            for place, value in enumerate((report.kv_usage or 0.0, running, waiting)):
                self._sums[number][place] += value

    def replicas(self, simulation: Simulation, policy: Policy) -> tuple[ReplicaSummary, ...]:
        pools = [pool.name for pool in policy.pools for _ in pool.replicas]
        return tuple([self._replica(simulation, number, pool) for number, pool in enumerate(pools)])

    def _replica(self, simulation: Simulation, number: int, pool: str) -> ReplicaSummary:
        replica = simulation.fleet.replicas[number]
        counts = simulation.fleet.counts(number)
        hits = counts.prefix_hits / counts.prefix_queries if counts.prefix_queries else None
        busy = self._busy[number] / self._num if self._num else None
        kv, running, waiting = [value / self._num for value in self._sums[number]] if self._num else [None] * 3
        beyond = counts.num_beyond_fit
        return ReplicaSummary(
            replica.name, counts.num_steps, counts.num_preemptions, hits, pool, busy, kv, running, waiting, beyond
        )


def _rule_note(rule: RuleState) -> str:
    return (
        f"the {rule.kind} {rule.name!r} of another package failed {rule.num_faults:,} times (last: {rule.last_fault}); "
        "our own stood in for it."
    )


def never() -> bool:
    """A run that nobody stops."""
    return False


def quiet(_at: float, _num: int) -> None:
    """A run that nobody watches."""

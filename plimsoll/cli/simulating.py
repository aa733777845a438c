"""One seed of `plimsoll simulate`, in this process or another: a run, its data directory, its figures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from plimsoll.analytics.report import report_of
from plimsoll.cli import workloads
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.policy.presets import preset
from plimsoll.requestlog.record import Record
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.summary import ReplicaSummary, Run
from plimsoll.sim.workload import Workload
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections

SLICE = 20.0  # simulated s between two looks at the progress, at the interrupt and at the journal


@dataclass(frozen=True)
class Task:
    """Everything that a run depends on, as text, so that another process makes the same of it."""

    policy_path: Path
    workload_path: Path
    rules: str
    duration: float  # s; 0: the workload's own
    seed: int
    data: Path | None  # data directory to leave; None: none


def policy_at(path: Path, rules: str) -> Policy:
    """The policy of a file, under the scheduling rules asked for."""
    policy = document.load(path)
    return preset(policy, rules) if rules else policy


def policy_of(task: Task) -> Policy:
    """The policy, under the scheduling rules asked for."""
    return policy_at(task.policy_path, task.rules)


def profiles_of(policy: Policy) -> dict[str, EngineProfile]:
    """The engine profiles that its pools name."""
    return {pool.profile: profiles.load(pool.profile) for pool in policy.pools if pool.profile}


def workload_of(task: Task) -> Workload:
    """The workload, as long as asked for."""
    models = [pool.model for pool in policy_of(task).pools]
    return workloads.load(task.workload_path)[0].lasting(task.duration, models[0] if models else "")


def run_task(task: Task, progress: Callable[[float, int], None], stopped: Callable[[], bool]) -> Run:
    """Simulate; `progress` is told the simulated time and the requests so far, `stopped` asked now and then."""
    policy, workload = policy_of(task), workload_of(task)
    known = profiles_of(policy)
    settled: list[Settle] = []
    simulation = Simulation(policy, known, workload.arrivals(task.seed), settled.append)
    journal = None if task.data is None else Journal.open(task.data, clock=lambda: simulation.now)
    try:
        if journal is not None and task.data is not None:
            (task.data / "policy.yaml").write_text(task.policy_path.read_text())
            journal.policy(EPOCH, policy)
        records = _records(simulation, settled, journal, progress, stopped)
        report = report_of(records, policy, source=f"simulation, seed {task.seed}")
    finally:
        if journal is not None:
            journal.close()
    if task.data is not None:
        with Projections(task.data) as projections:
            projections.catch_up()
    replicas = tuple(_replica(simulation, number) for number in range(len(simulation.fleet.replicas)))
    return Run(task.seed, simulation.num_arrived, simulation.now - EPOCH, report, replicas)


def _records(
    simulation: Simulation,
    settled: list[Settle],
    journal: Journal | None,
    progress: Callable[[float, int], None],
    stopped: Callable[[], bool],
) -> Iterator[Record]:
    """The rows as they are made, slice by slice, so that a long run needs no memory for them."""
    until = EPOCH
    while not (simulation.ended or stopped()):
        until += SLICE
        simulation.run(until)
        for settle in settled:
            if journal is not None:
                journal.settle(settle)
            yield settle.record
        settled.clear()
        if journal is not None:
            journal.flush()
        progress(min(until, simulation.now) - EPOCH, simulation.num_arrived)


def _replica(simulation: Simulation, number: int) -> ReplicaSummary:
    replica = simulation.fleet.replicas[number]
    counts = replica.counts()
    hits = counts.prefix_hits / counts.prefix_queries if counts.prefix_queries else None
    return ReplicaSummary(replica.name, counts.num_steps, counts.num_preemptions, hits)


def never() -> bool:
    """A run that nobody stops."""
    return False


def quiet(_at: float, _num: int) -> None:
    """A run that nobody watches."""


def run_quietly(task: Task) -> Run:
    """For processes of a pool."""
    return run_task(task, quiet, never)

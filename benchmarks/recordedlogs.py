"""Data directories as a gateway leaves them, from rows that were made: what the console is measured and tested on."""

from collections import deque
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from benchmarks.episodes import Episode
from plimsoll.analytics.gathering import zone_of
from plimsoll.governor import recording
from plimsoll.governor.decisions import Settle
from plimsoll.governor.settlement import spend
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import encode
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.sim.budgets import SimulatedBudgets
from plimsoll.slo.budget import period_of
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from plimsoll.storage.rows import BUDGETS_NOTE, DECISION_NOTE, STATES_NOTE

MINUTE = 60.0


def keep(records: Iterable[Record], policy_text: str, directory: Path, states: Iterable[ReplicaWindow] = ()) -> Policy:
    """The rows in the order of their ends, with budgets assessed once a minute, booked and written as Parquet.

    `states`: what replicas said of themselves, kept once a minute, too.
    """
    policy = document.parse(policy_text, "policy.yaml")
    directory.mkdir(parents=True, exist_ok=True)
    ordered = sorted(records, key=lambda record: record.finished_at)
    told = deque(sorted(states, key=lambda window: window.until_at))
    now = [ordered[0].arrived_at]
    with closing(Journal.open(directory, clock=lambda: now[0], marks=False)) as journal:
        (directory / "policy.yaml").write_text(policy_text)
        journal.policy(now[0], policy)
        budgets, assess_at = SimulatedBudgets(policy), now[0] + MINUTE
        for record in ordered:
            now[0] = record.finished_at
            while now[0] >= assess_at:
                _assess(journal, budgets, assess_at)
                _tell(journal, told, assess_at)
                assess_at += MINUTE
            month = period_of(record.arrived_at, zone_of(policy, record.tenant))
            settle = Settle(record, spend(record.tenant, record.verdicts, month))
            journal.settle(settle)
            budgets.settled(settle)
        _tell(journal, told, now[0])
        journal.flush()
    with Projections(directory) as projections:
        projections.catch_up()
    return policy


def _assess(journal: Journal, budgets: SimulatedBudgets, at: float) -> None:
    num_before = len(budgets.decisions)
    report = budgets.minute(at)
    for decided in budgets.decisions[num_before:]:
        journal.note(at, DECISION_NOTE, encode(decided))
    journal.note(at, BUDGETS_NOTE, recording.encode(report))


def _tell(journal: Journal, told: deque[ReplicaWindow], at: float) -> None:
    windows = []
    while told and told[0].until_at <= at:
        windows.append(told.popleft())
    if windows:
        journal.note(at, STATES_NOTE, encode(windows))


def keep_episode(incident: Episode, directory: Path) -> Policy:
    """A labelled incident as a data directory."""
    return keep(incident.records, incident.policy, directory, incident.states)

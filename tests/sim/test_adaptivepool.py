"""A long pool that adapts its size serves changing traffic better than one of a fixed size: `benchmarks/studies`."""

from pathlib import Path

from benchmarks.studies.adaptivepool import run, service, traffic
from benchmarks.studies.service import KNOWN
from plimsoll.governor.decisions import MoveStep, Reassign, Settle
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.storage.chronicle import Wanted, chronicle
from plimsoll.storage.journal import Journal


def test_no_fixed_size_serves_both_kinds_of_prompts_as_well() -> None:
    """By the kind that is served worse: a fixed size is good to one of them at the other's cost."""
    found = {kind: run(kind, 0, 900.0) for kind in ("fixed 1", "fixed 2", "fixed 3", "adaptive")}
    worse = {kind: min(one.short_in_time, one.long_in_time) for kind, one in found.items()}
    assert found["adaptive"].moves > 0
    assert all(worse["adaptive"] > worse[kind] + 0.05 for kind in worse if kind != "adaptive"), worse


def test_why_a_replica_moved_stands_in_the_log(tmp_path: Path) -> None:
    ended: list[Settle] = []
    simulation = Simulation(service("adaptive"), KNOWN, traffic(0, 300.0), ended.append)
    simulation.run()
    moves: list[Reassign] = simulation.fleet.moves
    journal = Journal.open(tmp_path, 1)
    for move in moves:
        journal.reassigned(move)
    journal.close()
    told = list(chronicle(tmp_path, Wanted(kind="replica")))
    assert [entry.at for entry in told] == [move.at for move in moves]
    arrived = next(n for n, move in enumerate(moves) if move.step is MoveStep.MOVED)
    assert told[arrived].text.startswith(f"{moves[arrived].replica} goes from pool mixed (")
    assert told[arrived].text.endswith("): demand")
    assert told[arrived].detail["to_pool"] == "long"
    assert told[arrived].at > EPOCH

"""A rival in the simulator: the trace as it is, and with every arrival a few milliseconds off."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from benchmarks.live.play import Play, Times, or_never
from benchmarks.live.stage import is_gold, tenants
from plimsoll.cli import workloads
from plimsoll.cli.simulating import Task, never, policy_of, quiet, run_task, workload_of
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.randomness import stream
from plimsoll.sim.simulation import Simulation
from plimsoll.storage import query

SHAKE: Final = 0.003  # s


def simulated(play: Play) -> Times:
    """By the very code of `plimsoll simulate`, rows read from the data directory that it leaves."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        task = _task(play, Path(home))
        run_task(task, quiet, never)
        found = [row for row in query.records(Path(home) / "data") if is_gold(row.tenant)]
    return _counted(found, play, began)


def shaken(play: Play, seed: int) -> Times:
    """The same requests, each up to `SHAKE` later, as clients and networks are: so little may decide much."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        task = _task(play, Path(home))
        policy = policy_of(task)
        load, _ = workload_of(task, policy)
        arrivals = list(load.arrivals(0))
        delays = stream(seed, "shake").random(len(arrivals)) * (SHAKE if seed else 0.0)
        later = [replace(each, at=each.at + float(delay)) for each, delay in zip(arrivals, delays, strict=True)]
        rows: list[Record] = []
        settled = _Settled(rows)
        Simulation(policy, workloads.profiles_of(policy, load), sorted(later, key=_at), settled.take).run()
    return _counted([row for row in rows if is_gold(row.tenant)], play, began)


class _Settled:
    def __init__(self, rows: list[Record]) -> None:
        self._rows = rows

    def take(self, decision: Settle) -> None:
        self._rows.append(decision.record)


def _task(play: Play, home: Path) -> Task:
    file = home / "workload.yaml"
    senders = "".join(f"\n      - {{name: {name}, of: {name}, exact_output: true}}" for name in tenants())
    lasts = f"duration: {play.rows[-1].at + 1.0:.4f}s"
    file.write_text(f"{lasts}\ntraces:\n  - file: {play.trace.resolve()}\n    tenants:{senders}\n")
    return Task(play.policy, file, "", 0.0, 0, home / "data", alone=False)


def _counted(gold: Sequence[Record], play: Play, began: float) -> Times:
    """Those that arrived after the warm-up: as many as the trace has, which a shake brings a little later."""
    num = len(play.counted())
    ordered = sorted([(row.arrived_at, row.ttft) for row in gold], key=_instant)
    play.check(len(ordered), sum(is_gold(row.tenant) for row in play.rows))
    return Times(tuple([or_never(ttft) for _, ttft in ordered[-num:]]), wall=time.monotonic() - began)


def _at(arrival: Arrival) -> float:
    return arrival.at


def _instant(row: tuple[float, float | None]) -> float:
    return row[0]

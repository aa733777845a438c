"""One run of the simulator, boiled down to the figures that the studies ask for; kept, so that a study can go on."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from benchmarks.studies.service import KNOWN
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.governor.queueing import OUTPUT_WEIGHT
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.estimate import estimate
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.verdict import Judgement

T = TypeVar("T")
WARM_UP: Final = 60.0  # s at the beginning that are not counted


class Group(Struct):
    """What happened to the requests of a tenant or tier that arrived in the window."""

    num: int = 0
    num_good: int = 0  # completed, every objective met
    completed: int = 0
    refused: int = 0  # on arrival, or out of the queue
    service: float = 0.0  # tokens of service given
    ttft_p50: float | None = None  # None: so many got no token that it has no bound
    ttft_p90: float | None = None
    ttft_p99: float | None = None
    queued_p99: float | None = None
    e2e_p99: float | None = None
    e2e_p50: float | None = None
    tpot_p99: float | None = None  # of those that made two tokens or more
    stall_p99: float | None = None  # of the longest gap between two tokens of each

    @property
    def attainment(self) -> float:
        """Share of requests that met every objective of their tier."""
        return self.num_good / self.num if self.num else 1.0


class Figures(Struct):
    """One run."""

    window: float  # s
    tiers: dict[str, Group]
    tenants: dict[str, Group]
    all: Group
    tokens: float  # prompt and output tokens a second, of what completed in the window
    service: float  # the same in tokens of service
    served: dict[str, float]  # by tenant
    preemptions: int
    cpu: float  # s
    short: Group = field(default_factory=Group)  # those with prompts below what was asked for


class Kept:
    """Results of runs by name, a line each in a file: what is there is not run again. Other rules want another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_bytes().splitlines() if path.exists() else []
        self._known = dict(msgspec.json.decode(line, type=tuple[str, msgspec.Raw]) for line in lines)

    def get(self, name: str, make: Callable[[], Figures]) -> Figures:
        """The result of that name, made now where it is not there."""
        return self.value(name, Figures, make)

    def value(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """The same for results of another kind."""
        known = self._known.get(name)
        if known is not None:
            return msgspec.json.decode(known, type=kind)
        began = time.process_time()
        found = make()
        self._known[name] = msgspec.Raw(msgspec.json.encode(found))
        with self._path.open("ab") as out:
            out.write(msgspec.json.encode((name, found)) + b"\n")
        sys.stderr.write(f"{name}: {time.process_time() - began:.1f} CPU s\n")
        return found


def run(
    policy: Policy,
    workload: Workload,
    seed: int,
    profiles: Mapping[str, EngineProfile] = KNOWN,
    window: tuple[float, float] | None = None,
    *,
    short_below: int = 0,
) -> Figures:
    """Simulate and add up; the window is that of arrivals, in s from the start."""
    began = time.process_time()
    since, until = window or (WARM_UP, workload.duration)
    rows: list[Record] = []
    settled = _Settled(rows)
    simulation = Simulation(policy, profiles, workload.arrivals(seed), settled.take)
    simulation.run()
    counted = [row for row in rows if since <= row.arrived_at - EPOCH < until]
    ended = [row for row in rows if since <= row.finished_at - EPOCH < until and row.outcome is Outcome.COMPLETED]
    return Figures(
        window=until - since,
        tiers=_groups(counted, "tier"),
        tenants=_groups(counted, "tenant"),
        all=_group(counted),
        tokens=sum(row.prompt_tokens + row.output_tokens for row in ended) / (until - since),
        service=sum(map(_service, ended)) / (until - since),
        served=_served(ended, until - since),
        preemptions=sum(report.preemptions or 0 for report in simulation.fleet.report(simulation.now)),
        cpu=time.process_time() - began,
        short=_group([row for row in counted if row.prompt_tokens < short_below]),
    )


class _Settled:
    def __init__(self, rows: list[Record]) -> None:
        self._rows = rows

    def take(self, decision: Settle) -> None:
        self._rows.append(decision.record)


def _groups(rows: Sequence[Record], by: str) -> dict[str, Group]:
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(getattr(row, by), []).append(row)
    return {name: _group(found[name]) for name in sorted(found)}


def _group(rows: Sequence[Record]) -> Group:
    times = sorted([inf if row.ttft is None else row.ttft for row in rows])
    return Group(
        num=len(rows),
        num_good=sum(map(is_good, rows)),
        completed=sum(row.outcome is Outcome.COMPLETED for row in rows),
        refused=sum(row.dispatched_at is None for row in rows),
        service=sum(_service(row) for row in rows if row.output_tokens),
        ttft_p50=quantile(times, 0.5),
        ttft_p90=quantile(times, 0.9),
        ttft_p99=quantile(times, 0.99),
        queued_p99=quantile(sorted(row.queued_for or 0.0 for row in rows), 0.99),
        e2e_p99=quantile(sorted([inf if row.e2e is None else row.e2e for row in rows]), 0.99),
        e2e_p50=quantile(sorted([inf if row.e2e is None else row.e2e for row in rows]), 0.5),
        tpot_p99=quantile(sorted([row.tpot for row in rows if row.tpot is not None]), 0.99),
        stall_p99=quantile(sorted([row.itl_max for row in rows if row.itl_max is not None]), 0.99),
    )


def _served(ended: Sequence[Record], seconds: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in ended:
        found[row.tenant] = found.get(row.tenant, 0.0) + _service(row) / seconds
    return {name: found[name] for name in sorted(found)}


def _service(row: Record) -> float:
    return row.prompt_tokens + OUTPUT_WEIGHT * row.output_tokens


def is_good(row: Record) -> bool:
    """Whether it met every objective of its tier."""
    return row.outcome is Outcome.COMPLETED and all(v.judgement is not Judgement.BAD for v in row.verdicts)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """The smallest value that at least that share does not exceed; None where there is none."""
    found = ordered[-int(-q * len(ordered) // 1) - 1] if ordered else inf
    return found if found < inf else None


def shown(values: Sequence[float | None], unit: str = "", digits: int = 3) -> str:
    """Mean and 95 % interval over seeds."""
    found = estimate(values)
    if found.mean is None:
        return f"no bound in {sum(value is None for value in values)} of {len(values)}"
    if found.low is None or found.high is None:
        return f"{found.mean:.{digits}g}{unit}"
    return f"{found.mean:.{digits}g}{unit} ({found.low:.{digits}g} to {found.high:.{digits}g})"

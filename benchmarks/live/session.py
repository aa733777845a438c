"""All runs of one table: what is known is not run again, what a starved machine gave is."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.live.documents import document
from benchmarks.live.engines import free_addresses
from benchmarks.live.health import Health
from benchmarks.live.living import live, remove
from benchmarks.live.play import Play, Times
from benchmarks.live.ranking import P99, p99_of, together
from benchmarks.live.simulating import shaken, simulated
from benchmarks.live.stage import FAIR, NOISY, Stage, capacity_of, workload, write_trace
from benchmarks.live.store import Store
from benchmarks.studies.arms import ARMS, Arm
from plimsoll.policy.document import load

KINDS: Final = (FAIR, NOISY)
SHAKES: Final = 9  # simulations of one trace: as it is, and a few ms off
BY_LOAD: Final = next(arm for arm in ARMS if arm.name == "fcfs, least requests")
"""Lets every replica work whenever there is work: by its rules capacity is measured and engines are fitted."""
Told = Callable[[str], None]


class Row(Struct, frozen=True):
    """One rival beside one kind of neighbour, the requests of all seeds together. Live None: was not run."""

    arm: str
    kind: str
    simulated: P99
    live: P99 | None = None
    gateway: P99 | None = None  # the live one as the gateway's own clock saw it
    health: tuple[Health, ...] = ()
    complaints: tuple[str, ...] = ()
    anyway: bool = False  # it counts whatever speaks against it

    @property
    def counts(self) -> bool:
        """Whether there is a live figure, of a machine that was not starved."""
        return self.live is not None and (self.anyway or not self.complaints)


class Session:
    """`home` keeps results and files; `told` is given a line for each run; `anyway` takes starved runs as well.

    `shakes` is how often each trace is simulated.
    """

    def __init__(self, stage: Stage, home: Path, told: Told, *, anyway: bool = False, shakes: int = SHAKES) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.stage, self._home, self._told, self._anyway = stage, home, told, anyway
        self._shakes = shakes
        self._store = Store(home / f"{stage.name}.jsonl")
        self._urls = free_addresses(stage.replicas)
        self._capacity = capacity_of(stage, load(self._policy(BY_LOAD)))
        told(f"{stage.name}: {self._capacity:,.0f} tokens of service a second on {stage.replicas} replicas")

    def rows(self, arms: Sequence[Arm], seeds: Iterable[int], *, with_live: bool = True) -> list[Row]:
        """Run what is not known yet; a row for each rival and kind."""
        seeds = list(seeds)
        return [self._row(arm, kind, seeds, with_live=with_live) for arm in arms for kind in KINDS]

    def _row(self, arm: Arm, kind: str, seeds: Sequence[int], *, with_live: bool) -> Row:
        plays = [self._play(arm, kind, seed) for seed in seeds]
        theirs = []
        for shake in range(self._shakes):
            make = partial(shaken, seed=shake) if shake else simulated
            told = [self._kept(f"{self._name(play, arm, kind)}/simulated-{shake}", play, make) for play in plays]
            theirs.append(_p99([times.ttft for times in told]))
        row = Row(arm.name, kind, together(theirs))
        if not with_live:
            return row
        ours = [self._kept(f"{self._name(play, arm, kind)}/live", play, self._live) for play in plays]
        health = tuple(times.health for times in ours if times.health is not None)
        complaints = tuple(why for each in health for why in each.complaints(self.stage))
        p99, gateway = _p99([times.ttft for times in ours]), _p99([times.gateway for times in ours])
        return replace(row, live=p99, gateway=gateway, health=health, complaints=complaints, anyway=self._anyway)

    def _kept(self, name: str, play: Play, make: Callable[[Play], Times]) -> Times:
        known = self._store.get(name)
        starved = known is not None and known.health is not None and bool(known.health.complaints(self.stage))
        if known is not None and (self._anyway or not starved):
            return known
        times = make(play)
        self._store.put(name, times)
        told = p99_of(times.ttft)
        why = times.health.complaints(self.stage) if times.health else []
        self._told(f"{name}: P99 {told.value:.3g} s of {told.num}, {times.wall:.0f} s{''.join(f'; {w}' for w in why)}")
        return times

    def _live(self, play: Play) -> Times:
        home = self._home / "last-run"
        remove(home)
        home.mkdir()
        return live(play, home)

    def _play(self, arm: Arm, kind: str, seed: int) -> Play:
        trace = self._home / f"{self.stage.name}-{kind}-{seed}.csv"
        rows = write_trace(trace, workload(self.stage, kind, self._capacity, self.stage.duration), seed)
        return Play(self.stage, self._policy(arm), trace, rows, self._urls)

    def _policy(self, arm: Arm) -> Path:
        path = self._home / f"{self.stage.name}-{arm.name.replace(', ', '-').replace(' ', '-')}.yaml"
        path.write_text(document(self.stage, arm, self._urls))
        return path

    def _name(self, play: Play, arm: Arm, kind: str) -> str:
        """What a result depends on: the rival, the trace, the engines. Ports are left out."""
        rules = document(self.stage, arm, [f"http://r{number}" for number in range(self.stage.replicas)])
        parts = (rules.encode(), play.trace.read_bytes(), repr(self.stage.loaded()).encode())
        digest = sha256(b"".join(parts)).hexdigest()[:10]
        return f"{arm.name}/{kind}/{play.trace.stem.rpartition('-')[2]}/{digest}"


def _p99(found: Sequence[Sequence[float]]) -> P99:
    return p99_of([time for times in found for time in times])

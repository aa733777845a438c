"""Do trees learnt from a pool's log predict better than step times? `python -m benchmarks.studies.learned [--seeds N]`.

Twice as long as asked for on four replicas. Every dispatch in the log is predicted once more (`sim/pastdispatches`) by
the step-time model with its running correction: once with the shipped profile, once with the engines' own coefficients,
the best that calibration could find. LightGBM learns from the first half how far off either is; all are held against
the second half, which none has seen. The step-time model's 90 % quantile is as far above its prediction as in the
first half. Signed is the mean of predicted ÷ came − 1.

Engines: `family` has other coefficients than the shipped profile; `past us` is the same where the log knows only of
gold's and silver's requests; `drafts` speculates; `attention` pays eight times as much for long prompts; `neighbour` is
slowed by half for a minute or so, again and again; `sessions` keeps conversations in its prefix cache. `real` are
recorded runs of real engines (needs PLIMSOLL_DATA), the last of them held out.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.studies.command import Command, command
from benchmarks.studies.predictions import SHIPPED, TRUTH, rules, traffic
from benchmarks.studies.run import shown
from benchmarks.studies.service import PROFILE, TIERS
from plimsoll.cli.boosting import forecasts
from plimsoll.engine import profiles
from plimsoll.engine.features import Speculation
from plimsoll.engine.learned import HeldOut
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.events import ReplicasReported
from plimsoll.requestlog.record import Record
from plimsoll.sim.heldout import Comparison, compare, scaled, split
from plimsoll.sim.pastdispatches import Case, Visit, cases, visit_of
from plimsoll.sim.randomness import stream
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload
from plimsoll.storage.engineruns import Served, served

DRAFTS: Final = Speculation("made up", 3, {"default": (0.8, 0.6, 0.45)}, 1e-3)
ENGINES: Final = {
    "family": TRUTH,
    "drafts": replace(TRUTH, speculation=DRAFTS),
    "attention": replace(TRUTH, mixed=replace(TRUTH.mixed, pw=8.0 * TRUTH.mixed.pw)),
    "neighbour": TRUTH,
    "sessions": TRUTH,
}
REAL: Final = {"llama.cpp": ("llamacpp", "tiny-llamacpp"), "vLLM (CPU)": ("vllm", "tiny-vllm-cpu")}


class Held(Struct):
    """One predictor against another on the second half, both corrected as they go."""

    num: int
    learned: HeldOut
    step_model: HeldOut
    wins: bool


class Neighbour:
    """Slows every replica by half for 30 to 90 s after as long a quiet; each its own dice."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self._fleet = simulation.fleet
        self._dice = [stream(seed, "neighbour", number) for number in range(len(self._fleet.replicas))]
        self._until = [EPOCH + 60.0 * dice.random() for dice in self._dice]
        self._slow = [False] * len(self._dice)
        self._steps = (StepTime(TRUTH), StepTime(replace(TRUTH, host_factor=1.5)))

    def look(self, report: ReplicasReported) -> None:
        """Once a second."""
        for number, until in enumerate(self._until):
            if report.at >= until:
                self._slow[number] = not self._slow[number]
                self._until[number] = report.at + 30.0 + 60.0 * self._dice[number].random()
                self._fleet.retime(number, self._steps[self._slow[number]])


def log(engine: str, load: float, seed: int, duration: float) -> list[Record]:
    """What the gateway wrote in that time; it believes the shipped profile."""
    rows: list[Record] = []
    simulation = Simulation(
        rules(),
        {PROFILE: ENGINES[engine]},
        sent(engine, load, 2.0 * duration).arrivals(seed),
        lambda settle: rows.append(settle.record),
        reported=lambda report: neighbour.look(report) if engine == "neighbour" else None,
        sketches=False,
    )
    neighbour = Neighbour(simulation, seed)
    simulation.run()
    return rows


def sent(engine: str, load: float, duration: float) -> Workload:
    """The studies' traffic; conversations of three turns ask for less, since each turn repeats those before it."""
    plain = traffic(load, duration)
    if engine != "sessions":
        return plain
    tenants = tuple(replace(each, rate=0.6 * each.rate, turns=3) for each in plain.tenants)
    return Workload(tenants, duration, plain.model)


def held(found: Sequence[Case]) -> Held:
    """Learn from the first half of the time, compare on the second."""
    before, after = split(found)
    return of(compare(after, forecasts(before, after), scaled(before, after)))


def of(found: Comparison) -> Held:
    """What is kept of it."""
    return Held(found.num, found.learned, found.step_model, found.wins)


def by_engine(asked: Command, engine: str, load: float, seed: int) -> dict[str, Held]:
    """Of one log, by what was known of it and by profile."""
    rows = log(engine, load, seed, asked.duration)
    logs = {engine: rows}
    if engine == "family":
        ours = {name for members in TIERS.values() for name in members}
        logs["past us"] = [row for row in rows if row.tenant in ours]
    found = {}
    for name, part in logs.items():
        visits = [visit for row in part if (visit := visit_of(row, SHIPPED.block_size))]
        found[f"{name}, shipped"] = held(cases(visits, SHIPPED))
        found[f"{name}, its own coefficients"] = held(cases(visits, TRUTH))
    return found


def recorded(name: str) -> Iterator[tuple[str, Held]]:
    """Real runs one after another on one replica; the last is held out."""
    file, profile = REAL[name]
    path = Path(os.environ["PLIMSOLL_DATA"]) / "real-engine-runs" / f"{file}-calibration.requests.jsonl.gz"
    rows = served(path)
    runs = list(dict.fromkeys(row.run for row in rows))
    found = cases([_visit(row, 1000.0 * runs.index(row.run)) for row in rows], profiles.load(profile))
    before = [case for case in found if case.at < 1000.0 * (len(runs) - 1)]
    after = found[len(before) :]
    yield f"{name}: {runs[-1]}", of(compare(after, forecasts(before, after, least=10), scaled(before, after)))


def _visit(row: Served, since: float) -> Visit:
    at = since + row.arrived_at
    tpot = float(np.mean(row.gaps)) if row.gaps else 0.0
    return Visit("r", at, at + row.ttft, at + row.e2e, row.prompt_tokens, row.output_tokens, tpot=tpot)


def line(name: str, found: Sequence[Held]) -> None:
    """Both predictors over seeds."""
    wins = sum(each.wins for each in found)
    print(f"{name}: {min(each.num for each in found):,}+ held out; the learnt one wins in {wins} of {len(found)}")
    for who in ("step_model", "learned"):
        each: list[HeldOut] = [getattr(one, who) for one in found]
        p50, p90, signed = (
            shown([100 * getattr(e, name) for e in each], " %")
            for name in ("median_error", "p90_error", "signed_error")
        )
        losses = " and ".join(shown([1e3 * getattr(e, name) for e in each]) for name in ("pinball_p50", "pinball_p90"))
        print(f"  {who.replace('_', '-'):10} error P50 {p50}, P90 {p90}; signed {signed}; pinball {losses} ms")


def main() -> None:
    asked = command(__doc__, "learned", duration=3600.0, seeds=3)
    asked.head("TTFT predicted at dispatch, learnt from so long, held out as long after it")
    for engine in ENGINES:
        for load in (0.8, 0.95):
            by_seed = [
                asked.kept.value(
                    f"{engine} {load} {asked.duration} {seed}",
                    dict[str, Held],
                    lambda engine=engine, load=load, seed=seed: by_engine(asked, engine, load, seed),  # type: ignore[misc]
                )
                for seed in asked.seeds
            ]
            for name in by_seed[0]:
                line(f"{name}, load {load:.0%}", [found[name] for found in by_seed])
    for name in REAL if "PLIMSOLL_DATA" in os.environ else ():
        for title, one in recorded(name):
            line(f"real, {title}", [one])
    asked.foot()


if __name__ == "__main__":
    main()

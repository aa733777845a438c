"""Do predictions come true? `python -m benchmarks.studies.predictions [--seeds N]`.

The engines have other coefficients than any shipped profile (`TRUTH`). An hour at 80 % load is watched on one replica
and calibrated as `plimsoll calibrate` does; the policy then routes by prediction with that profile at 80 % and at 95 %
load. Each prediction is held against what came, as the rows have both: |predicted − actual| ÷ actual, and its sign.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.studies.command import Command, command
from benchmarks.studies.run import WARM_UP, quantile, shown
from benchmarks.studies.service import AZURE, KNOWN, PROFILE, everybody, policy, with_rules
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy, RoutingRule
from plimsoll.requestlog.record import Record
from plimsoll.sim.enginefit import fit
from plimsoll.sim.replaying import EngineRun, Seen
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload

SHIPPED: Final = KNOWN[PROFILE]
CHANGE: Final = {"a": 1.25, "e": 0.85, "b": 0.85, "c": 1.25, "d": 1.5, "f": 1.6, "g": 1.4, "pw": 1.5}
WATCHED: Final = 3600.0  # s
EVALUATIONS: Final = 300


def changed(steps: StepCoefficients) -> StepCoefficients:
    """The same with every coefficient off by 15 to 60 %."""
    return replace(steps, **{name: getattr(steps, name) * by for name, by in CHANGE.items()})


TRUTH: Final = replace(SHIPPED, decode=changed(SHIPPED.decode), mixed=changed(SHIPPED.mixed))
SLOWER: Final = 0.85  # of the shipped profile's service: what 100 % load is on such engines


class Found(Struct):
    """Errors of one run, of times to first token or a token after it."""

    num: int
    median: float
    p90: float
    signed: float  # mean of predicted ÷ actual − 1
    total: float  # sum of predicted ÷ sum of actual − 1


def traffic(load: float, duration: float) -> Workload:
    """All eight tenants at a share of what these engines serve."""
    return everybody(AZURE, load * SLOWER, duration)


def rules() -> Policy:
    """Ours, routing by prediction."""
    return with_rules(policy(AZURE), routing=RoutingRule.PREDICTED)


def hour(seed: int) -> EngineRun:
    """What was seen of one replica at 80 % load."""
    rows: list[Record] = []
    Simulation(
        policy(AZURE), {PROFILE: TRUTH}, traffic(0.8, WATCHED).arrivals(seed), lambda s: rows.append(s.record)
    ).run()
    mine = [row for row in rows if row.replica == "http://r0" and row.dispatched_at and row.first_token_at]
    mine.sort(key=lambda row: row.dispatched_at or 0.0)
    return EngineRun("hour", tuple(map(_seen, mine)))


def _seen(row: Record) -> Seen:
    assert row.dispatched_at is not None
    assert row.first_token_at is not None
    began, first = row.dispatched_at - EPOCH, row.first_token_at - row.dispatched_at
    return Seen(
        began, row.prompt_tokens, row.output_tokens, first, ended_at=row.finished_at - EPOCH, tpot=row.tpot or 0.0
    )


def held(profile: EngineProfile, load: float, seed: int, duration: float) -> tuple[Found, Found]:
    """One run with the governor believing the profile and the engines being what they are: TTFT and TPOT."""
    rows: list[Record] = []
    promises = rules()
    arrivals = traffic(load, duration).arrivals(seed)
    simulation = Simulation(promises, {PROFILE: TRUTH}, arrivals, lambda settle: rows.append(settle.record))
    simulation.governor = Governor(promises, {PROFILE: profile})
    simulation.run()
    counted = [row for row in rows if row.arrived_at - EPOCH >= WARM_UP]
    return errors(map(_first, counted)), errors((row.predicted_tpot, row.tpot) for row in counted)


def _first(row: Record) -> tuple[float | None, float | None]:
    if row.first_token_at is None or row.dispatched_at is None:
        return None, None
    return row.predicted_ttft, row.first_token_at - row.dispatched_at


def errors(pairs: Iterable[tuple[float | None, float | None]]) -> Found:
    """Of (predicted, actual), where both are known."""
    known = [(expected, came) for expected, came in pairs if expected and came]
    off = sorted(abs(expected - came) / came for expected, came in known)
    return Found(
        len(known),
        quantile(off, 0.5) or 0.0,
        quantile(off, 0.9) or 0.0,
        sum(expected / came - 1.0 for expected, came in known) / len(known),
        sum(expected for expected, _ in known) / sum(came for _, came in known) - 1.0,
    )


def table(asked: Command, name: str, profile: EngineProfile) -> None:
    """Two loads under one profile."""
    for load in (0.8, 0.95):
        found = [
            asked.kept.value(
                f"{name} {load} {seed} {asked.duration:g}",
                tuple[Found, Found],
                partial(held, profile, load, seed, asked.duration),
            )
            for seed in asked.seeds
        ]
        for what, runs in zip(("TTFT", "TPOT"), zip(*found, strict=True), strict=True):
            print(
                f"{name:10} load {load:.0%} {what}: error P50 {_percent(f.median for f in runs)},"
                f" P90 {_percent(f.p90 for f in runs)}; mean signed {_percent(f.signed for f in runs)},"
                f" of sums {_percent(f.total for f in runs)}; {min(f.num for f in runs)}+ a run"
            )


def _percent(values: Iterable[float]) -> str:
    return shown([100 * value for value in values], " %")


def calibrated(seed: int) -> EngineProfile:
    """What an hour on one replica tells."""
    found = fit([hour(seed)], SHIPPED, EVALUATIONS)
    (errors,) = found.errors
    print(f"fitted to {errors.num} requests, off by {found.loss:.1%}; TTFT {errors.ttft}, TPOT {errors.itl}")
    return found.profile


def main() -> None:
    asked = command(__doc__, "predictions", duration=600.0)
    asked.head("Predicted at dispatch against what came")
    profiles: Mapping[str, EngineProfile] = {
        "shipped": SHIPPED,
        "calibrated": asked.kept.value("calibrated", EngineProfile, partial(calibrated, 1000)),
        "true": TRUTH,
    }
    for name, profile in profiles.items():
        table(asked, name, profile)
    asked.foot()


if __name__ == "__main__":
    main()

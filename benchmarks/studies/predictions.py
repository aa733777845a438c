"""Do predictions of TTFT come true? `python -m benchmarks.studies.predictions [--seeds N]`.

The engines have other coefficients than any shipped profile (`TRUTH`). An hour at 80 % load is watched on one replica
and calibrated; the policy then routes by prediction with that profile at 80 % and at 95 % load. Each prediction is held
against what came: |predicted − actual| ÷ actual, and its sign.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.studies.command import Command, command
from benchmarks.studies.run import quantile, shown
from benchmarks.studies.service import AZURE, KNOWN, PROFILE, everybody, policy, with_rules
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.governor.decisions import Decision, Dispatch, Settle
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy, RoutingRule
from plimsoll.requestlog.record import Record
from plimsoll.sim.enginefit import fit
from plimsoll.sim.replaying import EngineRun, Seen
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload

SHIPPED: Final = KNOWN[PROFILE]
CHANGE: Final = {"a": 1.25, "e": 0.85, "b": 0.85, "c": 1.25, "d": 1.5, "f": 1.6, "g": 1.4, "pw": 1.5}
WATCHED: Final = 900.0  # s of the hour that the fit plays, again and again


def changed(steps: StepCoefficients) -> StepCoefficients:
    """The same with every coefficient off by 15 to 60 %."""
    return replace(steps, **{name: getattr(steps, name) * by for name, by in CHANGE.items()})


TRUTH: Final = replace(SHIPPED, decode=changed(SHIPPED.decode), mixed=changed(SHIPPED.mixed))
SLOWER: Final = 0.85  # of the shipped profile's service: what 100 % load is on such engines


class Found(Struct):
    """Errors of one run."""

    num: int
    median: float
    p90: float
    signed: float  # mean of predicted ÷ actual − 1
    total: float  # sum of predicted ÷ sum of actual − 1


class Watch:
    """Keeps what the governor predicted at each dispatch, and holds it against the row."""

    def __init__(self) -> None:
        self.governor: Governor | None = None
        self.predicted: dict[int, float] = {}
        self.pairs: list[tuple[float, float, float]] = []

    def seen(self, _at: float, decision: Decision) -> None:
        """A dispatch: what is predicted now."""
        if isinstance(decision, Dispatch) and self.governor is not None:
            (pool,) = self.governor.pools()
            (replica,) = [each for each in pool.replicas if each.name == decision.replica]
            self.predicted[decision.request_id] = replica.in_flight[decision.request_id].predicted_ttft

    def settled(self, settle: Settle) -> None:
        """An end."""
        row = settle.record
        expected = self.predicted.pop(row.request_id, 0.0)
        if expected and row.first_token_at is not None and row.dispatched_at is not None:
            self.pairs.append((row.arrived_at - EPOCH, expected, row.first_token_at - row.dispatched_at))


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
    gaps = (row.tpot,) * (row.output_tokens - 1) if row.tpot else ()
    return Seen(began, row.prompt_tokens, row.output_tokens, first, gaps, row.finished_at - EPOCH)


def held(profile: EngineProfile, load: float, seed: int, duration: float) -> Found:
    """One run with the governor believing the profile and the engines being what they are."""
    watch = Watch()
    simulation = Engines(rules(), profile, traffic(load, duration), seed, watch)
    simulation.run()
    pairs = [(expected, came) for at, expected, came in watch.pairs if at >= 60.0]
    errors = sorted(abs(expected - came) / came for expected, came in pairs)
    return Found(
        len(pairs),
        quantile(errors, 0.5) or 0.0,
        quantile(errors, 0.9) or 0.0,
        sum(expected / came - 1.0 for expected, came in pairs) / len(pairs),
        sum(expected for expected, _ in pairs) / sum(came for _, came in pairs) - 1.0,
    )


class Engines:
    """A simulation whose governor believes one profile and whose engines are another."""

    def __init__(self, promises: Policy, believed: EngineProfile, load: Workload, seed: int, watch: Watch) -> None:
        self.simulation = Simulation(promises, {PROFILE: TRUTH}, load.arrivals(seed), watch.settled, seen=watch.seen)
        self.simulation.governor = watch.governor = Governor(promises, {PROFILE: believed})

    def run(self) -> None:
        """To the end."""
        self.simulation.run()


def table(asked: Command, name: str, profile: EngineProfile) -> None:
    """Two loads under one profile."""
    for load in (0.8, 0.95):
        found = [held(profile, load, seed, asked.duration) for seed in asked.seeds]
        print(
            f"{name:10} load {load:.0%}: error P50 {shown([100 * f.median for f in found], ' %')}, P90"
            f" {shown([100 * f.p90 for f in found], ' %')}; mean signed {shown([100 * f.signed for f in found], ' %')},"
            f" of sums {shown([100 * f.total for f in found], ' %')}; {min(f.num for f in found)}+ predictions a run"
        )


def main() -> None:
    asked = command(__doc__, "predictions", duration=600.0)
    asked.head("TTFT predicted at dispatch against what came")
    profiles: Mapping[str, EngineProfile] = {
        "shipped": SHIPPED,
        "calibrated": fit([hour(1000)], SHIPPED, 200).profile,
        "true": TRUTH,
    }
    for name, profile in profiles.items():
        table(asked, name, profile)
    asked.foot()


if __name__ == "__main__":
    main()

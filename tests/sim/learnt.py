"""A small service whose engines are not as their profile says: two replicas, a log, and what it teaches."""

from functools import cache

from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.learned import FEATURES, VERSION, HeldOut, LearnedModel, LearnedProfile, with_model
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.governor.governor import Governor
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.pastdispatches import Case, cases, visit_of
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.workload import Workload
from tests.sim.world import PROFILE, TEXT, tenant

RULES = TEXT + "scheduling: {routing: predicted}\n"
POLICY: Policy = parse(RULES, "learnt")
BELIEVED = profiles.load(PROFILE)
TRUTH = replace(
    BELIEVED,
    mixed=replace(BELIEVED.mixed, pw=20.0 * BELIEVED.mixed.pw, f=3.0 * BELIEVED.mixed.f),
    max_batched_tokens=1024,
)
NOBODY = HeldOut(0.1, 0.2, 0.0, 0.01, 0.01)


def log(seed: int, duration: float, believed: EngineProfile = BELIEVED, truth: EngineProfile = TRUTH) -> list[Settle]:
    """What such a service settles; its governor believes a profile."""
    found: list[Settle] = []
    names = ("acme", "bolt", "crane", "eel", "noisy")
    traffic = Workload(tuple(tenant(name, 3.0) for name in names), duration, "m")
    simulation = Simulation(POLICY, {PROFILE: truth}, traffic.arrivals(seed), found.append)
    simulation.governor = Governor(POLICY, {PROFILE: believed})
    simulation.run()
    return found


@cache
def taught() -> tuple[Case, ...]:
    """Two minutes of it, in hindsight."""
    visits = [visit_of(settle.record, BELIEVED.block_size) for settle in log(1, 120.0)]
    return tuple(cases([visit for visit in visits if visit is not None], BELIEVED))


@cache
def learned_profile() -> LearnedProfile:
    """What they believe, with what the log taught."""
    from plimsoll.cli.boosting import grow

    p50, p90 = grow(taught())
    return with_model(BELIEVED, LearnedModel(VERSION, BELIEVED.name, "a test", FEATURES, p50, p90, NOBODY, NOBODY), "")


def errors(settles: list[Settle]) -> list[float]:
    """|predicted − came| ÷ came of each first token, rising."""
    rows: list[Record] = [settle.record for settle in settles]
    found = []
    for row in rows:
        if row.predicted_ttft is not None and row.first_token_at is not None and row.dispatched_at is not None:
            came = row.first_token_at - row.dispatched_at
            found.append(abs(row.predicted_ttft - came) / came)
    return sorted(found)

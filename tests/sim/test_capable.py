"""In a simulation a tier that prefers capable replicas keeps away from the one that stalls, and no other tier does."""

import msgspec

from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import CapabilitiesReported
from plimsoll.governor.shown import ReplicaSteadiness
from plimsoll.policy.policy import CAPABLE
from plimsoll.sim.simulation import EPOCH, Simulation
from tests.sim.world import POLICY, PROFILES, traffic

TIERS = tuple(msgspec.structs.replace(tier, prefer=CAPABLE if tier.name == "gold" else "") for tier in POLICY.tiers)


def shares(ratios: tuple[float, float]) -> dict[str, float]:
    """By tier, the share of requests that the first replica served."""
    settles: list[Settle] = []
    policy = msgspec.structs.replace(POLICY, tiers=TIERS)
    run = Simulation(policy, PROFILES, traffic(duration=60.0, rate=2.0).arrivals(0), settles.append)
    run.run(until=EPOCH + 0.1)
    names = POLICY.pools[0].replicas
    run.tell(CapabilitiesReported(run.now, tuple(map(ReplicaSteadiness, names, ratios))))
    run.run()
    rows = [settle.record for settle in settles if settle.record.replica]
    by_tier = {tier.name: [row.replica == names[0] for row in rows if row.tier == tier.name] for tier in TIERS}
    return {tier: sum(mine) / len(mine) for tier, mine in by_tier.items()}


def test_only_the_tier_that_asks_avoids_it() -> None:
    before, after = shares((0.001, 0.001)), shares((0.05, 0.001))
    assert before["gold"] > 0.3
    assert after["gold"] < 0.5 * before["gold"]
    assert after["silver"] >= before["silver"]

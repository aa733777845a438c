"""A replica that fails: what ran there breaks off or is tried elsewhere, nobody is lost, and it comes back empty."""

from collections import Counter

import pytest

from plimsoll.engine import profiles
from plimsoll.errors import PolicyError, ProfileError, UsageError
from plimsoll.governor.decisions import Dispatch, Settle
from plimsoll.sim.outage import Outage, Upgrade
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.slo.outcome import Outcome, Reason
from tests.sim.world import POLICY, PROFILE, PROFILES, tenant

DOWN = Outage(20.0, "http://r1", 15.0)


def test_what_ran_there_breaks_off_or_moves() -> None:
    load = Workload((tenant("acme", 8.0), tenant("eel", 4.0, streaming=False)), 60.0, "m")
    settles: list[Settle] = []
    dispatched: list[tuple[float, str]] = []

    def seen(at: float, decision: object) -> None:
        if isinstance(decision, Dispatch):
            dispatched.append((at - EPOCH, decision.replica))

    run = Simulation(POLICY, PROFILES, load.arrivals(1), settles.append, seen=seen, outages=[DOWN])
    run.run()
    records = [settle.record for settle in settles]
    assert len(records) == run.num_arrived == len({record.request_id for record in records})
    ends = Counter((record.outcome, record.reason) for record in records)
    broken = ends[Outcome.FAILED, Reason.CONNECTION_LOST]
    assert broken > 0
    assert broken + ends[Outcome.COMPLETED, Reason.DONE] == len(records)
    assert all(record.output_tokens > 0 for record in records if record.outcome is Outcome.FAILED)
    moved = [record for record in records if record.attempts > 1]
    assert moved
    assert all(record.replica == "http://r2" for record in moved)
    during = [replica for at, replica in dispatched if DOWN.at + 1e-6 < at < DOWN.at + DOWN.lasts]
    assert set(during) == {"http://r2"}
    after = [replica for at, replica in dispatched if at > DOWN.at + DOWN.lasts + 2.0]
    assert set(after) == {"http://r1", "http://r2"}
    whole, since = run.fleet.counts(0), run.fleet.replicas[0].counts()  # what it did before it failed counts too
    assert whole.num_steps > since.num_steps > 0
    assert whole.prefix_queries > since.prefix_queries > 0
    assert run.fleet.counts(1) == run.fleet.replicas[1].counts()


def test_the_same_outage_gives_the_same_rows() -> None:
    load = Workload((tenant("acme", 8.0, shared_tokens=1024),), 40.0, "m")
    sides = []
    for _ in range(2):
        settles: list[Settle] = []
        Simulation(POLICY, PROFILES, load.arrivals(1), settles.append, outages=[DOWN]).run()
        sides.append(settles)
    assert sides[0] == sides[1]


def test_outages_are_read() -> None:
    text = "tenants: [{name: a, rate: 1}]\noutages: [{at: 20s, replica: 'http://r1', lasts: 15s}%s]"
    assert parse(text % "", "w").outages == (DOWN,)
    with pytest.raises(PolicyError) as raised:
        parse(text % ", {at: 30s, replica: 'http://r1', lasts: 1s}, {at: 1s, replica: x}", "w")
    assert [fault.path for fault in raised.value.faults] == ["outages[1].at", "outages[2].lasts"]


SLOWER = "rtxpro6000-qwen32b"


def test_an_upgrade_rolls_through_its_pool_and_lasts() -> None:
    """One replica is down at a time; what runs afterwards takes the new engine's time, on the same requests."""
    both = PROFILES | {SLOWER: profiles.load(SLOWER)}
    load = Workload((tenant("acme", 2.0),), 90.0, "m")
    gaps = {}
    for name in (PROFILE, SLOWER):
        settles: list[Settle] = []
        upgrade = Upgrade(20.0, "chat", name, 10.0)
        run = Simulation(POLICY, both, load.arrivals(1), settles.append, outages=[upgrade])
        run.run()
        assert [each.name for each in run.fleet.profiles] == [both[name].name] * 2
        assert len(settles) == run.num_arrived
        during = [s.record for s in settles if 20.1 < s.record.arrived_at - EPOCH < 28.0]
        assert {record.replica for record in during} == {"http://r2"}
        late = [s.record for s in settles if s.record.arrived_at - EPOCH > 45.0]
        gaps[name] = sum(r.e2e or 0.0 for r in late) / sum(r.output_tokens for r in late)
    assert gaps[SLOWER] > 1.8 * gaps[PROFILE]


def test_upgrades_are_read() -> None:
    text = "tenants: [{name: a, rate: 1}]\nupgrades: [{at: 20s, pool: chat, profile: p, each: 10s}%s]"
    assert parse(text % "", "w").outages == (Upgrade(20.0, "chat", "p", 10.0),)
    with pytest.raises(PolicyError) as raised:
        parse(text % ", {at: 30s, pool: chat, each: 1s}", "w")
    assert [fault.path for fault in raised.value.faults] == ["upgrades[1].profile"]


@pytest.mark.parametrize(
    ("outages", "told"),
    [
        ([Outage(1.0, "http://r9", 1.0)], "outages: no replica http://r9; there are http://r1, http://r2"),
        ([Upgrade(1.0, "chit", PROFILE, 1.0)], "upgrades: no pool 'chit'; there are chat"),
        ([DOWN, Upgrade(25.0, "chat", PROFILE, 1.0)], "http://r1 goes down at 25 s, before it is up"),
        ([DOWN, Upgrade(35.0, "chat", PROFILE, 1.0)], "http://r1 goes down at 35 s, before it is up"),
    ],
)
def test_what_cannot_be(outages: list[Outage | Upgrade], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Simulation(POLICY, PROFILES, iter(()), lambda _: None, outages=outages)


def test_a_profile_that_is_not_at_hand() -> None:
    with pytest.raises(ProfileError, match="http://r1 becomes none"):
        Simulation(POLICY, PROFILES, iter(()), lambda _: None, outages=[Upgrade(1.0, "chat", "none", 1.0)])

"""Capabilities out of a real log: the hours are those of its rows, kept once, and the gateway is told."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from plimsoll.analytics.capability import DAYS, Hour
from plimsoll.analytics.hourtally import HourTally
from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import CapabilitiesReported
from plimsoll.policy.policy import Policy, Pool
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.timing import bucket_of
from plimsoll.storage.capabilities import CapabilityKeeper, hours, measured
from plimsoll.storage.capabilityreport import HOUR, report
from plimsoll.storage.chronicle import Wanted, chronicle
from plimsoll.storage.journal import Journal
from plimsoll.storage.query import connect
from tests.storage.budgetworld import World
from tests.storage.rows import NOVEMBER, POLICY, record

BEGIN = NOVEMBER // HOUR * HOUR


def write(
    journal: Journal,
    at: float,
    *,
    replica: str = "http://r1",
    running: int | None = 6,
    long: int = 0,
    pool: str = "chat",
    tpot: float = 0.025,
    first: float = 0.2,
) -> Record:
    """A stream of 101 tokens at 40 a second; `long`: how many of its hundred gaps took just above half a second."""
    row = replace(
        record(journal.next_request_id),
        arrived_at=at - 3.0,
        dispatched_at=at - 2.9,
        first_token_at=at - 2.9 + first,
        finished_at=at,
        pool=pool,
        replica=replica,
        report_running=running,
        tpot=tpot,
        output_tokens=101,
        itl_sketches=(ItlSketch(1, {-170: 50}), ItlSketch(), ItlSketch(0, {-32: 49 - long, -31: long})),
    )
    journal.next_request_id += 1
    journal.settle(Settle(row, ()))
    return row


def test_hours_are_sums_of_rows(tmp_path: Path) -> None:
    with_journal = Journal.open(tmp_path, 1)
    tally = HourTally()
    for at, running, long in ((10.0, 6, 2), (20.0, 5, 0), (30.0, 30, 1), (3700.0, None, 0)):
        tally.add(write(with_journal, BEGIN + at, running=running, long=long))
    with_journal.close()
    with connect(tmp_path) as connection:
        found = hours(connection, BEGIN, BEGIN + 7200.0)
    assert [(hour.from_at - BEGIN, hour.load, hour.num, hour.gaps, hour.stalls) for hour in found] == [
        (0.0, 2, 2, 200, 2),  # a gap of half a second is none that is longer
        (0.0, 4, 1, 100, 1),
        (3600.0, -1, 1, 100, 0),
    ]
    assert found[0].tokens == 200
    assert found[0].time == pytest.approx(5.0)
    assert found[0].replica == "http://r1"
    assert found[0].paces == {bucket_of(0.025): 2}
    assert found[0].firsts == {bucket_of(0.2): 2}
    assert tally.hours(BEGIN, BEGIN + 7200.0) == found, "row by row it is the same"
    assert [hour.from_at for hour in tally.hours(BEGIN + 3600.0, BEGIN + 7200.0)] == [BEGIN + 3600.0]
    assert tally.hours(BEGIN, BEGIN + 3600.0) == [], "what is older is forgotten"


def test_the_governor_is_told_of_pools_that_streamed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, 1)
    for number in range(300):
        write(journal, BEGIN + number, pool="chat")
        write(journal, BEGIN + number, pool="gone", replica="http://r9")
    journal.close()
    policy = Policy(pools=(Pool("chat", "m", "vllm", ("http://r1",)), Pool("idle", "n", "vllm", ("http://r2",))))
    told = report(measured(tmp_path, policy), 7.0)
    (pace,) = told.pools
    assert pace.pool == "chat"
    times = (pace.token_time, pace.tpot_p99, pace.ttft_p99)
    assert times == pytest.approx((0.025, 0.025, 0.2), rel=0.02)
    assert [each.replica for each in told.replicas] == ["http://r1", "http://r9"]


def test_an_hour_kept_by_an_older_version_is_read() -> None:
    old = msgspec.msgpack.encode([[0.0, "chat", "m", "http://r1", 2, 10, 1000, 25.0, 990, 1]])
    (hour,) = msgspec.msgpack.decode(old, type=list[Hour])
    assert (hour.stalls, hour.paces, hour.firsts) == (1, {}, {})


def test_what_ended_outside_the_week_is_not_in_it(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, 1)
    for at in (-DAYS * 24.0 * HOUR - 10.0, -10.0, 0.0):
        write(journal, BEGIN + at)
    journal.close()
    (replica,) = measured(tmp_path, POLICY).replicas
    assert replica.num == 2
    (replica,) = measured(tmp_path, POLICY, until=BEGIN).replicas
    assert replica.num == 1


def test_an_empty_log_knows_nothing(tmp_path: Path) -> None:
    Journal.open(tmp_path, 1).close()
    assert measured(tmp_path, POLICY).replicas == ()


class Kept:
    """A log of some hours with an unsteady replica, and the keeper beside it."""

    def __init__(self, home: Path) -> None:
        self.world = World(home, begun=BEGIN)
        self.said: list[str] = []
        self.keeper = CapabilityKeeper(home, self.said.append)
        self.folder = home / "capabilities"

    @property
    def told(self) -> list[CapabilitiesReported]:
        return self.world.capabilities

    def stream(self, first: int, last: int) -> None:
        for number in range(first, last):
            for replica, long in (("http://r1", 0), ("http://r2", 0), ("http://r3", 5)):
                for minute in range(12):
                    at = BEGIN + number * HOUR + minute * 60.0
                    write(self.world.journal, at, replica=replica, long=long)
        self.world.journal.flush()

    def keep(self, number: int) -> None:
        self.keeper.keep(self.world.policy, BEGIN + number * HOUR + 400.0)
        self.world.now = BEGIN + number * HOUR + 401.0
        self.world.bookkeeping.look()


def test_each_hour_is_kept_once_and_the_gateway_is_told(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.stream(0, 3)
    kept.keep(3)
    assert sorted(path.name for path in kept.folder.iterdir()) == [f"{BEGIN + n * HOUR:.0f}.hour" for n in range(3)]
    (told,) = kept.told
    stalls = {each.replica: each.stall_ratio for each in told.replicas}
    assert stalls == {"http://r1": 0.0, "http://r2": 0.0, "http://r3": 0.05}
    assert [each.variation for each in told.replicas] == [pytest.approx(0.0)] * 3
    assert told.at == kept.world.now
    kept.stream(3, 4)
    before = {path.name: path.stat().st_mtime_ns for path in kept.folder.iterdir()}
    kept.keep(4)
    after = {path.name: path.stat().st_mtime_ns for path in kept.folder.iterdir()}
    assert before.items() < after.items()
    assert len(kept.told) == 2
    fresh = measured(tmp_path, kept.world.policy, until=BEGIN + 4 * HOUR)
    assert kept.keeper.known(kept.world.policy, BEGIN + 4 * HOUR).replicas == fresh.replicas
    assert kept.said == []


def test_what_is_older_than_a_week_goes(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.stream(0, 2)
    kept.keep(2)
    kept.keep(DAYS * 24 + 1)
    assert sorted(path.name for path in kept.folder.iterdir())[0] == f"{BEGIN + HOUR:.0f}.hour"
    assert len(list(kept.folder.iterdir())) <= DAYS * 24


def test_what_the_gateway_was_told_stands_in_the_journal(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.stream(0, 3)
    kept.keep(3)
    (entry,) = chronicle(tmp_path, Wanted(kind="replica"))
    assert entry.reason == "capabilities"
    assert entry.detail["stall_ratios"]["http://r3"] == 0.05

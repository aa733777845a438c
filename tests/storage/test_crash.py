"""kill -9 at random moments: what was answered is in the log once, the books agree, restarts are quick."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from plimsoll.slo.outcome import Outcome
from plimsoll.storage.audit import audit
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Projections
from plimsoll.storage.projector import start
from plimsoll.storage.query import records
from tests.storage.restarts import allowed

ROOT = Path(__file__).parents[2]


class Told:
    """What the killed writers had told by then."""

    def __init__(self) -> None:
        self.opened: set[int] = set()
        self.answered: set[int] = set()
        self.restarts: list[float] = []

    def listen(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # cut by the kill
            word, value, *_ = line.split()
            if word == "READY":
                self.restarts.append(float(value))
            else:
                (self.opened if word == "open" else self.answered).add(int(value))


def write_and_kill(home: Path, seed: int, dice: random.Random, told: Told) -> None:
    """One writer's life. One in five is killed before it is ready: in the midst of its recovery, if that is slow."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.writer", str(home), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    first = ""
    if dice.random() < 0.2:
        time.sleep(dice.uniform(0.0, 0.6))
    else:
        first = writer.stdout.readline()
        assert first.startswith("READY"), "it did not come up again"
        time.sleep(dice.choice((0.0, 0.002, 0.02, 0.05)) * dice.random())
    writer.kill()
    rest, _ = writer.communicate()
    told.listen(first + rest)


def check(home: Path, told: Told) -> None:
    """The log against what was told, and the books against the log."""
    with Projections(home, takeover=30.0) as projections:
        projections.catch_up()
    found = list(records(home))
    times = Counter(record.request_id for record in found)
    completed = {record.request_id for record in found if record.outcome is Outcome.COMPLETED}
    assert max(times.values()) == 1, "no request twice"
    assert told.answered <= completed, "nothing that was answered is missing"
    assert told.opened <= times.keys(), "nobody is forgotten"
    assert max(told.restarts) <= allowed()
    with LedgerDatabase(home / "ledger.sqlite") as books:
        assert audit(DataDirectory(home), books).findings == ()


def kill_often(home: Path, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    told = Told()
    projector = None
    for number in range(kills):
        if number % 7 == 3:
            if projector is not None:
                projector.kill()
                projector.wait()
            projector = start(home)
        write_and_kill(home, number, dice, told)
    if projector is not None:
        projector.kill()
        projector.wait()
    last = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.writer", str(home), "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert last.stdout is not None
    told.listen(last.stdout.readline())  # settles what the last killed one had open
    last.kill()
    last.communicate()
    assert len(told.answered) > 10 * kills, "they did work between the kills"
    check(home, told)


def test_killed_twenty_times(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", 20, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_five_hundred_times(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", 500, seed=2)

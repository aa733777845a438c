"""Several gateways at work on one PostgreSQL, each with a projector beside it: the sums are exact, whoever is away."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.actions import Override
from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.policy.objective import RunObjective
from plimsoll.requestlog.codec import encode
from plimsoll.storage.audit import audit
from plimsoll.storage.batch import Batch
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import DECISION_NOTE
from tests.real.postgres import Server, server
from tests.storage.rows import NOVEMBER, POLICY, settle

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
TIERS = (replace(POLICY.tiers[0], run=RunObjective(60.0, Fraction(9, 10), idle=5.0)),)
PROMISED = replace(POLICY, tiers=TIERS, version="with runs")
NUM_GATEWAYS = 2
AWAY = 6.0
"""s: ten minutes, a hundred times as fast; a projector looks every 0.3 s, so some twenty looks fail."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


class Gateway:
    """A journal that is written to, and a real projector beside it."""

    def __init__(self, home: Path, writer: int, url: str) -> None:
        self.journal = Journal.open(home, writer, segment_bytes=256 * 1024)
        self.journal.policy(NOVEMBER, PROMISED)
        self.journal.flush()
        command = [sys.executable, "-m", "plimsoll", "project", str(home), "--follow", "--ledger", url]
        self.projector = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.num = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(writer,))
        self._thread.start()

    def _work(self, writer: int) -> None:
        """Sessions of five requests; one in nine is late; one decision that every gateway makes."""
        shared = Override("override/acme/all/1", "acme", "", NOVEMBER, NOVEMBER + 1e6, "ops")
        self.journal.note(
            NOVEMBER, DECISION_NOTE, encode(Decided(shared.key, DecisionKind.OVERRIDE, (), encode(shared)))
        )
        while not self._stopping.is_set():
            index = self.num
            done = settle(self.journal.next_request_id + index, bad=index % 9 == 0, arrived_at=NOVEMBER + index)
            row = replace(done.record, session=f"{writer}-{index // 5}", policy_version=PROMISED.version)
            self.journal.opened(row.request_id, row.tenant, row.tier, row.arrived_at, session=row.session)
            self.journal.settle(Settle(row, done.entries))
            self.journal.flush()
            self.num += 1
            time.sleep(0.01)

    def end(self) -> str:
        self._stopping.set()
        self._thread.join()
        self.journal.close()
        self.projector.terminate()
        _, said = self.projector.communicate(timeout=120)
        assert self.projector.returncode == 0
        return said


def posted(books: LedgerDatabase) -> dict[str, int]:
    """Requests with a first token judged, by log."""
    with books.reading() as connection:
        query = "SELECT log, sum(num_requests) FROM judged WHERE objective = 'ttft' GROUP BY log"
        return {log: int(num) for log, num in connection.exec_driver_sql(query)}


def truth(gateways: list[Gateway], home: Path) -> dict[tuple[str, str], int]:
    """What SQLite says of all logs, one after the other."""
    with LedgerDatabase(home / "truth.sqlite") as books:
        for gateway in gateways:
            paths = gateway.journal.paths
            log = paths.identity().log
            batch = Batch(books.position(log), books.policies, books.sessions(log))
            books.post(log, batch.take(read_rows(paths.journal, batch.start), 1 << 60))
        return books.balances()


def until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_live_projectors_sum_exactly_and_catch_up_once_when_the_database_comes_back(
    postgres: Server, tmp_path: Path
) -> None:
    url = postgres.database("live")
    gateways = [Gateway(tmp_path / str(writer), writer, url) for writer in range(1, NUM_GATEWAYS + 1)]
    with LedgerDatabase(url) as books:
        until(lambda: len(posted(books)) == NUM_GATEWAYS, 120.0)
    postgres.stop("immediate")
    time.sleep(AWAY)
    num_before = [gateway.num for gateway in gateways]
    postgres.start()
    with LedgerDatabase(url) as books:
        until(lambda: sum(posted(books).values()) > sum(num_before), 120.0)
    said = [gateway.end() for gateway in gateways]
    for each in said:
        assert "projections wait: the ledger" in each
        assert each.count("projections go on") == 1, each
    expected = truth(gateways, tmp_path)
    assert expected["acme/ttft/spent:ours", "2026-11"] == sum(-(-gateway.num // 9) for gateway in gateways)
    with LedgerDatabase(url) as books:
        assert books.balances() == expected
        assert list(books.decisions(DecisionKind.OVERRIDE)) == ["override/acme/all/1"], "both made it, it counts once"
        runs = [counts for key, counts in books.judged().items() if key.objective == "run"]
        assert sum(counts.num_good + counts.num_bad for counts in runs) > sum(
            gateway.num // 5 - 10 for gateway in gateways
        )
        for gateway in gateways:
            found = audit(gateway.journal.paths, books)
            assert (found.findings, found.num_settled) == ((), gateway.num)

"""Replicas' states by windows: growth over restarts, unknown that stays unknown, each once wherever it lies."""

from math import inf
from pathlib import Path

import msgspec
import pytest

from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.codec import encode
from plimsoll.requestlog.enginestate import COUNTERS, GAUGES, HISTOGRAMS, EngineState, Histogram, ReplicaWindow
from plimsoll.storage import requestlog, statelog
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.journal import Journal
from plimsoll.storage.query import connect
from plimsoll.storage.requestlog import RequestLog
from plimsoll.storage.rows import STATES_NOTE
from plimsoll.storage.statewindows import StateWindows
from tests.storage.rows import NOVEMBER, settle

BOUNDS = (0.1, 1.0, inf)


def said(at: float, made: int | None, healthy: bool = True, **more: object) -> ReplicaReport:
    state = EngineState(output_tokens=made, **more)  # type: ignore[arg-type]
    return ReplicaReport("http://r1", healthy, at, running=2, waiting=int(at) % 3, preemptions=7, engine=state)


def windows_of(*reports: ReplicaReport) -> list[ReplicaWindow]:
    windows, rows = StateWindows(), []
    for report in reports:
        rows += windows.add(report.reported_at, [report])
    return rows + windows.close()


def test_every_column_is_a_field_of_what_is_reported() -> None:
    told = {*ReplicaReport.__struct_fields__, *EngineState.__struct_fields__}
    columns = set(ReplicaWindow.__struct_fields__)
    assert {*COUNTERS, *GAUGES, *HISTOGRAMS} <= told & columns


def test_counters_grow_over_a_restart_and_means_are_means() -> None:
    first, second = windows_of(said(100.0, 50), said(105.0, 80), said(111.0, 100), said(114.0, 30), said(119.0, 40))
    assert (first.from_at, first.until_at, first.num_looks, first.output_tokens) == (100.0, 110.0, 2, 30)
    assert (first.waiting, first.max_waiting, first.running) == (0.5, 1, 2.0)
    assert (second.num_starts, second.output_tokens, second.preemptions) == (1, 20 + 30 + 10, 0)


def test_what_nobody_told_is_unknown_and_a_first_look_is_no_growth() -> None:
    (window,) = windows_of(said(100.0, None), said(105.0, None))
    assert {window.output_tokens, window.kv_usage, window.ttft, window.draft_tokens} == {None}
    (alone,) = windows_of(said(100.0, 5_000))
    assert alone.output_tokens is None


def test_a_dead_replica_has_looks_and_no_figures() -> None:
    (window,) = windows_of(said(100.0, 5, healthy=False), said(101.0, 6, healthy=False))
    assert (window.num_looks, window.num_healthy, window.running) == (2, 0, None)


def test_histograms_grow_by_bucket_and_a_process_start_is_seen() -> None:
    looks = [
        said(100.0, 1, ttft=Histogram(1.0, BOUNDS, (1, 2, 2)), started_at=10.0),
        said(102.0, 1, ttft=Histogram(3.0, BOUNDS, (1, 4, 5)), started_at=10.0),
        said(104.0, 1, ttft=Histogram(0.5, BOUNDS, (1, 1, 1)), started_at=103.0),
    ]
    (window,) = windows_of(*looks)
    assert window.ttft == Histogram(2.0 + 0.5, BOUNDS, (1, 3, 4))
    assert window.num_starts == 1


def test_a_summary_of_balance_is_the_mean_of_its_window() -> None:
    (window,) = windows_of(
        said(100.0, 1, balance_total=90.0, balance_looks=100), said(105.0, 1, balance_total=95.0, balance_looks=110)
    )
    assert window.balancedness == pytest.approx(0.5)


def written(home: Path, num: int) -> Journal:
    journal = Journal.open(home, segment_bytes=64 * 1024)
    for number in range(num):
        row = ReplicaWindow("http://r1", 10.0 * number, 10.0 * number + 10.0, 10, 10, 0, running=float(number))
        row = msgspec.structs.replace(row, ttft=Histogram(0.5, BOUNDS, (1, 1, 1)) if number % 2 else None)
        journal.note(NOVEMBER, STATES_NOTE, encode([row]))
        journal.opened(number, "acme", "gold", NOVEMBER)
        journal.settle(settle(number))
    journal.flush()
    return journal


def seen(home: Path) -> list[tuple[float, float | None]]:
    with connect(home) as connection:
        return connection.execute("SELECT running, ttft.total FROM states ORDER BY from_at").fetchall()


def test_each_window_once_in_slices_and_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requestlog, "MAX_ROWS", 7)
    monkeypatch.setattr(statelog, "MERGE_AT", 3)
    monkeypatch.setattr(statelog, "GRACE", 0.0)
    home, expected = tmp_path / "data", [(float(n), 0.5 if n % 2 else None) for n in range(40)]
    journal = written(home, 40)
    assert seen(home) == expected
    log = RequestLog(DataDirectory(home))
    while log.advance(1 << 62, force=True):
        assert seen(home) == expected
    assert seen(home) == expected
    num = len(list((home / "states").glob("*.parquet")))
    assert 1 <= num < 6, "small slices are merged"
    journal.close()


def test_a_slice_written_before_a_crash_is_not_there_twice(tmp_path: Path) -> None:
    written(tmp_path, 5).close()
    log = RequestLog(DataDirectory(tmp_path))
    log.advance(1 << 62, force=True)
    for path in (tmp_path / "requests").glob("*.parquet"):
        path.unlink()  # as if it had died between the two files
    assert len(seen(tmp_path)) == 5


def test_old_slices_are_removed(tmp_path: Path) -> None:
    written(tmp_path, 5).close()
    log = RequestLog(DataDirectory(tmp_path))
    log.states.keep = -1.0
    log.advance(1 << 62, force=True)
    assert seen(tmp_path) == []


def test_states_join_requests_by_replica_and_window(tmp_path: Path) -> None:
    journal = written(tmp_path, 3)
    at = settle(1).record.arrived_at
    row = ReplicaWindow(settle(1).record.replica, at - at % 10, at - at % 10 + 10, 10, 10, 0, kv_usage=0.75)
    journal.note(at, STATES_NOTE, encode([row]))
    journal.flush()
    with connect(tmp_path) as connection:
        found = connection.execute(
            "SELECT r.request_id, s.kv_usage FROM requests r JOIN states s ON r.replica = s.replica"
            " AND r.arrived_at >= s.from_at AND r.arrived_at < s.until_at ORDER BY 1"
        ).fetchall()
    assert (1, 0.75) in found
    journal.close()

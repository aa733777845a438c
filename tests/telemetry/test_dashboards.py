"""Dashboards ask for what /metrics writes, and are what Grafana takes."""

import json
import re
from pathlib import Path

import pytest

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import PoolState, QueueState, ReplicaState, Snapshot
from plimsoll.telemetry import scaling
from plimsoll.telemetry.dashboards import dashboards, grafana, quantile
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.prometheus import Metrics, write_snapshot
from tests.cli.running import run
from tests.storage.rows import record

ELSEWHERE = {
    "plimsoll_journal_room_bytes",
    "plimsoll_clock_ahead_seconds",
}  # written by the command, held by the manual


def written() -> set[str]:
    metrics, page = Metrics(), Page()
    metrics.settled(Settle(record(1), ()))
    for _ in metrics.write(page):
        pass
    replica = ReplicaState("r", True, True, False, 0, 0, 1, "blocks", 0.0, {}, {}, 0, 0, 0.0, 0.0)
    pool = PoolState("p", "m", 0, 0, 0.0, (replica,))
    snapshot = Snapshot(0.0, "v", False, 0, (pool,), (QueueState("p", "t", "a", 1, 0.0),), ())
    write_snapshot(page, snapshot)
    scaling.write(page, scaling.Scaling().signals(snapshot, 1.0))
    return set(re.findall(r"^(plimsoll_\w+)", b"".join(page.pieces()).decode(), re.MULTILINE)) | ELSEWHERE


@pytest.mark.parametrize("board", dashboards(), ids=lambda board: board.name)
def test_every_metric_is_one_that_is_written(board: object) -> None:
    text = json.dumps([panel["targets"] for panel in grafana(board)["panels"]])  # type: ignore[arg-type]
    asked = set(re.findall(r"plimsoll_\w+", text))
    assert asked
    assert asked <= written()


def test_panels_lie_beside_each_other_and_not_on_each_other() -> None:
    for board in dashboards():
        taken: set[tuple[int, int]] = set()
        for panel in grafana(board)["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not taken & cells
            assert place["x"] + place["w"] <= 24
            taken |= cells


def test_names_are_one_each_and_native_asks_no_buckets() -> None:
    names = [board.name for board in dashboards()]
    assert len(set(names)) == len(names) >= 6
    told = json.dumps([grafana(board) for board in dashboards(native=True)])
    assert "_bucket" not in told
    assert "histogram_count" in quantile(0.99, "ttft", "tenant", native=True, least=368)


def test_the_command_tells_what_it_wrote(tmp_path: Path) -> None:
    plain = run("dashboards", "-o", str(tmp_path))
    told = json.loads(run("dashboards", "-o", str(tmp_path), "--json").stdout)["dashboards"]
    assert [f"{each['file']}  {each['text']}" for each in told] == plain.stdout.splitlines()
    assert {Path(each["file"]) for each in told} == set(tmp_path.iterdir())
    for each in told:
        assert json.loads(Path(each["file"]).read_text(encoding="utf-8"))["panels"]

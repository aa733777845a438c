"""`plimsoll runs` on a small log."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside
from tests.storage.rows import NOVEMBER, settle

POLICY = """
plimsoll: 1
tiers: [{name: gold, rank: 0, run: {below: 30s, target: 90%, idle: 20s}}]
tenants: [{name: acme, tier: gold}]
pools: [{name: chat, model: m, engine: vllm, replicas: ["http://r1"]}]
"""


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two runs of a session, the second too long, and one that still goes on; every request takes 9 s."""
    journal = Journal.open(tmp_path)
    for number, at in enumerate((0.0, 12.0, 100.0, 115.0, 130.0, 300.0)):
        made = settle(number, arrived_at=NOVEMBER + at)
        row = replace(made.record, session="s", cause="tool", upstream_time=2.0)
        journal.opened(number, "acme", "gold", NOVEMBER + at)
        journal.settle(Settle(row, made.entries))
    journal.close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def test_runs(plimsoll: Inside, home: Path) -> None:
    told = json.loads(plimsoll("runs", str(home), "--json").stdout)
    (acme,) = told["tenants"]
    assert (acme["num"], acme["num_open"], acme["num_good"], acme["num_bad"]) == (3, 1, 1, 1)
    assert acme["llm"] == pytest.approx(45.0)
    assert acme["upstream"] == {"tool": pytest.approx(10.0)}
    assert [run["num_turns"] for run in told["runs"]] == [2, 3, 1]
    table = plimsoll("runs", str(home), "--tenant", "acme").stdout
    assert "50.0%" in table
    assert "tool 10s" in table


def test_none_and_nobody(plimsoll: Inside, home: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(POLICY.replace(", run: {below: 30s, target: 90%, idle: 20s}", ""))
    assert "No runs" in plimsoll("runs", str(home), "--policy", str(plain)).stdout
    nobody = plimsoll("runs", str(home), "--tenant", "nobody")
    assert (nobody.returncode, "no tenant is named" in nobody.stderr) == (2, True)

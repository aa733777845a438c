"""`plimsoll runs` on a small log."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.policy import document
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


def test_their_budget_is_in_the_books(plimsoll: Inside, tmp_path: Path) -> None:
    """Ten runs of two turns, two of them too long."""
    policy = document.parse(POLICY)
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, policy)
    for number in range(20):
        at = NOVEMBER + 300.0 * (number // 2) + (25.0 if number % 10 == 1 else 11.0) * (number % 2)
        made = settle(number, arrived_at=at)
        journal.opened(number, "acme", "gold", at, session=f"s{number // 2}")
        row = replace(made.record, session=f"s{number // 2}", cause="tool", policy_version=policy.version)
        journal.settle(Settle(row, ()))
    journal.note(NOVEMBER + 9000, "entries", b"\x90")
    journal.close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert plimsoll("project", str(tmp_path)).returncode == 0
    told = json.loads(plimsoll("budget", "status", str(tmp_path), "--json").stdout)
    (run,) = [row for row in told["budgets"] if row["objective"] == "run"]
    assert (run["unit"], run["num_judged"], run["spent"], run["granted"]) == ("runs", 10, {"joint": 2}, 1)
    explained = json.loads(plimsoll("budget", "explain", str(tmp_path), "acme", "--json").stdout)
    (figures,) = [each["figures"] for each in explained if each["objective"] == "run"]
    assert (figures[0]["value"], figures[1]["formula"]) == ("10", "⌊10 × (1 − 0.9)⌋")
    csv = plimsoll("budget", "statement", str(tmp_path), "acme", "2026-11").stdout
    assert "spend,acme/run/bucket,acme/run/spent:joint,2" in csv
    assert "spend,world/@time/passed,acme/@time/llm,180000" in csv
    assert "spend,world/@time/passed,acme/@time/own,48000" in csv
    assert plimsoll("ledger", "verify", str(tmp_path)).returncode == 0
    assert plimsoll("ledger", "rebuild", str(tmp_path)).returncode == 0
    assert plimsoll("budget", "statement", str(tmp_path), "acme", "2026-11").stdout == csv
    words = ("--charged", "joint", "--to", "upstream", "--why", "their tool", "--month", "2026-11")
    assert plimsoll("budget", "correct", str(tmp_path), "acme", "run", "1", *words).returncode == 0
    forecast = json.loads(plimsoll("budget", "forecast", str(tmp_path), "--json").stdout)
    assert [each["forecast"]["state"] for each in forecast if each["objective"] == "run"] == ["too few"]
    assert "run: 90% of runs within 30s" in plimsoll("check", str(tmp_path / "policy.yaml")).stdout


def test_none_and_nobody(plimsoll: Inside, home: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(POLICY.replace(", run: {below: 30s, target: 90%, idle: 20s}", ""))
    assert "No runs" in plimsoll("runs", str(home), "--policy", str(plain)).stdout
    nobody = plimsoll("runs", str(home), "--tenant", "nobody")
    assert (nobody.returncode, "no tenant is named" in nobody.stderr) == (2, True)

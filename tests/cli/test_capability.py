"""`plimsoll capability` on a small log."""

import json
from pathlib import Path

import pytest

from plimsoll.storage.capabilities import HOUR
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside
from tests.storage.test_capabilities import BEGIN, write

POLICY = """
plimsoll: 1
tiers: [{name: gold, rank: 0}]
tenants: [{name: acme, tier: gold}]
pools:
  - {name: chat, model: llama, engine: vllm, replicas: ["http://r1", "http://r2", "http://r3"], quality: 0.8}
  - {name: other, model: small, engine: vllm, replicas: ["http://r4"]}
"""


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def test_replicas_and_models(plimsoll: Inside, tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    for number in range(4 * 12):
        at = BEGIN + number // 12 * HOUR + number % 12
        for replica, long in (("http://r1", 0), ("http://r2", 0), ("http://r3", 4)):
            write(journal, at, replica=replica, long=long)
    journal.close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    found = json.loads(plimsoll("capability", str(tmp_path), "--json").stdout)
    assert [replica["unsteady"] for replica in found["replicas"]] == [False, False, True]
    assert found["replicas"][0]["speed"] == pytest.approx(40.0)
    assert found["replicas"][0]["variation"] == pytest.approx(0.0)
    assert [(model["pool"], model["beaten_by"]) for model in found["models"]] == [("chat", []), ("other", None)]
    table = plimsoll("capability", str(tmp_path)).stdout
    assert "unsteady" in table
    assert "4.00%" in table
    assert "on the front" in table
    assert "not known: no quality in the policy" in table


def test_a_log_without_streams_says_so(plimsoll: Inside, tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert "No stream" in plimsoll("capability", str(tmp_path)).stdout

"""`plimsoll capability` on a small log."""

import json
from pathlib import Path

import pytest

from plimsoll.storage.capabilityreport import HOUR
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


CHOICE = """
plimsoll: 1
tiers: [{name: gold, rank: 0, classes: {within: 80ms}}, {name: bronze, rank: 1, classes: {within: 10ms, p99_of: tpot}}]
tenants: [{name: acme, tier: gold}]
pools:
  - {name: chat, model: llama, aliases: [x], engine: vllm, replicas: ["http://r1"], quality: 82}
  - {name: lite, model: small, aliases: [x], engine: vllm, replicas: ["http://r4"], quality: 60, built_for: 50ms}
degradation: {when: {above: 1s}, levels: [small_model], small_model: front}
"""


def test_whom_a_model_serves(plimsoll: Inside, tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    for number in range(400):
        write(journal, BEGIN + number, first=0.070 if number % 100 else 0.5)
        write(journal, BEGIN + number, first=0.1, replica="http://r4", pool="lite", tpot=0.008)
    journal.close()
    (tmp_path / "policy.yaml").write_text(CHOICE)
    chat, lite = json.loads(plimsoll("capability", str(tmp_path), "--json").stdout)["models"]
    assert chat["ttft_p99"] == pytest.approx(0.07, rel=0.02)
    assert (chat["tpot_p99"], lite["tpot_p99"]) == (pytest.approx(0.025, rel=0.02), pytest.approx(0.008, rel=0.02))
    assert (chat["serves"], chat["small_for"]) == (["gold"], [])
    assert (lite["serves"], lite["small_for"]) == (["bronze"], ["chat"])
    table = plimsoll("capability", str(tmp_path)).stdout
    assert "chat: on the front; serves gold first" in table
    assert "lite: on the front; serves bronze first; is the small model of chat" in table


def test_a_log_without_streams_says_so(plimsoll: Inside, tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert "No stream" in plimsoll("capability", str(tmp_path)).stdout

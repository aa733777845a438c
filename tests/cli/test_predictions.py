"""`plimsoll predictions` on a small log."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside
from tests.storage.rows import NOVEMBER, record

POLICY = """
plimsoll: 1
tiers: [{name: gold, rank: 0}]
tenants: [{name: acme, tier: gold}]
pools: [{name: chat, model: llama, engine: vllm, replicas: ["http://r1", "http://r2"]}]
"""


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def write(journal: Journal, after: float, **changes: object) -> None:
    """A request that was dispatched at once, showed its first token 0.1 s later, and then one every 20 ms."""
    arrived = NOVEMBER + after
    row = replace(
        record(journal.next_request_id),
        **{
            "pool": "chat", "replica": "http://r1", "arrived_at": arrived, "dispatched_at": arrived,
            "first_token_at": arrived + 0.1, "finished_at": arrived + 1.0, "tpot": 0.02,
        } | changes,
    )  # fmt: skip
    journal.next_request_id += 1
    journal.settle(Settle(row, ()))


def log(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    for number, ttft in enumerate((0.09, 0.11, 0.14)):
        write(journal, float(number), predicted_ttft=ttft, predicted_tpot=0.01)
    write(journal, 10.0, replica="http://r2", predicted_ttft=0.1, predicted_tpot=0.03)
    write(journal, 11.0, replica="http://r2", predicted_ttft=0.2, predicted_tpot=0.03, first_token_at=None, tpot=None)
    write(journal, 12.0, replica="http://r2", predicted_ttft=0.9, hedge="won")  # where it was asked second
    write(journal, 13.0, replica="http://r2")  # not predicted
    journal.close()
    (tmp_path / "policy.yaml").write_text(POLICY)


def test_errors_are_those_of_the_rows(plimsoll: Inside, tmp_path: Path) -> None:
    log(tmp_path)
    found = json.loads(plimsoll("predictions", str(tmp_path), "--json").stdout)
    first, second, pool = found["replicas"]
    assert [each["replica"] for each in found["replicas"]] == ["http://r1", "http://r2", ""]
    assert first["ttft"] == pytest.approx({"num": 3, "median": 0.1, "p90": 0.34, "bias": 0.4 / 3}, rel=1e-4)
    assert first["tpot"] == pytest.approx({"num": 3, "median": 0.5, "p90": 0.5, "bias": -0.5})
    assert (second["ttft"]["num"], second["ttft"]["median"]) == (1, pytest.approx(0.0, abs=1e-6))
    assert second["tpot"] == pytest.approx({"num": 1, "median": 0.5, "p90": 0.5, "bias": 0.5})
    assert (pool["pool"], pool["ttft"]["num"], pool["tpot"]["num"]) == ("chat", 4, 4)
    late = json.loads(plimsoll("predictions", str(tmp_path), "--since", "5s", "--json").stdout)
    assert [each["replica"] for each in late["replicas"]] == ["http://r2", ""]


def test_people_see_a_table(plimsoll: Inside, tmp_path: Path) -> None:
    log(tmp_path)
    told = plimsoll("predictions", str(tmp_path)).stdout
    assert "10.0%" in told
    assert "-50.0%" in told
    nothing = plimsoll("predictions", str(tmp_path), "--since", "0s").stdout
    assert "No request was predicted" in nothing

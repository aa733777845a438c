"""`plimsoll compare`: a run with itself is the same, fewer replicas are worse, and what cannot be compared is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.cli.compare import compare
from plimsoll.cli.simulate import simulate
from plimsoll.errors import UsageError
from tests.cli.test_sweep import POLICY

WORKLOAD = """
duration: 40s
tenants:
  - {name: acme, rate: 4, prompt: {median: 600, sigma: 0.5}, output: {median: 30}}
  - {name: bolt, rate: 3, prompt: {median: 600, sigma: 0.5}, output: {median: 30}}
"""


def run(folder: Path, out: str, policy: str = POLICY, **more: Any) -> Path:
    (folder / "p.yaml").write_text(policy)
    (folder / "w.yaml").write_text(WORKLOAD)
    simulate(config=folder / "p.yaml", workload=folder / "w.yaml", out=folder / out, **more)
    return folder / out


def differences(a: Path, b: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    compare(a, b, json_output=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_fewer_replicas_are_worse_pair_by_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = POLICY.replace('["http://r1"]', '["http://r1", "http://r2", "http://r3"]')
    a, b = run(tmp_path, "a", more, seeds=3), run(tmp_path, "b", seeds=3)
    found = differences(a, b, capsys)
    assert found["method"] == "paired seeds"
    assert found["seeds"] == [1, 2, 3]
    words = {(each["name"], each["figure"]): each["word"] for each in found["differences"]}
    assert words["all", "ttft_p50"] == "worse"
    assert "better" not in words.values()
    compare(a, b)
    printed = capsys.readouterr().out
    assert "3 seeds, pair by pair" in printed
    assert "ttft_p50" in printed
    one = differences(a / "seed-1", b / "seed-1", capsys)
    assert one["method"] == "paired blocks"
    assert {each["word"] for each in one["differences"] if each["figure"] == "ttft_p50"} == {"worse"}
    luck = differences(a / "seed-1", a / "seed-2", capsys)
    assert luck["method"] == "blocks"


def test_a_run_is_the_same_as_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(tmp_path, "out")
    found = differences(out, out, capsys)
    assert found["method"] == "paired blocks"
    assert {each["word"] for each in found["differences"]} <= {"same", "not enough data"}
    assert any(each["word"] == "same" for each in found["differences"])


def test_what_cannot_be_compared_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        compare(tmp_path / "none", tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(UsageError, match="not a summary of this version"):
        compare(tmp_path, tmp_path)

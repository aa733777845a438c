"""`plimsoll sweep`: values are replaced where the path leads, runs are kept, and a stopped sweep goes on."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from plimsoll.cli.grid import Cell, axis_of, cells
from plimsoll.cli.sweep import sweep
from plimsoll.engine import profiles
from plimsoll.errors import UsageError
from plimsoll.policy.document import parse

POLICY = """
plimsoll: 1
tiers:
  - {name: gold, rank: 0, share: 50%, objectives: [{sli: ttft, below: 1s, target: 99%}]}
  - {name: iron, rank: 1, share: 20%, objectives: [{sli: e2e, below: 9s, target: 90%}]}
tenants: [{name: acme, tier: gold}, {name: bolt, tier: iron}]
pools: [{name: chat, model: m, engine: vllm, profile: rtx4090-llama8b, replicas: ["http://r1"]}]
"""
WORKLOAD = """
duration: 10s
tenants:
  - {name: acme, rate: 2, prompt: {median: 300}, output: {median: 10}}
  - {name: bolt, rate: 2, prompt: {median: 300}, output: {median: 10}}
"""


def grid(*texts: str) -> list[Cell]:
    return list(cells([axis_of(text) for text in texts], POLICY, WORKLOAD, ""))


def loaded(text: str) -> Any:
    return YAML(typ="safe").load(text)


def test_paths_lead_through_names_and_workloads() -> None:
    made = grid("tiers.gold.objectives.ttft.below=500ms,2s", "workload.tenants.bolt.rate=3", "pools.chat.replicas=2")
    assert [cell.values[0][1] for cell in made] == ["500ms", "2s"]
    policy = loaded(made[1].policy_text)
    assert policy["tiers"][0]["objectives"][0]["below"] == "2s"
    assert policy["pools"][0]["replicas"] == ["http://replica-1", "http://replica-2"]
    assert loaded(made[0].workload_text)["tenants"][1]["rate"] == 3
    assert policy["tiers"][1] == loaded(POLICY)["tiers"][1]
    assert [cell.rules for cell in grid("rules=default,fcfs")] == ["default", "fcfs"]
    assert loaded(grid("scheduling.order=fcfs")[0].policy_text)["scheduling"] == {"order": "fcfs"}
    assert loaded(grid("tenants.acme.limits.concurrency=3")[0].policy_text)["tenants"][0]["limits"]["concurrency"] == 3
    assert loaded(grid("tenants.acme.weight=2")[0].policy_text)["tenants"][0]["weight"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tiers.gould.share=1%", "no item is named 'gould'; there are gold, iron"),
        ("tears.gold.share=1%", "there is no tears; there are plimsoll, tiers"),
        ("tiers.gold.share.much=1", "much is no part of '50%'"),
        ("tiers.gold.share", "write a path and its values"),
        ("tiers.gold.share=1%,1%", "a value is there twice"),
    ],
)
def test_what_leads_nowhere_is_told(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        grid(text)


def run(folder: Path, *sets: str, **more: Any) -> None:
    (folder / "p.yaml").write_text(POLICY)
    (folder / "w.yaml").write_text(WORKLOAD)
    given = {"seeds": 2, "out": folder / "out", **more}
    sweep(config=folder / "p.yaml", workload=folder / "w.yaml", set_=list(sets), **given)


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "tiers.gold.share=30%,60%")
    first = (tmp_path / "out" / "runs.jsonl").read_bytes()
    assert first.count(b"\n") == 4
    printed = capsys.readouterr().out
    assert "30%" in printed
    assert "60%" in printed
    lines = first.splitlines(keepends=True)
    (tmp_path / "out" / "runs.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:50])  # as a kill would leave it
    run(tmp_path, "tiers.gold.share=30%,60%,70%", jobs=2, json_output=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["values"] for row in rows] == [[["tiers.gold.share", value]] for value in ("30%", "60%", "70%")]
    assert all(row["summary"]["complete"] and row["summary"]["seeds"] == [1, 2] for row in rows)
    again = (tmp_path / "out" / "runs.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:3] == lines[:3]
    assert len(again) == 6
    assert lines[3] in again  # the same run, the same bytes, whatever the jobs
    with (tmp_path / "out" / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {row["tiers.gold.share"] for row in table} == {"30%", "60%", "70%"}
    good = [row for row in table if row["figure"] == "goodput_ratio" and row["kind"] == "all"]
    assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) and int(row["n"]) > 20 for row in good)


def test_a_bad_cell_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"(?s)with tiers.gold.share=200%: .*at most 100%"):
        run(tmp_path, "tiers.gold.share=30%,200%")
    assert not (tmp_path / "out").exists()


def test_engine_features_are_switched_by_pool(tmp_path: Path) -> None:
    """Overrides and what is below them need not be in the policy; braces keep their commas."""
    precision = "pools.chat.overrides.precision"
    made = grid(precision + "=off,{source: guessed, name: fp8, factor: 0.5}", "pools.chat.overrides.max_num_seqs=4")
    first, second = (parse(cell.policy_text).pools[0] for cell in made)
    assert profiles.of_pool(first).precision is None
    assert profiles.of_pool(first).max_num_seqs == 4
    given = profiles.of_pool(second).precision
    assert given is not None
    assert given.factor == 0.5
    policy, load = tmp_path / "p.yaml", tmp_path / "w.yaml"
    policy.write_text(POLICY)
    load.write_text(WORKLOAD)
    with pytest.raises(UsageError, match=r"overrides.precision=\{source: x\}: .*missing required field"):
        sweep(config=policy, workload=load, set_=[precision + "={source: x}"], out=tmp_path / "out")

"""`plimsoll simulate` from the command line: results, their sameness, what it refuses, what it keeps when stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plimsoll.cli.simulate import simulate
from plimsoll.cli.simulating import Task, never, quiet, run_task
from plimsoll.engine import profiles
from plimsoll.errors import PolicyError, TraceError, UsageError
from plimsoll.sim.estimate import estimate
from plimsoll.sim.simulation import EPOCH
from plimsoll.sim.summary import Summary, summarise
from plimsoll.sim.workloaddocument import parse
from plimsoll.slo.student import student
from plimsoll.storage.audit import audit
from plimsoll.storage.chronicle import Wanted, chronicle
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.query import records
from tests.governor.test_rules import broken

POLICY = """
plimsoll: 1
tiers:
  - {name: gold, rank: 0, share: 50%, objectives: [{sli: ttft, below: 1s, target: 99%}]}
tenants:
  - {name: acme, tier: gold, keys: ["sha256:89c1e720e04f9c6cefa77c100b1d2b2b7967c9a33314110a78b2daaa59d46ff2"]}
  - {name: bolt, tier: gold, keys: ["sha256:89c1e720e04f9c6cefa77c100b1d2b2b7967c9a33314110a78b2daaa59d46ff3"]}
pools:
  - {name: chat, model: m, engine: vllm, profile: h100-llama70b-tp8, replicas: ["http://r1", "http://r2"]}
"""
WORKLOAD = """
duration: 20s
tenants:
  - {name: acme, rate: 8, prompt: {median: 300, sigma: 0.8, most: 4k}, output: {median: 60, sigma: 0.5}}
  - {name: bolt, rate: 4, turns: 3, think: 2s, shared_tokens: 1k, exact_output: true}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    return tmp_path


def run(files: Path, out: str, workload: str = "w.yaml", **more: Any) -> Path:
    simulate(config=files / "policy.yaml", workload=files / workload, out=files / out, **more)
    return files / out


def test_leaves_what_a_gateway_leaves_and_the_same_whatever_the_jobs(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = run(files, "one", seeds=2, json_output=True)
    printed = capsys.readouterr().out
    two = run(files, "two", seeds=2, jobs=2)
    assert "tier gold" in capsys.readouterr().out
    assert (one / "summary.json").read_bytes() == (two / "summary.json").read_bytes()
    assert printed == (one / "summary.json").read_text()
    summary = msgspec.json.decode(printed.encode(), type=Summary)
    assert summary.complete
    assert summary.seeds == (1, 2)
    whole = summary.groups[0]
    rows = list(records(one / "seed-1"))
    assert len(rows) == whole.num[0] > 100
    assert whole.outcomes[0]["completed"] == whole.num[0]
    ttft = whole.figures["ttft_p50"]
    assert ttft.num == len(rows) + whole.num[1]
    assert ttft.mean is not None
    assert ttft.low is not None
    assert ttft.low < ttft.mean
    kept = summary.groups[1].figures["attainment:ttft"]
    assert kept.mean is not None
    assert 0.9 < kept.mean <= 1.0
    (pool,) = summary.pools
    busy = pool.figures["busy_ratio"].mean
    assert busy is not None
    assert 0.1 < busy <= 1.0
    spent = {(curve.tenant, curve.objective): curve for curve in summary.spending}
    judged = sum(run["completed"] for group in summary.groups for run in group.outcomes if group.name == "acme") / 2
    assert spent["acme", "availability"].granted[-1] == pytest.approx(int(judged * 0.001), abs=1)
    assert spent["acme", "ttft"].at[-1] == 20.0
    assert list(spent["acme", "ttft"].spent) == sorted(spent["acme", "ttft"].spent)
    assert all(replica.hit_ratio for replica in summary.replicas[0])
    assert json.loads((one / "run.json").read_text())["num_requests"] == sum(whole.num)


def test_a_run_stopped_by_hand_keeps_what_there_is(files: Path) -> None:
    looks: list[int] = []

    def stopped() -> bool:
        looks.append(1)
        return len(looks) > 1

    whole = run_task(Task(files / "policy.yaml", files / "w.yaml", "", 100.0, 1, None), quiet, never)
    part = run_task(Task(files / "policy.yaml", files / "w.yaml", "", 100.0, 1, files / "part"), quiet, stopped)
    assert 0 < part.report.total.num < whole.report.total.num
    assert len(list(records(files / "part"))) == part.report.total.num
    assert not part.complete
    assert not summarise([part], "v", complete=True).complete


def test_one_seed_has_the_intervals_of_its_report(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(files, "one", duration=70.0)
    assert "Intervals are widened by how much neighbouring requests resemble each other" in capsys.readouterr().out
    summary = msgspec.json.decode((out / "summary.json").read_bytes(), type=Summary)
    kept = summary.groups[1].figures["attainment:ttft"]
    assert kept.low is not None
    assert kept.low < 1.0


def test_what_a_trace_leaves_out_is_counted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "t.csv").write_text("at,prompt_tokens,output_tokens\n0,50,5\n1,0,5\n2,50,5\n1.5,50,5\n3,70,5\n")
    (files / "traced.yaml").write_text("traces: [{file: t.csv, leave_out_faulty: true, tenants: [{name: acme}]}]")
    out = run(files, "traced", workload="traced.yaml")
    assert "left out 2 rows of t.csv, the first: row 2: prompt 0, output 5: zero length" in capsys.readouterr().out
    summary = msgspec.json.decode((out / "summary.json").read_bytes(), type=Summary)
    assert summary.groups[0].num == (3,)
    assert summary.left_out[0].num == 2
    (files / "traced.yaml").write_text("traces: [{file: t.csv, tenants: [{name: acme}]}]")
    with pytest.raises(TraceError, match=r"t.csv, row 2: prompt 0, output 5: zero length"):
        run(files, "strict", workload="traced.yaml")


def test_what_no_engine_could_hold_is_counted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "t.csv").write_text("at,prompt_tokens,output_tokens\n0,50,5\n1,2000000,5\n2,50,5\n")
    (files / "traced.yaml").write_text("traces: [{file: t.csv, tenants: [{name: acme}]}]")
    out = run(files, "long", workload="traced.yaml")
    assert "1 requests of seed 1 are longer than their engines could ever hold" in capsys.readouterr().out
    summary = msgspec.json.decode((out / "summary.json").read_bytes(), type=Summary)
    assert summary.groups[0].num == (3,)
    assert summary.groups[0].outcomes[0]["completed"] == 2


def test_going_beyond_a_fit_is_noted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        (profiles.SHIPPED / "tiny-vllm-cpu.yaml")
        .read_text()
        .replace("fitted_max_tokens: 512", "fitted_max_tokens: 100")
    )
    (files / "narrow.yaml").write_text(text)
    policy = POLICY.replace("h100-llama70b-tp8", str(files / "narrow.yaml"))
    (files / "policy.yaml").write_text(policy)
    run(files, "narrow", duration=5.0)
    assert "steps (chat) had more tokens or context than their profile was fitted on" in capsys.readouterr().out


def test_ctrl_c_ends_all_processes_in_order(files: Path) -> None:
    command = [sys.executable, "-m", "plimsoll", "simulate", "-c", str(files / "policy.yaml"), "--workload"]
    command += [str(files / "w.yaml"), "--out", str(files / "cut"), "--duration", "5h", "--seeds", "3", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        journal = files / "cut" / "seed-1"
        deadline = time.monotonic() + 40
        while not any(journal.rglob("*.log")) and not any(journal.rglob("*")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        os.killpg(child.pid, signal.SIGINT)
        printed, _ = child.communicate(timeout=50)
    assert child.returncode == 0
    assert "stopped early" in printed
    summary = msgspec.json.decode((files / "cut" / "summary.json").read_bytes(), type=Summary)
    assert not summary.complete
    assert 1 <= len(summary.seeds) <= 2
    assert len(list(records(journal))) == summary.groups[0].num[0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"seeds": 0}, "must be at least 1"),
        ({"workload": "nowhere.yaml"}, "no workload file"),
        ({"rules": "magic"}, "no preset is named 'magic'"),
        ({"out": ""}, "not an empty directory"),
    ],
)
def test_what_cannot_be_is_told(files: Path, more: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(files, **{"out": "out", **more})


def test_a_bad_workload_tells_all_its_faults() -> None:
    bad = "duration: 5\ntenants: [{name: a, rate: -1, colour: red}, {name: a, rate: 3, prompt: {median: x}}]"
    with pytest.raises(PolicyError) as raised:
        parse(bad, "w.yaml")
    assert [fault.path for fault in raised.value.faults] == [
        "duration",
        "tenants[0].rate",
        "tenants[0].colour",
        "tenants[1].prompt.median",
        "tenants[1].name",
    ]


def test_intervals_over_seeds() -> None:
    assert estimate([1.0, 3.0]).mean == 2.0
    assert estimate([1.0, 3.0]).low == pytest.approx(2 - 12.706)  # t(1) x standard error 1
    assert estimate([1.0, 3.0]).high == pytest.approx(2 + 12.706)
    assert estimate([1.0, None]).mean is None
    assert estimate([4.0]).low is None
    assert student(30) == pytest.approx(2.0423, abs=1e-3)
    assert student(60) == pytest.approx(2.0003, abs=1e-3)


def test_a_slow_machine_leaves_the_same_rows(files: Path) -> None:
    """Law 3: neither the rows nor their places in the log tell how long the run took."""

    def slowly(_at: float, _num: int) -> None:
        time.sleep(0.03)  # while the log is synced, again and again

    left = []
    for name, progress in (("fast", quiet), ("slow", slowly)):
        (files / name).mkdir()
        run_task(Task(files / "policy.yaml", files / "w.yaml", "", 0.0, 1, files / name / "data"), progress, never)
        written = sorted((files / name / "data" / "requests").glob("*.parquet"))
        left.append([(path.name, path.read_bytes()) for path in written])
    assert left[0]
    assert left[0] == left[1]


MODELS = """
plimsoll: 1
tiers: [{name: gold, rank: 0, classes: {within: WITHIN, p99_of: tpot}}]
tenants: [{name: acme, tier: gold}]
pools:
  - {name: big, model: m70, quality: 82, aliases: [m], engine: vllm, profile: h100-llama70b-tp4, replicas: ["http://b"]}
  - {name: lite, model: m8, quality: 60, aliases: [m], engine: vllm, profile: rtx4090-llama8b, replicas: ["http://l"]}
"""
FIVE_TO = """
start: "2026-01-05T00:56"
duration: 12min
model: m
tenants: [{name: acme, rate: 2, prompt: {median: 300, sigma: 0.2}, output: {median: 60, sigma: 0.5}}]
"""


@pytest.mark.parametrize(("within", "after"), [("1ms", "lite"), ("10s", "big")])
def test_capabilities_are_told_each_simulated_hour(files: Path, within: str, after: str) -> None:
    """What the projector would have told lies in the journal, and the tier goes by it from then on."""
    (files / "policy.yaml").write_text(MODELS.replace("WITHIN", within))
    (files / "w.yaml").write_text(FIVE_TO)
    run_task(Task(files / "policy.yaml", files / "w.yaml", "", 0.0, 1, files / "out"), quiet, never)
    (told,) = chronicle(files / "out", Wanted(kind="replica"))
    assert told.reason == "capabilities"
    assert 0.005 < told.detail["paces"]["big"]["tpot_p99"] < 0.05
    rows = list(records(files / "out"))
    assert {row.pool for row in rows if row.arrived_at < told.at - 20.0} == {"big"}, "nothing is known: the best"
    assert {row.pool for row in rows if row.arrived_at > told.at + 20.0} == {after}


def test_budgets_are_assessed_each_simulated_minute_and_the_books_agree(files: Path) -> None:
    """What the budget service would have told and decided lies in the journal; a second pass over it finds it right."""
    home = run(files, "out", duration=150.0)
    told = list(chronicle(home, Wanted(kind="budget")))
    assert {(entry.tenant, round(entry.at - EPOCH)) for entry in told} >= {("acme", 60), ("bolt", 60)}
    paths = DataDirectory(home)
    with LedgerDatabase(paths.ledger) as books:
        assert audit(paths, books).findings == ()


def test_rules_of_other_packages_that_fail_are_told(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(files, "routings", "raising_rule", "class Rule:\n    def cost(self, *_):\n        raise ValueError('no')\n")
    monkeypatch.syspath_prepend(files)
    (files / "policy.yaml").write_text(POLICY + "scheduling: {routing: raising_rule}\n")
    (note,) = run_task(Task(files / "policy.yaml", files / "w.yaml", "", 5.0, 1, None), quiet, never).notes
    assert re.match(r"the routing 'raising_rule' of another package failed \d+ times \(last: ValueError: no\)", note)

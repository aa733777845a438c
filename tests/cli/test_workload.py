"""`plimsoll workload`: what is learnt can be simulated, and a file can be looked at."""

import json
from pathlib import Path

import pytest

from plimsoll.cli import workloads
from plimsoll.cli.workload import workload
from plimsoll.errors import TraceError, UsageError


def trace(path: Path, num: int = 200) -> Path:
    rows = [f"{i * 0.5},{100 + i % 7},{10 + i % 3}" for i in range(num)]
    path.write_text("at,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return path


def test_a_trace_is_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "learnt.yaml"
    workload("learn", trace(tmp_path / "t.csv"), out=out, tenant="acme", model="m")
    printed = capsys.readouterr().out
    assert "Learnt 1 tenants over" in printed
    assert "acme" in printed
    load, _ = workloads.load(out)
    assert load.model == "m"
    assert load.tenants[0].burstiness == pytest.approx(0.0, abs=1e-3)
    assert sum(1 for _ in load.arrivals(1)) == pytest.approx(200, abs=4)
    workload("show", out, json_output=True)
    (sent,) = json.loads(capsys.readouterr().out)
    assert sent["tenant"] == "acme"
    assert sent["rate"] == pytest.approx(2.0, rel=0.03)
    assert sent["prompt"][0] == pytest.approx(103, abs=1)
    workload("show", out)
    assert "prompt p50 / p90 / p99" in capsys.readouterr().out


def test_what_cannot_be_learnt_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"-o w\.yaml"):
        workload("learn", trace(tmp_path / "t.csv"))
    with pytest.raises(UsageError, match="10 requests; at least 30"):
        workload("learn", trace(tmp_path / "t.csv", 10), out=tmp_path / "o.yaml")
    (tmp_path / "t.csv").write_text(trace(tmp_path / "t.csv").read_text() + "1000,0,5\n")
    with pytest.raises(TraceError, match="row 201: prompt 0"):
        workload("learn", tmp_path / "t.csv", out=tmp_path / "o.yaml")
    assert not (tmp_path / "o.yaml").exists()
    workload("learn", tmp_path / "t.csv", out=tmp_path / "o.yaml", leave_out_faulty=True)
    assert "left out 1 rows, the first: t.csv, row 201" in capsys.readouterr().out

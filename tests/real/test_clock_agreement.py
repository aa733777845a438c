"""The gateway's clock agrees with the client's on an engine of known pace: TTFT and token gaps within 2 ms at p99."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import msgspec
import pytest

from plimsoll.load.children import Children, plimsoll
from plimsoll.load.result import Result, Seen
from plimsoll.requestlog.record import Record
from plimsoll.slo.quantiles import Sketch
from tests.real.parts import ROOT, SENDERS, gateway, policy_text, quiet_machine
from tests.real.rows import rows

pytestmark = pytest.mark.real
FIRST, GAP, NUM, TOKENS = 0.1, 0.02, 240, 24
ENGINE = f"""
import time
from tests.load.pacedengine import PacedEngine, running
with running(PacedEngine(first={FIRST}, gap={GAP})) as engine:
    print(f"READY http://127.0.0.1:{{engine.port}}", flush=True)
    time.sleep(600)
"""
LIMIT = 0.002  # s


@pytest.fixture
def first_in_line() -> Iterator[None]:
    """Where the system lets us, before other processes of the machine: their turns would be read as our delays."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    yield
    os.sched_setscheduler(0, policy, parameter)


def p99(values: list[float]) -> float:
    return sorted(values)[ceil(0.99 * len(values)) - 1]


def measure(home: Path) -> list[tuple[Record, Result]]:
    """Row and client's result of each request."""
    home.mkdir()
    trace, people, out = home / "trace.csv", home / "tenants.yaml", home / "client.jsonl"
    trace.write_text("at,prompt_tokens,output_tokens\n" + "".join(f"{i / 15:.4f},40,{TOKENS}\n" for i in range(NUM)))
    people.write_text("".join(f"{sender.name}: {sender.key}\n" for sender in SENDERS))
    with Children(home / "logs") as children:
        child = children.start("paced", [sys.executable, "-c", ENGINE], {"PYTHONPATH": str(ROOT)})
        url = re.sub(r"READY ", "", child.ready(20))
        policy = policy_text([url], engine="openai", more="max_concurrency: 64").replace("model: tiny", "model: paced")
        with gateway(home / "gateway", policy) as running:
            line = plimsoll("replay", str(trace), "--target", running.url, "--tenants", str(people), "--gaps")
            line += ["--out", str(out), "--model", "paced"]
            subprocess.run(line, cwd=ROOT, check=True, timeout=120, capture_output=True)
            written = {row.client_request_id: row for row in rows(running)}
    results = [msgspec.json.decode(line, type=Result) for line in out.read_bytes().splitlines()]
    assert {result.outcome for result in results} == {Seen.COMPLETED}
    return [(written[result.client_request_id], result) for result in results]


def differences(pairs: list[tuple[Record, Result]]) -> dict[str, float]:
    """p99 over the requests of |row − client|, s; `gaps` compares quantiles of all gaps, a bucket's width allowed."""
    ttft, worst, mean = [], [], []
    sketch, gaps = Sketch(), Sketch()
    for row, result in pairs:
        assert row.ttft is not None
        assert row.itl_max is not None
        assert row.tpot is not None
        assert row.itl_sketches is not None
        ttft.append(abs(row.ttft - (result.first_token_at - result.sent_at)))
        worst.append(abs(row.itl_max - max(result.gaps)))
        mean.append(abs(row.tpot - sum(result.gaps) / len(result.gaps)))
        for part in row.itl_sketches:
            sketch.add_itl(part)
        for gap in result.gaps:
            gaps.add(max(0.0, gap))
    assert sketch.num == gaps.num == NUM * (TOKENS - 1)
    between = [abs((sketch.quantile(q) or 0.0) - (gaps.quantile(q) or 0.0)) for q in (0.01, 0.5, 0.9, 0.99)]
    slack = 0.011 * (gaps.quantile(0.99) or 0.0)
    return {"ttft": p99(ttft), "largest gap": p99(worst), "tpot": p99(mean), "gaps": max(between) - slack}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("first_in_line")
def test_row_and_client_agree(tmp_path: Path) -> None:
    """Other processes on the machine can delay either side by more than that: the best of three tries counts."""
    tries = []
    for number in range(3):
        quiet_machine()
        pairs = measure(tmp_path / str(number))
        assert all(row.ttft is not None and row.ttft >= FIRST - 0.002 for row, _ in pairs)
        found = differences(pairs)
        tries.append(found)
        if max(found.values()) <= LIMIT:
            return
    pytest.fail(f"p99 of |row − client| in s, three tries: {tries}")

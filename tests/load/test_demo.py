"""What the demo ships is what its script makes, and its policy holds for every engine and speed."""

import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll.load.demostage import DURATION, NOISY, NOISY_FROM, NOISY_TO, Engine, senders, trace_path, write_policy
from plimsoll.load.plan import Shape, plan
from plimsoll.policy.policy import Order
from plimsoll.storage.traces import read
from tests.shared_data import data

ROOT = Path(__file__).parents[2]


def test_the_shipped_trace_is_what_the_script_makes(tmp_path: Path) -> None:
    source = data() / "azure2023" / "AzureLLMInferenceTrace_conv.csv.gz"
    line = [sys.executable, str(ROOT / "scripts" / "make_demo_trace.py"), str(source), str(tmp_path)]
    subprocess.run(line, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    assert list(read(tmp_path / "trace.csv.gz")) == list(read(trace_path()))


def test_the_neighbour_comes_at_minute_three(tmp_path: Path) -> None:
    policy = write_policy(tmp_path / "p.yaml", ["http://127.0.0.1:1"], "default", Engine.EMULATE, 1.0)
    planned = list(plan(read(trace_path()), senders(policy), Shape()))
    names = [sender.name for sender in senders(policy)]
    assert {names[one.sender] for one in planned} == {tenant.name for tenant in policy.tenants}
    assert len(policy.tenants) == 8
    assert DURATION - 5 < planned[-1].at < DURATION

    def prompts(start: float, end: float) -> int:
        mine = [one for one in planned if names[one.sender] == NOISY and start <= one.at < end]
        return sum(one.prompt_tokens for one in mine)

    quiet = prompts(0, NOISY_FROM) / NOISY_FROM
    assert prompts(NOISY_FROM, NOISY_TO) / (NOISY_TO - NOISY_FROM) > 30 * quiet
    assert prompts(NOISY_TO + 5, DURATION) / (DURATION - NOISY_TO - 5) < 3 * quiet


@pytest.mark.parametrize("engine", list(Engine))
@pytest.mark.parametrize("preset", ["default", "fcfs"])
def test_the_policy_of_each_run_is_good(tmp_path: Path, engine: Engine, preset: str) -> None:
    replicas = ["http://127.0.0.1:7001", "http://127.0.0.1:7002"]
    policy = write_policy(tmp_path / "p.yaml", replicas, preset, engine, 4.0)
    (pool,) = policy.pools
    assert list(pool.replicas) == replicas
    assert pool.engine == ("llamacpp" if engine is Engine.LLAMACPP else "vllm")
    assert (policy.scheduling.order is Order.FCFS) == (preset == "fcfs")
    assert policy.tiers[0].objectives[0].below == pytest.approx(1.5 / 4)

"""`plimsoll headroom` from the command line: one answer whatever the jobs, in words and as JSON."""

from pathlib import Path

import msgspec
import pytest

from plimsoll.cli.headroom import spent_of
from plimsoll.cli.simulate import simulate
from plimsoll.sim.headroom import Headroom
from plimsoll.sim.trial import Key
from tests.cli.running import Inside

POLICY = """
plimsoll: 1
tiers:
  - {name: gold, rank: 0, share: 60%, objectives: [{sli: ttft, below: 400ms, target: 90%}]}
  - {name: bronze, rank: 1, share: 30%, objectives: [{sli: e2e, below: 60s, target: 90%}]}
tenants: [{name: acme, tier: gold}, {name: batch, tier: bronze}]
pools: [{name: chat, model: m, engine: vllm, profile: rtx4090-llama8b, replicas: ["http://r1"]}]
"""
WORKLOAD = """
duration: 15s
tenants:
  - {name: acme, rate: 3, prompt: {median: 300, sigma: 0.3}, output: {median: 20}}
  - {name: batch, rate: 1, prompt: {median: 300, sigma: 0.3}, output: {median: 20}}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    return tmp_path


def test_the_answer_does_not_depend_on_the_jobs(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Inside(monkeypatch, capsys)
    given = ("headroom", "-c", str(files / "policy.yaml"), "--workload", str(files / "w.yaml"), "--tier", "gold")
    words = run(*given, "--seeds", "1")
    assert words.returncode == 0
    assert words.stdout.startswith("Tier gold can grow to ")
    assert "First to break: acme (gold), ttft < 400ms, 90%" in words.stdout
    assert "pool chat (100% of them)" in words.stdout
    one, two = (run(*given, "--seeds", "2", "--json", "--jobs", jobs).stdout for jobs in "12")
    assert one == two
    found = msgspec.json.decode(one.encode(), type=Headroom)
    assert found.names == ("acme",)
    assert found.factor.mean is not None
    assert found.factor.mean > 1.5
    assert found.complete


def test_what_a_month_has_spent_is_counted(files: Path) -> None:
    simulate(config=files / "policy.yaml", workload=files / "w.yaml", out=files / "live")
    found = spent_of(files / "live")
    key = Key("acme", "gold", "ttft")
    assert 20 < found[key].num_judged < 80
    days = found[key].seconds_left / 86_400
    assert days == pytest.approx(27, abs=0.01)  # from 5 January to the end of the month
    assert {each.tenant for each in found} == {"acme", "batch"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--tier", "silver"), "no tier 'silver'; the policy has gold, bronze"),
        (("--tenant", "acne"), "no tenant 'acne' in the workload; it has acme, batch"),
        (("--tenant", "acme", "--tier", "gold"), "not both"),
        (("--jobs", "0"), "--jobs must be at least 1"),
    ],
)
def test_what_cannot_be_is_told(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], told: str
) -> None:
    run = Inside(monkeypatch, capsys)
    done = run("headroom", "-c", str(files / "policy.yaml"), "--workload", str(files / "w.yaml"), *more)
    assert done.returncode == 2
    assert told in done.stderr

"""`plimsoll learn` on logs of simulated engines: kept where it wins on what came later, else refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.learned import LearnedProfile
from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside
from tests.sim.learnt import RULES, errors, log
from tests.sim.world import PROFILE


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def kept(path: Path, settles: list[Settle], policy: str = RULES) -> Path:
    """A data directory that holds them."""
    journal = Journal.open(path)
    for settle in settles:
        journal.settle(Settle(settle.record, ()))
    journal.close()
    (path / "policy.yaml").write_text(policy)
    return path


def test_what_wins_is_written_and_then_routes(plimsoll: Inside, tmp_path: Path) -> None:
    data, out = kept(tmp_path / "data", log(1, 120.0)), tmp_path / "chat.json"
    ran = plimsoll("learn", str(data), "-o", str(out), "--json")
    found = json.loads(ran.stdout)
    assert (ran.returncode, found["wins"], found["written"]) == (0, True, str(out))
    assert found["learned"]["pinball_p50"] < found["step_model"]["pinball_p50"]
    assert found["learned"]["pinball_p90"] < found["step_model"]["pinball_p90"]
    assert found["gain_p50"]["high"] < 0.0
    assert found["learnt_from"] > found["held_out"] > 300
    policy = tmp_path / "policy.yaml"
    policy.write_text(RULES.replace(f"profile: {PROFILE}", f"profile: {PROFILE}, predictor: {out}"))
    assert plimsoll("check", str(policy)).returncode == 0
    profile = profiles.load(PROFILE, "", str(out))
    assert isinstance(profile, LearnedProfile)
    better, plain = errors(log(5, 60.0, profile)), errors(log(5, 60.0))
    assert better[len(better) // 2] < plain[len(plain) // 2]


def test_what_does_not_win_is_not_written(plimsoll: Inside, tmp_path: Path) -> None:
    """Where all that steps do not tell is dice, there is nothing to learn."""
    dice = np.random.default_rng(7)
    rows = []
    for settle in log(1, 150.0):
        row = settle.record
        if row.dispatched_at is not None and row.predicted_ttft is not None:
            first = row.dispatched_at + row.predicted_ttft * dice.lognormal(0.0, 0.3)
            row = replace(row, first_token_at=first, finished_at=max(first, row.finished_at))
        rows.append(Settle(row, ()))
    out = tmp_path / "chat.json"
    ran = plimsoll("learn", str(kept(tmp_path / "data", rows)), "-o", str(out))
    assert (ran.returncode, out.exists()) == (1, False)
    assert "does not win" in ran.stdout
    assert "by step times" in ran.stdout


TWO = RULES.replace(
    "pools:", 'pools:\n  - {name: more, model: n, engine: vllm, replicas: ["http://r9"], profile: h100-llama70b-tp4}'
)


@pytest.mark.parametrize(
    ("policy", "options", "said"),
    [
        (RULES, [], "at least 500 each are needed"),
        (RULES, ["--part", "0.95"], "--part 0.95: must be from 0.1 to 0.9"),
        (RULES, ["--pool", "none"], "no pool with a profile is named 'none'; known: chat"),
        (TWO, [], "say which pool: --pool more or chat"),
        (TWO, ["--pool", "more"], "0 requests of pool more"),
        (RULES.replace(f"profile: {PROFILE}", "max_concurrency: 4"), [], "no pool of this policy has a profile"),
    ],
)
def test_what_cannot_be_said_is_refused(
    plimsoll: Inside, tmp_path: Path, policy: str, options: list[str], said: str
) -> None:
    out = tmp_path / "chat.json"
    ran = plimsoll("learn", str(kept(tmp_path / "data", log(1, 5.0), policy)), "-o", str(out), *options)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert not out.exists()


def test_a_predictor_that_cannot_be_used_is_told_at_its_place(plimsoll: Inside, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    policy = tmp_path / "policy.yaml"
    for profile, said in ((f"profile: {PROFILE}", "no predictor"), ("max_concurrency: 4", "there is no profile")):
        policy.write_text(RULES.replace(f"profile: {PROFILE}", f"{profile}, predictor: {bad}"))
        ran = plimsoll("check", str(policy))
        assert ran.returncode == 1
        assert "pools[0].predictor" in ran.stdout
        assert said in ran.stdout

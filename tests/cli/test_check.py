"""`plimsoll check` and `plimsoll key`, as they are run."""

import json
import re
from pathlib import Path

import pytest

from plimsoll.cli.key import digest_of
from tests.cli.running import Inside, run
from tests.policy.test_document import EXAMPLE, SMALL, TEN_MISTAKES


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def test_a_good_policy_is_told_and_exits_with_0() -> None:
    done = run("check", str(EXAMPLE))
    assert (done.returncode, done.stderr) == (0, "")
    assert "ttft: 99.5% of requests within 800ms (contract 99%)" in done.stdout
    assert "\x1b" not in done.stdout  # colour on a terminal only


def test_plugins_and_classes_are_told(tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "policy.yaml"
    plugin = "{name: topic, core: false, on_error: pass, timeout: 200ms, settings: {url: 'http://127.0.0.1:9/t'}}"
    path.write_text(SMALL.replace("engine: vllm", "engine: vllm, sla_class: fast") + f"plugins: [{plugin}]\n")
    told = inside("check", str(path)).stdout
    assert "plugin topic: http, within 200ms, else lets pass, left out under load" in told
    assert "on 1 replica of vllm, any prompt, class fast" in told


def test_limits_are_told(tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "policy.yaml"
    limits = "limits: {concurrency: 64, tokens_per_minute: 400k, adapt: {floor: 40%, burst: 150%}}"
    path.write_text(SMALL.replace("tier: gold, ", f"tier: gold, {limits}, "))
    told = inside("check", str(path)).stdout
    assert "concurrency 64, tokens per minute 400k, adapting from 40% to 150% of its tokens" in told


def test_faults_exit_with_1_and_are_all_shown(tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEN_MISTAKES)
    done = inside("check", str(path))
    assert done.returncode == 1
    assert done.stdout.count("fault  ") == 12
    data = json.loads(inside("check", "--json", str(path)).stdout)
    assert not data["good"]
    assert [fault["line"] for fault in data["faults"]] == sorted(fault["line"] for fault in data["faults"])


def test_warnings_exit_with_0_unless_strict(tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(SMALL.replace("50%", "0.5%"))
    done = inside("check", str(path))
    assert (done.returncode, done.stdout.count("warning  ")) == (0, 1)
    assert inside("check", "--strict", str(path)).returncode == 1


def test_no_file_exits_with_2_in_one_line(inside: Inside) -> None:
    done = inside("check", "/nowhere/policy.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "plimsoll: cannot read the policy /nowhere/policy.yaml: No such file or directory\n"


def test_a_key_and_its_digest(inside: Inside) -> None:
    secret, digest = inside("key").stdout.split()
    assert re.fullmatch(r"pl-[\w-]{43}", secret)
    assert digest == digest_of(secret)
    assert run("key", "--digest", given=f"{secret}\n").stdout.strip() == digest
    assert run("key", "--digest").returncode == 2


@pytest.mark.parametrize("command", ["check", "key"])
def test_help_teaches(command: str, inside: Inside) -> None:
    assert "Usage: plimsoll" in inside(command, "--help").stdout


def test_profiles_are_looked_up(tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(EXAMPLE.read_text().replace("h100-llama70b-tp4", "h1000-llama"))
    done = inside("check", str(path))
    assert done.returncode == 1
    assert "pools[0].profile: no profile named 'h1000-llama'" in done.stdout


@pytest.mark.parametrize("given", [b"a\xff\n", b"two words\n", "schlüssel\n".encode()])
def test_what_no_header_can_carry_is_no_key(given: bytes) -> None:
    done = run("key", "--digest", given=given.decode(errors="surrogateescape"))
    assert done.returncode == 2
    assert "visible ASCII" in done.stderr

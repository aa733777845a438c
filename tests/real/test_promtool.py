"""Prometheus' own tool on the rules that we write: it takes them, they fire on faults, and they can fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plimsoll.policy.document import load, parse
from plimsoll.policy.policy import Policy
from plimsoll.policy.yamltext import dump
from plimsoll.telemetry.rules import rules
from plimsoll.telemetry.ruletests import tests_of as unit_tests_of
from tests.policy.test_document import EXAMPLE
from tests.telemetry.test_rules import POLICY

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]  # promtool takes 10 s; other programs want the machine too


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing (Debian's package prometheus), and CI is set")
        pytest.skip("promtool is missing (Debian's package prometheus)")
    return found


def run(promtool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=280, check=False)


def write(policy: Policy, folder: Path, *, native: bool = False) -> tuple[str, str]:
    rule_file, test_file = folder / "rules.yml", folder / "rules.test.yml"
    rule_file.write_text(dump([rules(policy, native=native)]))
    test_file.write_text(dump([unit_tests_of(policy, "rules.yml")]))
    return str(rule_file), str(test_file)


@pytest.mark.parametrize("native", [False, True])
def test_the_rules_are_taken(promtool: str, tmp_path: Path, native: bool) -> None:
    rule_file, _ = write(load(EXAMPLE), tmp_path, native=native)
    done = run(promtool, "check", "rules", rule_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_faults_fire_and_resolve_and_no_traffic_is_silent(promtool: str, tmp_path: Path) -> None:
    _, test_file = write(parse(POLICY), tmp_path)
    done = run(promtool, "test", "rules", test_file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_native_rules_fire_and_resolve_too(promtool: str, tmp_path: Path) -> None:
    """All but latencies: promtool reads native histograms in tests only from 2.46 on, and Debian has an older one."""
    rule_file, test_file = tmp_path / "rules.yml", tmp_path / "rules.test.yml"
    rule_file.write_text(dump([rules(parse(POLICY), native=True)]))
    tests = unit_tests_of(parse(POLICY), "rules.yml")
    kept = [each for each in tests["tests"] if not any("_bucket" in row["series"] for row in each["input_series"])]
    assert len(kept) >= len(tests["tests"]) / 2
    test_file.write_text(dump([tests | {"tests": kept}]))
    done = run(promtool, "test", "rules", str(test_file))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_rules_of_the_example_do_so_too(promtool: str, tmp_path: Path) -> None:
    _, test_file = write(load(EXAMPLE), tmp_path)
    done = run(promtool, "test", "rules", test_file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bad_ratio_lower_by_request:1h{", "bad_ratio_lower_by_request:2h{"),  # never fires
        ("and on (tenant)", "or on (tenant)"),  # a blip fires
        (" > 0)", ")"),  # no traffic is NaN
    ],
)
def test_the_tests_find_what_is_wrong(promtool: str, tmp_path: Path, old: str, new: str) -> None:
    small = POLICY.replace("      - {sli: e2e, below: 20s, target: 90%}\n", "").replace("timezone: UTC", "period: 1d")
    rule_file, test_file = write(parse(small), tmp_path)
    text = Path(rule_file).read_text()
    wrong = text.replace(old, new)
    assert wrong != text
    Path(rule_file).write_text(wrong)
    done = run(promtool, "test", "rules", test_file)
    assert done.returncode == 1, done.stdout + done.stderr

"""`plimsoll import` and `plimsoll export`, as they are run."""

import json
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

from tests.policy.slo_files import texts
from tests.policy.test_document import EXAMPLE
from tests.policy.test_llm import SLOTH


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plimsoll", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_good_files_are_shown_and_exit_with_0(tmp_path: Path) -> None:
    (tmp_path / "slo.yml").write_text(texts()["sloth/examples/home-wifi.yml"])
    (tmp_path / "notes.txt").write_text("{{")
    done = run("import", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "good-wifi-client-satisfaction" in done.stdout
    assert "1 file, 2 SLOs, 0 other objects, 0 faults, 0 warnings, 0 parts lost" in done.stdout


def test_faults_exit_with_1_and_have_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(texts()["sloth/test/integration/prometheus/testdata/validate/bad/bad-aa.yaml"])
    done = run("import", str(path))
    assert done.returncode == 1
    assert f"{path}: line 28: slos[1].objective: must be a percentage below 100" in done.stdout
    assert "Traceback" not in done.stderr


def test_files_that_cannot_be_had_exit_with_2(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    for arguments in (["import", str(tmp_path / "none.yaml")], ["import", str(tmp_path / "latin.yaml")],
                      ["export", "openslo", str(tmp_path / "none.yaml")]):  # fmt: skip
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("plimsoll: ")


def test_import_export_import_gives_the_same(tmp_path: Path) -> None:
    source, kept, written = tmp_path / "slo.yml", tmp_path / "kept.json", tmp_path / "open.yaml"
    source.write_text(texts()["sloth/examples/getting-started.yml"])
    assert run("import", str(source), "-o", str(kept)).returncode == 0
    assert run("export", "openslo", str(kept), "-o", str(written)).returncode == 0
    first, again = json.loads(kept.read_text()), json.loads(run("import", "--json", str(written)).stdout)
    assert first["imported"]["slos"] == again["imported"]["slos"]
    assert first["imported"]["slos"][0]["target"] == "999/1000"


def test_an_export_says_what_openslo_cannot_say(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(texts()["slo-generator/samples/test/test1.yaml"])
    done = run("export", "openslo", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "this SLO tells no total" in done.stderr


def test_a_policy_is_exported_and_read_again(tmp_path: Path) -> None:
    written = tmp_path / "open.yaml"
    assert run("export", "openslo", str(EXAMPLE), "-o", str(written)).returncode == 0
    slos = json.loads(run("import", "--json", str(written)).stdout)["imported"]["slos"]
    assert {slo["meta"]["name"] for slo in slos} >= {"acme-ttft", "acme-itl", "acme-availability"}
    assert slos[0]["window"]["unit"] == "M"


def test_llm_objectives_are_printed_as_tiers(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(SLOTH.format(le="0.8"))
    done = run("import", str(path), "--as-policy")
    assert done.returncode == 0
    assert "sli: ttft\n        below: 800ms\n        target: 99.5%\n" in done.stdout


def test_rules_are_written_with_their_tests(tmp_path: Path) -> None:
    rule_file, test_file = tmp_path / "r.yml", tmp_path / "t.yml"
    done = run("rules", str(EXAMPLE), "-o", str(rule_file), "--tests", str(test_file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "alert: PlimsollBudgetBurn" in rule_file.read_text()
    assert "rule_files:\n  - r.yml\n" in test_file.read_text()
    assert "_bucket" not in run("rules", str(EXAMPLE), "--native").stdout


def test_export_and_rules_as_json(tmp_path: Path) -> None:
    """The same as in YAML, which reads back alike."""
    told = json.loads(run("export", "openslo", str(EXAMPLE), "--json").stdout)
    assert {each["kind"] for each in told["openslo"]} == {"SLO"}
    assert told["lost"] == told["faults"] == []
    written = tmp_path / "rules.json"
    assert run("rules", str(EXAMPLE), "--json", "-o", str(written)).returncode == 0
    plain = run("rules", str(EXAMPLE)).stdout
    assert json.loads(written.read_text()) == YAML(typ="safe").load(plain)

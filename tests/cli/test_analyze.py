"""`plimsoll analyze` end to end: what other commands say of its directory is what it said."""

import json
from pathlib import Path

from tests.cli.running import Done
from tests.cli.running import run as run_texts
from tests.foreign import samples


def run(*arguments: str | Path) -> Done:
    return run_texts(*map(str, arguments))


def test_everything_works_on_what_it_leaves(tmp_path: Path) -> None:
    log = samples.write(tmp_path, "access.log", samples.ENVOY)
    kept, page = tmp_path / "kept", tmp_path / "page.html"
    done = run("analyze", log, "--out", kept, "--html", page, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["account"]["num"] == found["tails"]["num"] == found["report"]["total"]["num"] == 3
    tails = json.loads(run("tails", kept, "--by", "tenant,pool", "--json").stdout)
    assert tails["groups"] == found["tails"]["groups"]
    for command in ("report", "diagnose", "journal"):
        assert run(command, kept).returncode == 0
    assert run("tails", kept, "--tenant", "globex").returncode == 0
    text = page.read_text()
    assert "What the files could tell" in text
    assert "no inference endpoint" in text
    assert "prefers-color-scheme: dark" in text
    assert "src=" not in text


def test_the_terminal_says_what_it_found_and_what_not(tmp_path: Path) -> None:
    done = run("analyze", samples.write(tmp_path, "access.log", samples.ENVOY))
    assert "Envoy access log" in done.stdout
    assert "3 of 5 rows counted" in " ".join(done.stdout.split())
    assert "cannot tell" in done.stdout
    refused = run("analyze", samples.write(tmp_path, "x.log", "hello\n"))
    assert refused.returncode == 2
    assert "--map arrived_at=COLUMN" in refused.stderr

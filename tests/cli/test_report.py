"""`plimsoll report` on a data directory, as it is run."""

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.cli.logwindow import instant
from plimsoll.cli.report import make
from plimsoll.errors import UsageError
from plimsoll.governor.decisions import Settle
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from tests.analytics.records import POLICY, POLICY_TEXT, START, record
from tests.cli.running import Inside, run


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 400 requests: the first 300 projected, the rest in the journal's tail."""
    root = tmp_path_factory.mktemp("report") / "data"
    journal = Journal.open(root, 1)
    journal.policy(START, POLICY)
    first = journal.next_request_id
    for i in range(400):
        tenant, tier = (("acme", "gold"), ("batch", "bronze"))[i % 2]
        fields: dict[str, Any] = {"ttft": 0.2 + i / 1000, "tenant": tenant, "tier": tier, "cause": "agent"}
        if i % 40 == 0:
            fields |= {"outcome": Outcome.REJECTED, "reason": Reason.QUEUE_FULL, "ttft": None, "lasted": 0.0}
        journal.settle(Settle(record(first + i, float(i), **fields), ()))
        if i == 300:
            journal.flush()
            with Projections(root) as projections:
                projections.advance(force=True)
    journal.flush()
    journal.close()
    (root / "policy.yaml").write_text(POLICY_TEXT)
    return root


def test_the_tables_show_everything_once(home: Path) -> None:
    done = run("report", str(home))
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("400 requests", "acme (gold)", "tier bronze", "cause agent", "queue_full 10 (rejected)", "99% ≤ 1s"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout


def test_json_conserves_and_windows_cut(home: Path, inside: Inside) -> None:
    data = json.loads(inside("report", str(home), "--json").stdout)
    assert data["total"]["num"] == sum(data["total"]["outcomes"].values()) == 400
    assert data["num_repeated"] == 0
    assert data["policy_versions"] == [POLICY.version]
    last = json.loads(inside("report", str(home), "--json", "--since", "99s", "--tenant", "acme").stdout)
    assert last["total"]["num"] == 50
    budget = last["tenants"][0]["objectives"][0]["budgets"][0]
    assert (budget["period"], budget["num_judged"]) == ("2026-11", 200)


def test_a_page_is_written(home: Path, tmp_path: Path, inside: Inside) -> None:
    path = tmp_path / "report.html"
    done = inside("report", str(home), "--html", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert path.read_text().startswith("<!doctype html>")
    assert inside("report", str(home), "--html", str(tmp_path / "no" / "such.html")).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/nowhere",), "is no data directory"),
        (("HOME", "--since", "yesterday"), "'yesterday' is no time"),
        (("HOME", "--since", "1h", "--until", "2h"), "is not before"),
        (("HOME", "--tenant", "acmee"), "known: acme, globex, batch"),
        (("HOME", "--policy", "/nowhere.yaml"), "cannot read the policy"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    home: Path, inside: Inside, arguments: tuple[str, ...], message: str
) -> None:
    done = inside("report", *[str(home) if each == "HOME" else each for each in arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_reading_changes_nothing(home: Path) -> None:
    """But for what SQLite lays beside a database for its readers: an index in shared memory and an empty log."""

    def state() -> dict[Path, int]:
        found = sorted(path for path in home.rglob("*") if not path.name.endswith("-shm"))
        return {
            path: path.stat().st_mtime_ns
            for path in found
            if not (path.name.endswith("-wal") and not path.stat().st_size)
        }

    before = state()
    make(home, since=None, until=None, tenant=None, policy=None)
    assert state() == before


def test_the_folder_around_a_data_directory_will_do(home: Path, inside: Inside) -> None:
    assert json.loads(inside("report", str(home.parent), "--json").stdout)["source"] == str(home)


def test_times_are_read_in_the_services_zone() -> None:
    assert instant("2026-11-01", "Asia/Shanghai", None) == 1_793_462_400.0
    assert instant("2026-11-01T00:00+00:00", "Asia/Shanghai", None) == 1_793_491_200.0
    assert instant("2h", "UTC", 10_000.0) == 2800.0
    with pytest.raises(UsageError, match="is no time"):
        instant("soon", "UTC", 0.0)

"""`plimsoll budget forecast` and `backtest` on a log of six weeks, and on what is none."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plimsoll.storage.columns import table_of
from plimsoll.storage.hourly import hours_of
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside, run
from tests.storage.rows import NOVEMBER, POLICY, settle

HOURS = 42 * 24
FIRST = int(NOVEMBER // 3600)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three requests an hour, six by day; every seventh is late."""
    arrivals = [(hour, i) for hour in range(HOURS) for i in range(6 if 8 <= (FIRST + hour) % 24 < 20 else 3)]
    settles = [
        settle(number, bad=number % 7 == 0, arrived_at=(FIRST + hour) * 3600 + 60.0 * i)
        for number, (hour, i) in enumerate(arrivals)
    ]
    folder = tmp_path_factory.mktemp("log")
    half = len(settles) // 2
    for name, part in (("one", settles[:half]), ("two", settles[half:])):
        pq.write_table(table_of(part, list(range(len(part)))), folder / f"{name}.parquet")
    return folder


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def test_hours_add_up(log: Path) -> None:
    hours = hours_of(log)["acme", "ttft"]
    assert [each.hour for each in hours] == [FIRST + i for i in range(HOURS)]
    assert {each.num_judged for each in hours} == {3, 6}
    assert sum(each.num_bad for each in hours) == -(-sum(each.num_judged for each in hours) // 7)
    assert sum(each.num_bad for each in hours_of(log)["acme", "itl"]) == 2 * sum(each.num_judged for each in hours)


def test_backtest_tells_coverage_and_losses(plimsoll: Inside, log: Path) -> None:
    done = plimsoll("budget", "backtest", str(log), "--every", "48h", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {each["objective"] for each in found["objectives"]} == {"ttft", "itl", "availability"}
    ttft = next(each for each in found["objectives"] if each["objective"] == "ttft")
    assert ttft["num"] == 14
    assert ttft["covered_ratio"] > 0.9, "regular as a clock"
    assert set(ttft["naive_pinball"]) > {"same hour yesterday", "same hour last week", "current burn held"}
    assert ttft["pinball"] < ttft["naive_pinball"]["current burn held"]
    table = plimsoll("budget", "backtest", str(log / "one.parquet")).stdout
    assert "same hour last week" in table
    assert "availability" in table


def test_forecast_is_of_the_end_of_the_log(plimsoll: Inside, log: Path) -> None:
    found = json.loads(plimsoll("budget", "forecast", str(log), "--json").stdout)
    ttft = next(each for each in found if each["objective"] == "ttft")
    assert ttft["at"] == (FIRST + HOURS) * 3600
    assert ttft["forecast"]["state"] == "forecast"
    assert ttft["forecast"]["next_day"]["expected"] == pytest.approx(108 / 7, abs=1.5)
    early = json.loads(plimsoll("budget", "forecast", str(log), "--json", "--at", "41d").stdout)
    assert {each["forecast"]["state"] for each in early} == {"cold start"}
    assert all(each["forecast"]["next_day"] is None for each in early)
    assert "cold start" in plimsoll("budget", "forecast", str(log), "--at", "41d").stdout


def test_known_changes_come_from_the_command_and_from_the_policy(plimsoll: Inside, tmp_path: Path) -> None:
    """Ten days of a log; from its end on spent twice as fast, by one's own word, by the policy's, or not at all."""
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    for number in range(10 * 24 * 6):
        at = NOVEMBER + 600.0 * number
        journal.opened(number, "acme", "gold", at)
        journal.settle(settle(number, bad=number % 10 == 0, arrived_at=at))
    journal.close()

    def expected(*words: str) -> float:
        found = json.loads(plimsoll("budget", "forecast", str(tmp_path), "--json", *words).stdout)
        return float(next(each["forecast"]["next_day"]["expected"] for each in found if each["objective"] == "ttft"))

    plain = expected()
    end = f"{datetime.fromtimestamp(NOVEMBER + 10 * 86_400, UTC):%Y-%m-%dT%H:%MZ}"
    assert expected("--step", f"{end}=2") == pytest.approx(2 * plain, rel=0.1)
    text = (
        "plimsoll: 1\ntiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 800ms, target: 95%}]}]\n"
        "tenants: [{name: acme, tier: gold}]\npools: [{name: c, model: m, engine: vllm, replicas: ['http://r1']}]\n"
    )
    (tmp_path / "policy.yaml").write_text(f"{text}budget: {{changes: [{{from: {end}, factor: 200%}}]}}\n")
    assert expected() == pytest.approx(2 * plain, rel=0.1)
    assert expected("--step", f"{end}=0.5") == pytest.approx(plain, rel=0.1)
    until = f"{datetime.fromtimestamp(NOVEMBER + 12 * 86_400, UTC):%Y-%m-%dT%H:%MZ}"
    window = f"{{kind: planned_move, from: {end}, until: {until}}}"
    (tmp_path / "policy.yaml").write_text(f"{text}budget: {{exceptions: [{window}]}}\n")
    assert expected() == 0.0
    for wrong in ("2026-12-01", "2026-12-01=fast", "2026-12-01=0", "2026-12-01=1001", "tomorrow=2"):
        told = plimsoll("budget", "forecast", str(tmp_path), "--step", wrong)
        assert (told.returncode, told.stderr.count("\n")) == (2, 1)


def test_backtest_knows_what_the_policy_knows(plimsoll: Inside, tmp_path: Path) -> None:
    """Twenty days; from the sixteenth on four times as much is spent, which the policy foresaw, or did not."""
    journal, changed_at, number = Journal.open(tmp_path), NOVEMBER + 16 * 86_400, 0
    journal.policy(NOVEMBER, POLICY)
    for hour in range(20 * 24):
        at = NOVEMBER + 3600.0 * hour
        for place in range(20):
            number += 1
            bad = place < (1 if at < changed_at else 4)
            journal.settle(settle(number, bad=bad, arrived_at=at + 30 * place))
    journal.close()
    text = (
        "plimsoll: 1\ntiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 800ms, target: 95%}]}]\n"
        "tenants: [{name: acme, tier: gold}]\npools: [{name: c, model: m, engine: vllm, replicas: ['http://r1']}]\n"
    )
    since = f"{datetime.fromtimestamp(changed_at, UTC):%Y-%m-%dT%H:%MZ}"

    def found(more: str) -> tuple[float, float]:
        (tmp_path / "policy.yaml").write_text(text + more)
        told = json.loads(plimsoll("budget", "backtest", str(tmp_path), "--json").stdout)
        ttft = next(each for each in told["objectives"] if each["objective"] == "ttft")
        return ttft["pinball"], ttft["covered_ratio"]

    pinball, covered = found("")
    informed, informed_covered = found(f"budget: {{changes: [{{from: {since}, factor: 400%}}]}}\n")
    assert informed < pinball / 2
    assert informed_covered > covered


@pytest.mark.parametrize(("num", "word"), [(150, "cold start"), (50, "too few")])
def test_a_young_log_has_one_word_in_all_commands(plimsoll: Inside, tmp_path: Path, num: int, word: str) -> None:
    """Ten minutes of traffic, not one whole hour."""
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    for number in range(num):
        journal.settle(settle(number + 1, bad=number == 0, arrived_at=NOVEMBER + 4 * number))
    journal.close()
    (tmp_path / "policy.yaml").write_text(
        "plimsoll: 1\ntiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 800ms, target: 95%}]}]\n"
        "tenants: [{name: acme, tier: gold}]\npools: [{name: c, model: m, engine: vllm, replicas: ['http://r1']}]\n"
    )
    assert plimsoll("project", str(tmp_path)).returncode == 0
    told = json.loads(plimsoll("budget", "forecast", str(tmp_path), "--json").stdout)
    assert [each["forecast"]["state"] for each in told if each["objective"] == "ttft"] == [word]
    rows = json.loads(plimsoll("budget", "status", str(tmp_path), "--json").stdout)["budgets"]
    assert [row["outlook"]["state"] for row in rows if row["objective"] == "ttft"] == [word]
    assert f"unknown ({word})" in plimsoll("budget", "explain", str(tmp_path), "acme").stdout


def test_a_budget_with_books_tells_when_it_will_be_gone(plimsoll: Inside, tmp_path: Path) -> None:
    """Nine days of a month in which every tenth request is late, under a plan of the last seven days' traffic."""
    journal = Journal.open(tmp_path)
    journal.policy(NOVEMBER, POLICY)
    for number in range(9 * 24 * 4):
        at = NOVEMBER + 900.0 * number
        journal.opened(number, "acme", "gold", at)
        journal.settle(settle(number, bad=number % 10 == 0, arrived_at=at))
    journal.close()
    (tmp_path / "policy.yaml").write_text(
        "plimsoll: 1\ntiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 800ms, target: 95%}]}]\n"
        "tenants: [{name: acme, tier: gold}]\npools: [{name: c, model: m, engine: vllm, replicas: ['http://r1']}]\n"
    )
    assert plimsoll("project", str(tmp_path)).returncode == 0
    found = json.loads(plimsoll("budget", "forecast", str(tmp_path), "--json").stdout)
    ttft = next(each["forecast"] for each in found if each["objective"] == "ttft")
    assert ttft["next_day"]["expected"] == pytest.approx(9.6, abs=1.5)
    assert ttft["hours_to_exhaustion"] is not None
    assert " h (" in plimsoll("budget", "forecast", str(tmp_path)).stdout


@pytest.mark.parametrize("command", ["forecast", "backtest"])
def test_what_is_no_log_is_told_in_one_line(plimsoll: Inside, tmp_path: Path, command: str) -> None:
    nowhere = plimsoll("budget", command, str(tmp_path / "nowhere"))
    assert nowhere.returncode == 2
    assert "no log at" in nowhere.stderr
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    other = plimsoll("budget", command, str(tmp_path / "other.parquet"))
    assert other.returncode == 2
    assert "not a request log" in other.stderr
    assert other.stderr.count("\n") == 1


def test_options_that_make_no_sense(plimsoll: Inside, log: Path) -> None:
    assert "--every" in plimsoll("budget", "backtest", str(log), "--every", "90min").stderr
    assert "'nobody'" in plimsoll("budget", "forecast", str(log), "--tenant", "nobody").stderr
    assert "nowhere/land" in plimsoll("budget", "backtest", str(log), "--timezone", "nowhere/land").stderr.lower()


def test_help_lists_the_budget_commands() -> None:
    assert "backtest" in run("budget", "--help").stdout

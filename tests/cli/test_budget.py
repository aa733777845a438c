"""`plimsoll budget …` on a data directory as a gateway leaves it, without one running."""

import csv
import io
import json
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from plimsoll.ledger.accounts import account_of
from plimsoll.policy import document
from plimsoll.slo.budget import period_bounds
from plimsoll.slo.verdict import Charge
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.periods import period_for
from tests.cli.running import Inside
from tests.storage.budgetworld import END, TEXT, World

UPSTREAM = ("--charged", "upstream", "--why", "x", "--month", "2026-11")


@pytest.fixture
def plimsoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some traffic; acme has spent 185 of the 200 that are planned. Nobody writes to this one."""
    world = World(tmp_path_factory.mktemp("kept") / "data")
    world.requests("acme", 7000, 150)
    world.requests("acme", 50, 35, Charge.UPSTREAM)
    world.requests("beta", 5000, 1)
    world.minute()
    world.close()
    return world.home


@pytest.fixture
def home(kept: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(kept, tmp_path / "data"))


def test_status(plimsoll: Inside, home: Path) -> None:
    told = json.loads(plimsoll("budget", "status", str(home), "--tenant", "acme", "--json").stdout)
    (ttft,) = [row for row in told["budgets"] if row["objective"] == "ttft"]
    assert (ttft["granted"], ttft["num_spent"], ttft["remaining"]) == (70, 185, -115)
    assert ttft["spent"] == {"ours": 150, "upstream": 35}
    assert (ttft["health"], ttft["planned"]) == ("warn", 200)
    assert {row["tenant"] for row in told["budgets"]} == {"acme"}
    shown = plimsoll("budget", "status", str(home)).stdout
    assert "warn" in shown
    assert "150 ours, 35 upstream" in shown
    with LedgerDatabase(home / "ledger.sqlite") as books, books.writing() as connection:
        connection.exec_driver_sql("DELETE FROM states")
    anew = json.loads(plimsoll("budget", "status", str(home), "--tenant", "acme", "--json").stdout)
    (again,) = [row for row in anew["budgets"] if row["objective"] == "ttft"]
    assert {
        key: value for key, value in again.items() if key not in {"at", "outlook", "burn", "planned", "spent_ratio"}
    } == {key: value for key, value in ttft.items() if key not in {"at", "outlook", "burn", "planned", "spent_ratio"}}


def test_explanations_have_the_numbers_in_them(plimsoll: Inside, kept: Path) -> None:
    told = json.loads(plimsoll("budget", "explain", str(kept), "acme", "--json").stdout)
    (ttft,) = [each for each in told if each["objective"] == "ttft"]
    figures = {each["figure"]: (each["value"], each["formula"]) for each in ttft["figures"]}
    assert figures["granted"] == ("70", "⌊7,050 × (1 − 0.99)⌋")
    assert figures["pool part"] == ("14", "⌊0.2 × 70⌋")
    assert figures["spent"] == ("185", "150 ours + 35 upstream")
    assert figures["may borrow"] == ("520", "⌊7,050 × (1 − 0.9)⌋ − spent 185, floored at 0")
    assert "20,000 committed a month" in figures["planned"][1]
    ((key, action),) = ttft["actions"].items()
    assert (action["before"], action["after"]) == ("healthy", "warn")
    assert key in plimsoll("budget", "explain", str(kept), "acme").stdout


def test_a_statement_adds_up_for_both_sides(plimsoll: Inside, kept: Path, tmp_path: Path) -> None:
    page, table = tmp_path / "s.html", tmp_path / "s.csv"
    assert (
        plimsoll(
            "budget", "statement", str(kept), "acme", "2026-11", "--html", str(page), "--csv", str(table)
        ).returncode
        == 0
    )
    balances: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(table.read_text())):
        balances[row["to"]] += int(row["amount"])
        balances[row["from"]] -= int(row["amount"])
    assert sum(balances.values()) == 0
    with LedgerDatabase(kept / "ledger.sqlite") as books:
        for (account, _), amount in books.balances().items():
            if account_of(account).owner.tenant == "acme":
                assert balances[account] == amount
    assert "Both sides sum to zero." in page.read_text()
    assert "beta" not in page.read_text() + table.read_text()


def test_close_again_and_too_early(plimsoll: Inside, kept: Path) -> None:
    early = plimsoll("budget", "close", str(kept), "2999-01")
    assert early.returncode == 2
    assert "2999-01 is not over in Asia/Shanghai: it can be closed from 2999-02-01T16:00Z on" in early.stderr
    assert "nothing was booked for 2020-01" in plimsoll("budget", "close", str(kept), "2020-01").stderr
    assert "'2026-13' is no month" in plimsoll("budget", "close", str(kept), "2026-13").stderr


def test_an_override_and_its_undoing(plimsoll: Inside, home: Path) -> None:
    words = ("budget", "override", str(home), "acme", "--lasts", "3d", "--why", "a talk", "--json")
    made = json.loads(plimsoll(*words).stdout)
    assert made["how"] == "journaled and booked"
    undone = plimsoll("budget", "undo", str(home), made["key"])
    assert undone.stdout == f"undo/{made['key']}: journaled and booked\n"
    assert "ended with its month" in plimsoll("budget", "undo", str(home), action_of(plimsoll, home)).stderr
    assert plimsoll("ledger", "verify", str(home)).returncode == 0
    journal = Journal.open(home)
    try:
        handed = json.loads(plimsoll(*words).stdout)
        assert handed["how"].startswith("handed to the gateway")
        assert [each.key for each in Inbox(DataDirectory(home).root).waiting()] == [handed["key"]]
    finally:
        journal.close()


def test_an_action_of_this_month_is_undone(plimsoll: Inside, tmp_path: Path) -> None:
    """The command looks at the real clock, so the world stands in the month that this has."""
    now = time.time()
    begin, _ = period_bounds(period_for(now, "acme", document.parse(TEXT)), "Asia/Shanghai")
    world = World(tmp_path / "data", max(now - 120, begin + 60))
    world.requests("acme", 7000, 450)  # more than is planned, however much of the month is left
    world.minute()
    world.close()
    key = action_of(plimsoll, world.home)
    assert json.loads(plimsoll("budget", "undo", str(world.home), key, "--json").stdout)["key"] == f"undo/{key}"
    assert plimsoll("ledger", "verify", str(world.home)).returncode == 0


def action_of(plimsoll: Inside, home: Path) -> str:
    """The key of what was done about acme's budget."""
    told = json.loads(plimsoll("budget", "explain", str(home), "acme", "--json").stdout)
    (key,) = next(each["actions"] for each in told if each["objective"] == "ttft")
    return str(key)


def test_a_correction_and_its_undoing(plimsoll: Inside, home: Path) -> None:
    """30 were ours, not upstream's; 20 were not bad at all; then they were after all."""

    def spent() -> dict[str, int]:
        with LedgerDatabase(home / "ledger.sqlite") as books:
            found = books.balances()
        names = ("bucket", "spent:ours", "spent:upstream")
        return {name: found["acme/ttft/" + name, "2026-11"] for name in names}

    def correct(num: int, *words: str) -> str:
        common = ("budget", "correct", str(home), "acme", "ttft", str(num), "--month", "2026-11", "--why", "agreed")
        done = plimsoll(*common, *words, "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert made["how"] == "journaled and booked"
        return str(made["key"])

    before = spent()
    correct(30, "--charged", "upstream", "--to", "ours")
    assert spent() == {**before, "spent:ours": 180, "spent:upstream": 5}
    key = correct(20, "--charged", "ours")
    assert spent() == {"bucket": before["bucket"] + 20, "spent:ours": 160, "spent:upstream": 5}
    assert plimsoll("budget", "undo", str(home), key).stdout == f"undo/{key}: journaled and booked\n"
    assert spent() == {**before, "spent:ours": 180, "spent:upstream": 5}
    assert f"{key} is undone already" in plimsoll("budget", "undo", str(home), key).stderr
    assert f"undo/{key} is an undoing" in plimsoll("budget", "undo", str(home), f"undo/{key}").stderr
    assert plimsoll("ledger", "verify", str(home)).returncode == 0
    assert plimsoll("ledger", "rebuild", str(home)).returncode == 0
    assert spent() == {**before, "spent:ours": 180, "spent:upstream": 5}
    table = plimsoll("budget", "statement", str(home), "acme", "2026-11").stdout
    assert "correct,acme/ttft/spent:upstream,acme/ttft/spent:ours,30" in table
    assert "why agreed" in plimsoll("journal", str(home), "--kind", "decision").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("status", "{home}", "--tenant", "nobody"), "no tenant is named 'nobody'; known: acme, beta"),
        (("explain", "{home}", "nobody"), "no tenant is named 'nobody'"),
        (("statement", "{home}", "nobody", "2026-11"), "no tenant is named 'nobody'"),
        (("statement", "{home}", "acme", "November"), "'November' is no month: write 2026-11"),
        (("statement", "{home}", "acme", "2026-10"), "nothing was booked for acme in 2026-10"),
        (("override", "{home}", "acme", "--lasts", "0s"), "must be above 0s"),
        (("override", "{home}", "acme", "--lasts", "1h", "--objective", "tpot"), "acme has no objective 'tpot'"),
        (("undo", "{home}", "override/none"), "no decision has the key 'override/none'"),
        (("correct", "{home}", "acme", "ttft", "36", *UPSTREAM), "only 35 are charged to upstream"),
        (("correct", "{home}", "acme", "ttft", "0", *UPSTREAM), "at least one is corrected"),
        (("correct", "{home}", "acme", "ttft", "1", *UPSTREAM, "--to", "upstream"), "charged to upstream already"),
        (("correct", "{home}", "acme", "tpot", "1", *UPSTREAM), "acme has no objective 'tpot'"),
        (("correct", "{home}", "nobody", "ttft", "1", *UPSTREAM), "no tenant is named 'nobody'"),
        (("correct", "{home}", "acme", "ttft", "1", "--charged", "ours", "--why", "x", "--month", "May"), "no month"),
        (("status", "/nowhere/at/all"), "is no data directory"),
    ],
)
def test_what_makes_no_sense_is_one_line(plimsoll: Inside, kept: Path, words: tuple[str, ...], message: str) -> None:
    done = plimsoll("budget", *[word.format(home=kept) for word in words])
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_month_that_is_over_is_closed_once(plimsoll: Inside, tmp_path: Path) -> None:
    world = World(tmp_path / "data", begun=END - 400 * 86_400)
    world.requests("acme", 3000, 10)
    world.minute()
    world.close()
    period = "2025-10"
    first = plimsoll("budget", "close", str(world.home), period)
    assert first.stdout == f"close/Asia/Shanghai/{period}/1: journaled and booked\n"
    assert (
        plimsoll("budget", "close", str(world.home), period).stdout
        == f"{period} is closed, and nothing came in since\n"
    )
    with LedgerDatabase(world.home / "ledger.sqlite") as books:
        assert books.balances()["acme/ttft/bucket", period] == 0
        assert books.balances()["world/ttft/expired", period] == 20
    undone = plimsoll("budget", "undo", str(world.home), f"close/Asia/Shanghai/{period}/1")
    assert (undone.returncode, "would follow again" in undone.stderr) == (2, True)
    words = ("--charged", "ours", "--why", "x", "--month", period)
    late = plimsoll("budget", "correct", str(world.home), "acme", "ttft", "1", *words)
    assert f"{period} is closed in Asia/Shanghai: what it came to stands" in late.stderr
    assert plimsoll("ledger", "verify", str(world.home)).returncode == 0

"""From a journal to a webhook: what the projector's process tells people."""

import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.cli.alerting import KEPT, Alerting
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.assessment import UNFORESEEN, Row
from plimsoll.ledger.figures import History
from plimsoll.policy.alerts import AlertChannel, AlertRules
from plimsoll.policy.objective import RunObjective
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.budgetminute import Minute
from plimsoll.storage.journal import Journal
from tests.storage.rows import POLICY, settle
from tests.telemetry.receiver import Receiver, until

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise imports it
RULES = AlertRules((AlertChannel("hook", "TEST_ALERT_HOOK"),), resolve_after=0.0)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    made = Receiver()
    monkeypatch.setenv("TEST_ALERT_HOOK", made.url)
    yield made
    made.close()


def minute(at: float, health: BudgetHealth) -> Minute:
    row = Row(
        at, "acme", "ttft", "gold", "ttft", "requests", "2026-11", "UTC", 0.995, None, 100, 100, 0, 1, 1, 0, 100, {},
        90, 10, 0.9, 0, 0, 0, 0, 0, 0, 0, (None, None, None), UNFORESEEN, health, acted=False,
    )  # fmt: skip
    return Minute(at, (row,), (), ())


def test_what_holds_is_told_and_its_end(receiver: Receiver, tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    now = time.time()
    for number in range(200):
        journal.opened(number, "acme", "gold", now - 200)
        journal.settle(settle(number, bad=number % 2 == 0, arrived_at=now - 200 + number / 2))
    journal.close()
    said: list[str] = []
    alerting = Alerting(tmp_path, said.append)
    alerting(POLICY, minute(now, BudgetHealth.WARN), {})
    assert not receiver.got, "the policy names no channel"
    promised = replace(POLICY, alerts=RULES)
    alerting(promised, minute(now, BudgetHealth.WARN), {})
    until(lambda: len(receiver.got) == 2)
    titles = sorted(each["title"] for each in receiver.got)
    assert titles[0].startswith("[firing] acme: the error budget of ttft burns more than 14.4 times too fast")
    assert titles[1] == "[firing] acme: the error budget of ttft is nearly spent"
    alerting(promised, minute(now + 7200, BudgetHealth.HEALTHY), {})
    until(lambda: len(receiver.got) == 3)
    assert receiver.got[2]["title"] == "[resolved] acme: the error budget of ttft is nearly spent", (
        "three days still burn"
    )
    alerting.close()
    assert (tmp_path / KEPT).exists()
    assert said == []


def test_runs_that_burn_are_told_from_the_books(receiver: Receiver, tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    now = time.time()
    tiers = (replace(POLICY.tiers[0], run=RunObjective(60.0, Fraction(99, 100))),)
    told = minute(now, BudgetHealth.HEALTHY)
    history = History(
        minutes={int(now // 60) - back: (10, 5) for back in range(1, 60)}, hours={int(now // 3600): (9, 4)}
    )
    alerting = Alerting(tmp_path, lambda _: None)
    runs = Minute(now, (replace(told.rows[0], objective="run"),), (), ())
    alerting(replace(POLICY, tiers=tiers, alerts=RULES), runs, {Owner("acme", "run"): history})
    until(lambda: len(receiver.got) == 1)
    assert "error budget of run burns more than 14.4 times too fast" in receiver.got[0]["title"]
    alerting.close()


def test_trouble_is_said_once_and_mends_itself(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal.open(tmp_path).close()
    said: list[str] = []
    alerting = Alerting(tmp_path, said.append)
    promised = replace(POLICY, alerts=RULES)
    monkeypatch.delenv("TEST_ALERT_HOOK")
    now = time.time()
    for later in range(3):
        alerting(promised, minute(now + later, BudgetHealth.EXHAUSTED), {})
    assert said == ["no alerts are sent: alert channel hook: the environment variable TEST_ALERT_HOOK is not set"]
    monkeypatch.setenv("TEST_ALERT_HOOK", receiver.url)
    alerting(promised, minute(now + 60, BudgetHealth.EXHAUSTED), {})
    alerting.close()
    assert [each["title"] for each in receiver.got] == ["[firing] acme: the error budget of ttft is exhausted"]

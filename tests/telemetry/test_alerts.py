"""Alerts over a real wire: apprise's webhook to a receiver that is slow, down or full at will."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.analytics.burn import Burning
from plimsoll.errors import UsageError
from plimsoll.ledger.assessment import UNFORESEEN, Outlook, Row
from plimsoll.policy.alerts import AlertChannel, AlertRules, Severity
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.burnrate import BurnState
from plimsoll.telemetry.alertdesk import Alert, Message
from plimsoll.telemetry.alerts import Alerts, sender
from plimsoll.telemetry.budgetalerts import alerts_of
from tests.telemetry.receiver import Receiver, until

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise imports it


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


RULES = AlertRules((AlertChannel("hook", "HOOK"),), resolve_after=0.0)
BURNS = Alert("burn/acme/ttft", Severity.PAGE, "acme: ttft burns", "14 times too fast")


def test_told_once_then_resolved_and_kept_over_a_restart(receiver: Receiver, tmp_path: Path) -> None:
    send = sender(RULES, {"HOOK": receiver.url})
    said: list[str] = []
    kept = tmp_path / "alerts.json"
    first = Alerts(RULES, send, said.append, kept=kept)
    began = time.time()
    for second in range(3):
        first.update(began + second, [BURNS])
    until(lambda: len(receiver.got) == 1)
    first.close()
    assert receiver.got[0]["title"] == "[firing] acme: ttft burns"
    assert receiver.got[0]["message"] == "14 times too fast"
    assert receiver.got[0]["type"] == "failure"
    second_run = Alerts(RULES, send, said.append, kept=kept)
    second_run.update(time.time(), [BURNS])
    time.sleep(0.7)
    assert len(receiver.got) == 1, "it was told before the restart"
    second_run.update(time.time() + 1, [])
    second_run.close()
    assert [each["title"] for each in receiver.got[1:]] == ["[resolved] acme: ttft burns"]
    assert receiver.got[1]["type"] == "success"
    assert said == []


def test_a_receiver_that_is_down_is_tried_again_and_holds_nobody_up(receiver: Receiver) -> None:
    receiver.status = 503
    said: list[str] = []
    alerts = Alerts(RULES, sender(RULES, {"HOOK": receiver.url}), said.append)
    began = time.monotonic()
    alerts.update(time.time(), [BURNS])
    assert time.monotonic() - began < 0.1
    until(lambda: receiver.refused >= 2)
    receiver.status = 200
    until(lambda: len(receiver.got) == 1)
    alerts.close()
    assert [line.split(":")[0] for line in said] == [
        "alert channel hook does not take messages",
        "alert channel hook takes messages again",
    ]


def test_a_fault_of_the_sender_is_a_failed_message_and_not_the_end_of_all_alerts() -> None:
    sent: list[str] = []

    def send(message: Message) -> bool:
        sent.append(message.title)
        if len(sent) == 1:
            raise TypeError("injected")
        return True

    said: list[str] = []
    alerts = Alerts(RULES, send, said.append)
    alerts.update(time.time(), [BURNS])
    until(lambda: len(sent) == 2)
    alerts.close()
    assert sent == ["[firing] acme: ttft burns"] * 2
    assert said[0] == "alert channel hook: the sender raised TypeError"
    assert said[-1] == "alert channel hook takes messages again"


def test_a_file_that_cannot_be_read_costs_a_repetition(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "alerts.json").write_text("{half")
    said: list[str] = []
    alerts = Alerts(RULES, sender(RULES, {"HOOK": receiver.url}), said.append, kept=tmp_path / "alerts.json")
    alerts.update(time.time(), [BURNS])
    alerts.close()
    assert len(receiver.got) == 1
    assert "cannot be read" in said[0]


def test_addresses_are_checked_at_the_start() -> None:
    with pytest.raises(UsageError, match="HOOK is not set"):
        sender(RULES, {})
    with pytest.raises(UsageError, match="no address that apprise knows"):
        sender(RULES, {"HOOK": "carrier-pigeon://roof"})


def rule(state: BurnState, severity: str = "page") -> Burning:
    return Burning(14.4, 3600.0, 300.0, severity, state, 33.0, 40.0)


def row(objective: str, health: BudgetHealth, outlook: Outlook = UNFORESEEN) -> Row:
    return Row(
        0.0, "acme", objective, "gold", "ttft", "requests", "2026-11", "UTC", 0.99, None, 100, 100, 0, 1, 1, 0, 100, {},
        90, 10, 0.9, 0, 0, 0, 0, 0, 0, 0, (None, None, None), outlook, health, acted=False,
    )  # fmt: skip


def test_what_holds_is_worth_an_alert_and_what_is_unknown_is_not() -> None:
    rows = [row(health.value, health) for health in BudgetHealth]
    quiet = {("acme", state.value): (rule(state),) for state in BurnState if state is not BurnState.BURNING}
    assert {(each.key, each.severity) for each in alerts_of(rows, quiet)} == {
        ("budget/acme/warn", Severity.TICKET),
        ("budget/acme/degraded", Severity.TICKET),
        ("budget/acme/exhausted", Severity.PAGE),
    }
    burning = {("acme", "ttft"): (rule(BurnState.QUIET), rule(BurnState.BURNING, "ticket"))}
    (burns,) = alerts_of([], burning)
    assert (burns.key, burns.severity) == ("burn/acme/ttft", Severity.TICKET)
    assert "33 times" in burns.body
    assert alerts_of([row("ttft", BudgetHealth.NOT_JUDGED)], burning) == [], "impatient clients page nobody"


def test_a_budget_that_will_soon_be_gone_is_told_before() -> None:
    def of(
        low: float, hours: float | None, high: float | None, health: BudgetHealth = BudgetHealth.HEALTHY
    ) -> list[str]:
        outlook = Outlook("forecast", 1, 2, 3, low, hours, high)
        return [f"{each.title}. {each.body}" for each in alerts_of([row("ttft", health, outlook)], {})]

    (soon,) = of(20.0, 31.0, None)
    assert "acme: the error budget of ttft will be gone in about 31 h" in soon
    assert "20 h or not at all this period" in soon
    assert of(50.0, 100.0, None) == []
    assert of(50.0, None, None) == []
    assert ["exhausted" in each for each in of(0.0, 0.0, 0.0, BudgetHealth.EXHAUSTED)] == [True]

"""Burn rates from a log are those from its settlements one by one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.analytics.burn import Recents, longest_window
from plimsoll.policy.budget import BudgetRules, ExceptionKind, ExceptionWindow
from plimsoll.slo.burnrate import BurnState
from plimsoll.slo.recent import NOTHING
from plimsoll.storage.burnlog import BurnWatch, recents_of
from plimsoll.storage.journal import Journal
from plimsoll.storage.query import connect
from tests.storage.rows import NOVEMBER, POLICY, settle


def test_log_and_settlements_agree(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    fed = Recents(longest_window(POLICY))
    for number in range(600):
        made = settle(number, bad=number > 500, arrived_at=NOVEMBER + 6.0 * number)
        journal.opened(number, "acme", "gold", NOVEMBER)
        journal.settle(made)
        for verdict in made.record.verdicts:
            counts = NOTHING.with_request(verdict.num_bad, verdict.num_good + verdict.num_bad)
            fed.add("acme", "gold", verdict.objective, made.record.finished_at, counts)
    watch = BurnWatch(tmp_path)
    journal.flush()
    first = watch.burning(POLICY, NOVEMBER + 3700)
    assert first == watch.burning(POLICY, NOVEMBER + 3700), "what was read is not read again"
    assert first == BurnWatch(tmp_path).burning(POLICY, NOVEMBER + 3700)
    assert first["acme", "ttft"][0].state is BurnState.BURNING
    gone = watch.burning(POLICY, NOVEMBER + 2 * 3600 + 60)["acme", "ttft"]
    assert [each.state for each in gone] == [BurnState.NO_TRAFFIC, BurnState.QUIET, BurnState.BURNING]
    journal.close()
    now = NOVEMBER + 3660
    with connect(tmp_path) as connection:
        read = recents_of(connection, POLICY, now).burning(POLICY, now)
    assert read == fed.burning(POLICY, now)
    states = [each.state for each in read["acme", "ttft"]]
    assert states == [BurnState.BURNING] * 3
    assert [each.severity for each in read["acme", "ttft"]] == ["page", "page", "ticket"]
    assert read["acme", "ttft"][0].long_rate == pytest.approx(99 / 600 / 0.005, rel=0.03)
    assert {each.state for each in read["acme", "availability"]} == {BurnState.QUIET}
    assert {each.state for each in read["beta", "ttft"]} == {BurnState.NO_TRAFFIC}
    assert {each.long_rate for each in read["beta", "ttft"]} == {None}


def test_what_arrives_in_a_window_of_exception_burns_nothing(tmp_path: Path) -> None:
    """An upgrade of ten minutes in which everything is late pages nobody; without the window it does."""
    journal = Journal.open(tmp_path)
    for number in range(600):
        journal.settle(settle(number + 1, bad=number < 100, arrived_at=NOVEMBER + 6.0 * number))
    journal.close()
    upgrade = ExceptionWindow(ExceptionKind.MODEL_UPGRADE, NOVEMBER, NOVEMBER + 600.0, ("acme",))
    excused = replace(POLICY, budget=BudgetRules(exceptions=(upgrade,)))
    now = NOVEMBER + 600.0
    states = [BurnWatch(tmp_path).burning(policy, now)["acme", "ttft"][0].state for policy in (POLICY, excused)]
    assert states == [BurnState.BURNING, BurnState.NO_TRAFFIC]
    others = replace(POLICY, budget=BudgetRules(exceptions=(replace(upgrade, tenants=("beta",)),)))
    assert BurnWatch(tmp_path).burning(others, now)["acme", "ttft"][0].state is BurnState.BURNING

"""The manual names every option of our budget commands, every state, every kind of entry, every charge."""

import importlib
from pathlib import Path

import pytest

from plimsoll.ledger.entry import EntryKind
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.verdict import Charge

TEXT = (Path(__file__).parents[2] / "docs" / "budgets.md").read_text()
COMMANDS = ("status", "explain", "statement", "close", "override", "correct", "undo")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_manual(name: str) -> None:
    section = TEXT.split(f"## `plimsoll budget {name}`")[1].split("\n## ")[0]
    command = getattr(importlib.import_module(f"plimsoll.cli.budget_{name}"), name)
    positional = (
        {"return", "directory", "key", "num"}
        | ({"objective"} if name == "correct" else {"month"})
        | ({"tenant"} if name != "status" else set())
    )
    options = [each for each in command.__annotations__ if each not in positional]
    assert options
    for option in options:
        assert f"--{option.replace('json_output', 'json').replace('ledger_url', 'ledger')}" in section, option


def test_every_state_kind_and_charge_is_in_the_manual() -> None:
    for health in BudgetHealth:
        assert f"| {health.value.replace('_', ' ')} |" in TEXT
    for kind in EntryKind:
        assert f"`{kind}`" in TEXT
    for charge in Charge:
        assert f"`{charge}`" in TEXT

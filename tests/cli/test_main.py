"""The command line as a whole: each command is listed with its own words, and known faults end in one line."""

import importlib
import inspect
import subprocess
import sys

import pytest

from plimsoll.cli.main import BUDGET_COMMANDS, COMMANDS, POLICY_COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says_of_itself(name: str) -> None:
    function = getattr(importlib.import_module(f"plimsoll.cli.{name}"), name)
    first = (inspect.getdoc(function) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    assert COMMANDS[name] == first


@pytest.mark.parametrize(
    ("group", "name", "told"),
    [("budget", *each) for each in BUDGET_COMMANDS.items()] + [("policy", *each) for each in POLICY_COMMANDS.items()],
)
def test_so_do_the_lists_of_commands_in_groups(group: str, name: str, told: str) -> None:
    function = getattr(importlib.import_module(f"plimsoll.cli.{group}_{name}"), name)
    assert told == (inspect.getdoc(function) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")


def test_a_known_fault_is_one_line_and_exit_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "plimsoll", "report", "/nowhere/at/all"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("plimsoll: ")
    assert done.stderr.count("\n") == 1

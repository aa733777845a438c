"""The command line as a whole: each command is listed with its own words, and known faults end in one line."""

import importlib
import inspect
import subprocess
import sys

import pytest

from plimsoll.cli.main import BUDGET_COMMANDS, COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says_of_itself(name: str) -> None:
    function = getattr(importlib.import_module(f"plimsoll.cli.{name}"), name)
    first = (inspect.getdoc(function) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    assert COMMANDS[name] == first


@pytest.mark.parametrize("name", BUDGET_COMMANDS)
def test_so_does_the_list_of_budget_commands(name: str) -> None:
    function = getattr(importlib.import_module(f"plimsoll.cli.budget_{name}"), name)
    first = (inspect.getdoc(function) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    assert BUDGET_COMMANDS[name] == first


def test_a_known_fault_is_one_line_and_exit_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "plimsoll", "report", "/nowhere/at/all"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("plimsoll: ")
    assert done.stderr.count("\n") == 1

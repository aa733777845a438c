"""docs/forecast.md against the code: states, options, and what is in the JSON."""

import inspect
import re
from pathlib import Path

import pytest

from plimsoll.analytics.forecast import Band, Forecast, ForecastState
from plimsoll.cli.budget_backtest import backtest
from plimsoll.cli.budget_forecast import forecast

TEXT = (Path(__file__).parents[2] / "docs" / "forecast.md").read_text(encoding="utf-8")


def test_states() -> None:
    table = TEXT[TEXT.index("| state |") : TEXT.index("A history in which")]
    assert set(re.findall(r"^\| `([a-z ]+)`", table, re.MULTILINE)) == {state.value for state in ForecastState}


@pytest.mark.parametrize("command", [forecast, backtest])
def test_options(command: object) -> None:
    name = getattr(command, "__name__", "")
    section = TEXT.split(f"## `plimsoll budget {name}`")[1].split("\n## ")[0]
    parameters = inspect.signature(command).parameters.values()  # type: ignore[arg-type]
    options = {
        f"--{each.name.replace('json_output', 'json').replace('ledger_url', 'ledger')}"
        for each in parameters
        if each.kind is each.KEYWORD_ONLY
    }
    assert set(re.findall(r"^\| `(--[a-z]+)`", section, re.MULTILINE)) == options


def test_fields() -> None:
    for shape in (Forecast, Band):
        for field in shape.__struct_fields__:
            assert f"`{field}`" in TEXT

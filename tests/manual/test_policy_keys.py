"""The manual names every key of the policy and no other, every option of our commands, every field of a report."""

import re
from pathlib import Path

import msgspec
import pytest

from plimsoll.analytics import figures
from plimsoll.analytics.attainment import Attainment, Goodput
from plimsoll.cli.check import check
from plimsoll.cli.report import report
from plimsoll.policy import document

DOCS = Path(__file__).parents[2] / "docs"


def test_every_policy_key_has_its_row_and_no_row_is_of_another() -> None:
    rows = re.findall(r"^\| `([\w.\[\]]+)` \|", (DOCS / "policy.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == set(document.known_keys())
    assert len(rows) > 70


def test_every_sections_keys_are_those_of_its_struct() -> None:
    """A field that a policy's values have can be written, under its own name."""
    keys = {key.rsplit(".", 1)[-1] for key in document.known_keys()}
    policy = document.load(DOCS.parent / "examples" / "policy.yaml")
    parts: list[msgspec.Struct] = [
        policy.service, policy.tiers[0], policy.tiers[0].objectives[0], policy.tenants[0], policy.tenants[0].limits,
        policy.pools[0], policy.budget, policy.alerts, policy.degradation, policy.degradation.when, policy.scheduling,
        policy.gateway, policy.gateway.timeouts,
    ]  # fmt: skip
    renamed = {"for_": "for", "origin": "from"}
    fields = {renamed.get(field, field) for part in parts for field in part.__struct_fields__}
    assert fields <= keys


@pytest.mark.parametrize("command", [check, report])
def test_every_option_is_in_the_manual(command: object) -> None:
    name = getattr(command, "__name__", "")
    text = (DOCS / {"check": "policy.md", "report": "report.md"}[name]).read_text()
    options = [
        each for each in getattr(command, "__annotations__", {}) if each not in {"return", "policy", "directory"}
    ]
    assert options
    for option in options:
        assert f"--{option.replace('json_output', 'json')}" in text


def test_every_field_of_a_report_is_in_the_manual() -> None:
    text = (DOCS / "report.md").read_text()
    shapes: list[type[msgspec.Struct]] = [
        figures.Report, figures.GroupFigures, figures.LatencyFigure, figures.QuantileFigure, figures.BudgetFigure,
        Attainment, Goodput,
    ]  # fmt: skip
    for shape in shapes:
        for field in shape.__struct_fields__:
            assert f"`{field}`" in text, f"{shape.__name__}.{field}"

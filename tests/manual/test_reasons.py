"""The manual's reasons: every one has its heading, with the status that is really sent."""

import re
from pathlib import Path

import pytest

from plimsoll.slo.outcome import REASONS, Reason

MANUAL = Path(__file__).parents[2] / "docs" / "reasons.md"
HEADING = re.compile(r"^### `(\w+)`\n\n(.*?)(?=\n##|\Z)", re.DOTALL | re.MULTILINE)
SECTIONS = dict(HEADING.findall(MANUAL.read_text(encoding="utf-8")))


def test_no_heading_is_left_over() -> None:
    assert SECTIONS.keys() == {reason.value for reason in Reason}


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_says_what_happened_and_its_status(reason: Reason) -> None:
    section = SECTIONS[reason.value]
    assert len(section.split()) > 5
    status = REASONS[reason].status
    assert (f"HTTP {status}." in section) is (status not in {0, 499})


def test_every_reason_has_a_row() -> None:
    assert REASONS.keys() == set(Reason)

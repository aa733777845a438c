"""Everything that pages say has its Chinese: texts of templates and charts, names of causes, parts, reasons, states."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from plimsoll.analytics.forecast import ForecastState
from plimsoll.console.formulas import formulas
from plimsoll.console.pages import PAGES
from plimsoll.console.sayings import patterns, said
from plimsoll.console.words import Words, known
from plimsoll.diagnosis.diagnose import Mechanism
from plimsoll.diagnosis.remedies import REMEDIES, CauseKind
from plimsoll.diagnosis.timeparts import HOW, Part
from plimsoll.governor.decisions import MoveReason
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Charge
from plimsoll.storage.chronicle import KINDS

ROOM = Path(__file__).parents[2] / "plimsoll" / "console"
ASKED = re.compile(r"""\bt\((["'])((?:(?!\1).)+)\1""")
CHOICES = re.compile(r"""\bt\(\{(.+?)\}\[""", re.DOTALL)
CALLED = re.compile(r"""(?:loading\(t, |table\([\w.]+, )(["'])(.+?)\1""")
DRAWN = {"Lines", "Bars", "Heat", "Points", "Series", "Band"}
WORDED = {"title", "unit", "across", "up", "empty"}
SAME = {"s", "%", "×", "P50", "P90", "P99", "P99 ÷ P50", "ttft_p99", "e2e_p99", "1h", "6h", "24h", "7d", "30d", "req/s"}
"""What is written alike in both languages."""


def of_templates() -> Iterator[str]:
    for path in sorted((ROOM / "templates").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        yield from (found[1] for found in ASKED.findall(text))
        yield from (found[1] for found in CALLED.findall(text))
        for choices in CHOICES.findall(text):
            yield from re.findall(r""":\s*"([^"]+)\"""", choices)


def of_charts() -> Iterator[str]:
    """Texts given to chart specifications."""
    for path in sorted(ROOM.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DRAWN:
                named = [each.value for each in node.keywords if each.arg in WORDED]
                constants = [*node.args[:3], *named]
                if node.func.id in {"Series", "Band"}:
                    constants = node.args[:1]
                yield from (str(each.value) for each in constants if isinstance(each, ast.Constant))


def names() -> Iterator[str]:
    for kinds in (CauseKind, Mechanism, Part, Outcome, Reason, Charge):
        yield from (str(each.value) for each in kinds)
    yield from (each.words for each in BudgetHealth)
    yield from (each.value for each in (*ForecastState, *MoveReason))
    yield from (remedy for remedy, _ in REMEDIES.values())
    yield from (*HOW.values(), *KINDS, "goodput_ratio", "requests", "tokens", "blocks", "slots")
    yield from ("worse from here", "better from here", "decision", "{outcome}: {reason}")
    yield from ("on the front", "behind it")
    yield from ("missed or slow: {before} → {after}", "how this is computed", "the gateway does not answer")
    yield from ("against like ones before", "against like ones that were fine", "one request")
    for each in formulas():
        yield from (each.title, each.words)
    yield from (title for _, _, title in PAGES)


def test_everything_has_its_chinese() -> None:
    wanted = {*of_templates(), *of_charts(), *names()}
    assert len(wanted) > 250, "scanned nothing"
    formula_names = {each.name for each in formulas()}
    missing = sorted(wanted - known("zh").keys() - SAME - formula_names)
    assert not missing, json.dumps(missing, ensure_ascii=False, indent=0)


def test_names_of_ours_are_words_in_english_too() -> None:
    for kind in (*CauseKind, *Part):
        assert "_" not in Words("en")(kind.value)


def test_values_in_a_text_are_those_of_its_chinese() -> None:
    for english, chinese in known("zh").items():
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), english


def test_sentences_of_other_rooms_are_translated_with_their_values() -> None:
    assert said("75% of the extra waiting was behind eel's requests", "zh").count("eel") == 1
    assert said("75% of the extra waiting was behind eel's requests", "en").startswith("75%")
    assert said("nobody ever wrote this", "zh") == "nobody ever wrote this"
    assert len(patterns()) > 30

"""The page of capability: places, the front, whom a model serves, and where its figures come from."""

import re
from pathlib import Path

import httpx
import pytest

from plimsoll.analytics.capability import Hour, capabilities
from plimsoll.console import plotsvg
from plimsoll.console.capabilityview import capability_view, read_capabilities
from plimsoll.policy.document import parse
from plimsoll.storage.capabilities import CapabilityKeeper
from plimsoll.storage.capabilityreport import HOUR
from plimsoll.storage.journal import Journal
from tests.cli.test_capability import CHOICE
from tests.console.recorded import Serving, serving
from tests.console.test_chinese import english
from tests.storage.test_capabilities import BEGIN, write


def hour(pool: str, speed: float, replica: str = "http://r", stalls: int = 1) -> Hour:
    return Hour(0.0, pool, "m", replica, 2, 20, 1000, 1000 / speed, 2000, stalls)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    journal = Journal.open(tmp_path)
    for number in range(320):
        write(journal, BEGIN + number, first=0.070)
        write(journal, BEGIN + number, first=0.1, replica="http://r4", pool="lite", tpot=0.008)
    write(journal, BEGIN + HOUR + 400.0, replica="http://later")
    journal.close()
    (tmp_path / "policy.yaml").write_text(CHOICE)
    return tmp_path


def page(served: Serving, language: str = "en") -> str:
    answer = httpx.get(served.url + "/capability", headers={"accept-language": language}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_page_says_places_and_whom_a_model_serves(log: Path) -> None:
    with serving(log) as served:
        text, chinese = page(served.read()), page(served, "zh")
    assert text.count("on the front") == 2, "both models"
    assert "as the small model of chat" in text
    assert "r4" in text
    assert re.search(r'<svg [^>]*role="img" aria-label="Quality and time a token"', text)
    assert "<title>lite: quality 60, time a token 8ms</title>" in text
    assert "<title>chat: 质量 82, 每令牌耗时 25ms</title>" in chinese
    assert "在前沿上" in chinese
    assert english(chinese) == []


def test_what_a_projector_keeps_is_taken_and_else_the_log(log: Path) -> None:
    policy, until = parse(CHOICE), BEGIN + HOUR + 401.0
    assert {one.replica for one in read_capabilities(log, policy, until).replicas} == {
        "http://r1", "http://r4", "http://later"
    }  # fmt: skip
    CapabilityKeeper(log, print).keep(policy, until)
    kept = read_capabilities(log, policy, until)
    assert {one.replica for one in kept.replicas} == {"http://r1", "http://r4"}, "whole hours only"
    assert [model.serves for model in kept.models] == [("gold",), ("bronze",)]


def test_the_front_is_drawn_through_those_on_it() -> None:
    text = CHOICE.replace("quality: 60, built_for: 50ms", "quality: 60").replace("degradation", "#")
    pools = [
        f"  - {{name: p{i}, model: m{i}, engine: vllm, replicas: ['http://p{i}'], quality: {q}}}"
        for i, q in ((1, 50), (2, 90))
    ]
    policy = parse(text.replace("#", "\n".join(pools) + "\n#"))
    hours = [hour("chat", 40.0), hour("lite", 100.0), hour("p1", 80.0), hour("p2", 20.0)]
    view = capability_view(capabilities(hours, policy, "log", 0.0, 1.0))
    assert view.chart.line == ((0.01, 60.0), (0.025, 82.0), (0.05, 90.0))
    assert {point.label: point.kind for point in view.chart.points} == {
        "chat": "s1",
        "lite": "s1",
        "p1": "s3",
        "p2": "s1",
    }
    drawn = plotsvg.svg(view.chart)
    assert drawn.count("<circle") == 4
    assert drawn.count('class="line s1"') == 1


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    (tmp_path / "policy.yaml").write_text(CHOICE)
    with serving(tmp_path) as served:
        text = page(served.read())
    assert "No stream of two tokens and more ended in this week." in text
    assert "Of no pool both quality and time a token are known." in text
    assert "not known: no streams" in text

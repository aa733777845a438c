"""What goes wrong on a real llama.cpp engine is named by its cause: a long-prompt neighbour, a process that is stopped,
clients that read slowly, a cold start.

Each is large beside what a busy machine does by itself, and steady traffic runs before, through and after it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.load.children import Children
from tests.real.incidents import (
    NEIGHBOUR,
    VICTIM,
    Engine,
    Traffic,
    diagnosed,
    policy_for,
    read_slowly,
    send_long_prompts,
)
from tests.real.parts import Gateway, gateway

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]
QUIET, TRAFFIC = 14.0, 32.0  # s before anything happens, and of traffic in all


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Children(tmp_path / "logs") as children:
        yield Engine(children)


@pytest.fixture
def running(engine: Engine, tmp_path: Path) -> Iterator[Gateway]:
    with gateway(tmp_path / "gateway", policy_for(engine)) as served:
        yield served


def found_after(happen: Callable[[], None], running: Gateway, home: Path) -> dict[str, Any]:
    """The diagnosis of the victim, whose traffic `happen` breaks into."""
    traffic = Traffic(running, home, TRAFFIC)
    time.sleep(QUIET)
    happen()
    traffic.wait()
    found = diagnosed(running)
    assert found["num_bad"] >= 5, f"nothing to explain: {found['num_bad']} of {found['num']} requests missed"
    return found


def named(found: dict[str, Any]) -> tuple[str, str]:
    """The likeliest cause and its subject; what speaks for it is never empty."""
    assert found["causes"], found
    top = found["causes"][0]
    assert top["evidence"]
    assert top["remedy"]
    return top["kind"], top["subject"]


def test_a_neighbour_with_long_prompts(running: Gateway, tmp_path: Path) -> None:
    found = found_after(lambda: send_long_prompts(running, 8.0), running, tmp_path)
    assert named(found) == ("neighbour_long_prompts", NEIGHBOUR)
    assert found["mechanism"] == "neighbour interference"
    assert max(found["waited_for"], key=found["waited_for"].__getitem__) == NEIGHBOUR


def test_a_process_that_is_stopped_for_six_seconds(engine: Engine, running: Gateway, tmp_path: Path) -> None:
    found = found_after(lambda: engine.pause(6.0), running, tmp_path)
    assert named(found) == ("stalled_replica", engine.url)
    parts = {each["part"]: each["seconds"] for each in found["excess"]}
    assert parts["stall"] > max(seconds for part, seconds in parts.items() if part != "stall")


def test_clients_that_read_slowly(running: Gateway, tmp_path: Path) -> None:
    found = found_after(lambda: read_slowly(running, 24.0), running, tmp_path)
    assert named(found) == ("slow_client", "")
    assert found["mechanism"] == "outside"


def test_a_cold_start(engine: Engine, running: Gateway, tmp_path: Path) -> None:
    found = found_after(lambda: engine.restart(6.0), running, tmp_path)
    assert named(found) == ("cold_start", engine.url)
    assert found["tenant"] == VICTIM

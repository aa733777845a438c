"""Huge bodies: read as ever, by a process of their own, and nobody is held up meanwhile."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway import bodyhelper, patches
from plimsoll.gateway.bodyhelper import HUGE, BodyHelper
from plimsoll.gateway.openai import BadBody, read_body
from plimsoll.governor.events import Endpoint

TEXT = "word " * (HUGE // 4)
HUGE_BODIES: dict[Endpoint, dict[str, Any]] = {
    Endpoint.CHAT: {"messages": [{"role": "user", "content": TEXT}], "stream": True, "max_tokens": 7, "n": 2},
    Endpoint.COMPLETIONS: {"prompt": list(range(HUGE // 4)), "best_of": 3},
    Endpoint.RESPONSES: {"input": [{"role": "user", "content": TEXT}], "max_output_tokens": 9},
    Endpoint.MESSAGES: {"messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}], "max_tokens": 5},
    Endpoint.EMBEDDINGS: {"input": [TEXT, TEXT]},
    Endpoint.OTHER: {"anything": TEXT},
}


@pytest.fixture
def helper() -> Iterator[BodyHelper]:
    helper = BodyHelper()
    yield helper
    helper.close()


def test_every_endpoint_is_read_as_in_this_process(helper: BodyHelper) -> None:
    for endpoint, members in HUGE_BODIES.items():
        data = json.dumps({"model": "m", **members}).encode()
        assert len(data) > HUGE
        assert helper.read(endpoint, data) == read_body(endpoint, data)
    assert helper._process is not None, "one process for all of them"


def test_faults_are_told_as_in_this_process(helper: BodyHelper) -> None:
    huge = json.dumps({"messages": [{"role": "user", "content": TEXT}]}).encode()
    for data in (huge, huge[:-2], huge.replace(b'"user"', b"7"), b"\xff" + huge):
        with pytest.raises(BadBody) as here:
            read_body(Endpoint.CHAT, data)
        with pytest.raises(BadBody) as there:
            helper.read(Endpoint.CHAT, data)
        assert (str(there.value), there.value.param) == (str(here.value), here.value.param)


def test_a_process_that_dies_costs_no_request(helper: BodyHelper) -> None:
    data = json.dumps({"model": "m", "input": TEXT}).encode()
    expected = read_body(Endpoint.EMBEDDINGS, data)
    assert helper.read(Endpoint.EMBEDDINGS, data) == expected
    for _ in range(2):
        assert helper._process is not None
        helper._process.kill()
        helper._process.wait()
        assert helper.read(Endpoint.EMBEDDINGS, data) == expected, "read in the thread"
        assert helper.read(Endpoint.EMBEDDINGS, data) == expected, "and by a new process"


def test_small_bodies_start_no_process(helper: BodyHelper) -> None:
    helper.read(Endpoint.EMBEDDINGS, b'{"model":"m","input":"x"}')
    assert helper._process is None


def held(work: Callable[[], object]) -> float:
    """The longest time for which another thread could not run, in s."""
    longest, over = 0.0, threading.Event()

    def run() -> None:
        work()
        over.set()

    thread = threading.Thread(target=run)
    last = time.perf_counter()
    thread.start()
    while not over.is_set():
        time.sleep(0.0005)
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
    thread.join()
    return longest


def test_who_streams_is_not_held_up_by_25_megabytes(helper: BodyHelper) -> None:
    """Against the same body read in a thread, on the same machine at the same time; the best of several of each."""
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 20}] * 180_000}).encode()
    assert len(data) > 20_000_000
    helper.read(Endpoint.CHAT, data)
    beside = min(held(lambda: helper.read(Endpoint.CHAT, data)) for _ in range(6))
    within = min(held(lambda: read_body(Endpoint.CHAT, data)) for _ in range(3))
    assert beside < within / 2, f"{beside * 1000:.1f} ms against {within * 1000:.1f} ms"


@given(st.binary(max_size=40), st.integers(0, 40), st.binary(max_size=9))
def test_joining_is_adding(body: bytes, at: int, middle: bytes) -> None:
    at = min(at, len(body))
    large = b"x" * patches.LARGE + body
    end = len(large) - len(body) + at
    assert patches._joined(large, end, middle, end) == large[:end] + middle + large[end:]


def test_appending_to_an_object_that_is_empty_but_for_blanks() -> None:
    blanks = b" \n\t\r" * 100
    assert json.loads(patches.append(b"{" + blanks + b"}", b'"a":1')) == {"a": 1}
    assert json.loads(patches.append(b'{"b":2' + blanks + b"}", b'"a":1')) == {"a": 1, "b": 2}
    assert bodyhelper.HUGE > 256 * 1024

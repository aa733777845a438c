"""Drafts of a real llama.cpp: how many are accepted is learnt from its answers, and its switch is asked for."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from plimsoll.load.children import Children
from tests.real.parts import ROOT, TINY_HOME, Gateway, address, digest, gateway

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("llamacpp")]  # which sets the engine's environment up
QUESTION: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hello there the water way long look"}],
}
SURE, UNSURE = 0.0, 1.5
"""Temperatures: a model's own guesses are right where it takes the likeliest token, and hardly ever elsewhere."""
POLICY = """
plimsoll: 1
tiers: [{name: gold, rank: 0}]
tenants:
  - {name: sure, tier: gold, keys: ["sha256:SURE"]}
  - {name: unsure, tier: gold, keys: ["sha256:UNSURE"]}
pools:
  - {name: chat, model: tiny, engine: llamacpp, replicas: ["URL"], max_context: 2048, speculation: switch}
scheduling: {speculation: {below: 30%, explore: 1000}}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tiny model, which drafts for itself."""
    model = str(next((TINY_HOME / "models").glob("*.gguf")))
    python = str(TINY_HOME / ".venv" / "bin" / "python")
    line = [python, "-m", "plimsoll.load.llamacpp", "--model", model, "--draft", model, "--slots", "2"]
    with Children(tmp_path_factory.mktemp("drafting")) as children:
        child = children.start("drafting", line, {"PYTHONPATH": str(ROOT)})
        yield address(child.ready(60.0))


@pytest.fixture(scope="module")
def served(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    text = POLICY.replace("UNSURE", digest("unsure")).replace("SURE", digest("sure")).replace("URL", engine)
    with gateway(tmp_path_factory.mktemp("gateway"), text) as running:
        yield running


def drafted(url: str, tenant: str, *, stream: bool = True, more: dict[str, Any] | None = None) -> tuple[int, int]:
    """Ask for an answer: how many tokens the engine says it drafted for it, and how many of these were right."""
    body: dict[str, Any] = QUESTION | {
        "max_tokens": 48,
        "stream": stream,
        "temperature": SURE if tenant == "sure" else UNSURE,
    }
    body |= more or {}
    if stream:
        body |= {"stream_options": {"include_usage": True}}
    headers = {"authorization": f"Bearer {tenant}"}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    timings = json.loads(events[-1] if stream else answer.text)["timings"]
    return timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)


def snapshot(served: Gateway) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {served.token}"}
    told: dict[str, Any] = httpx.get(f"{served.admin_url}/admin/snapshot", headers=headers, timeout=10).json()
    return told


def test_what_a_real_engine_accepts_is_learnt_and_its_switch_is_asked_for(engine: str, served: Gateway) -> None:
    told = {tenant: [0, 0] for tenant in ("sure", "unsure")}
    for number in range(16):
        for tenant, sums in told.items():
            if sums[0] < 256:
                num, right = drafted(served.url, tenant, stream=number % 3 > 0)
                assert num, "nothing is known yet, so all are drafted"
                sums[0], sums[1] = sums[0] + num, sums[1] + right
    learnt = {each["tenant"]: each["draft_acceptance"] for each in snapshot(served)["tenants"]}
    for tenant, (num, right) in told.items():
        assert learnt[tenant] == pytest.approx(right / num, abs=0.05)
    assert learnt["unsure"] < 0.3 < learnt["sure"]

    obeys = drafted(engine, "unsure", more={"speculative.n_max": 0})[0] == 0  # older builds do
    asked = [drafted(served.url, "unsure")[0] for _ in range(2)]
    assert [num == 0 for num in asked] == [obeys] * 2
    assert drafted(served.url, "sure")[0], "whose drafts are right is drafted"
    (replica,) = snapshot(served)["pools"][0]["replicas"]
    assert replica["drafted_anyway"] == (0 if obeys else 2)

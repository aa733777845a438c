"""Real input through the whole: the Azure trace, eight tenants, the gateway, two real llama.cpp engines."""

import json
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plimsoll.load.children import plimsoll
from plimsoll.load.result import Result, Seen
from tests.real.parts import ROOT, SENDERS, Gateway, gateway, policy_text
from tests.real.rows import disagreements, rows
from tests.shared_data import data

pytestmark = pytest.mark.real
TRACE = "azure2023/AzureLLMInferenceTrace_conv.csv.gz"


def replay(running: Gateway, home: Path, duration: float) -> tuple[dict[str, Any], list[Result]]:
    """Send that much of the trace, a tenth of its lengths; three in a hundred clients leave early."""
    people, out = home / "tenants.yaml", home / "client.jsonl"
    people.write_text("".join(f"{sender.name}: {sender.key}\n" for sender in SENDERS))
    line = plimsoll("replay", str(data() / TRACE), "--target", running.url, "--tenants", str(people), "--json")
    line += ["--duration", str(duration), "--scale-lengths", "0.1", "--max-prompt", "1500", "--max-output", "200"]
    line += ["--cancel", "0.03", "--cancel-after", "0.1", "--out", str(out)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=duration + 120, check=False)
    assert done.returncode == 0, done.stderr
    decode = msgspec.json.Decoder(Result).decode
    return json.loads(done.stdout), [decode(row) for row in out.read_bytes().splitlines()]


def snapshot(running: Gateway) -> Any:
    """The governor's own counts, when nothing is open any more."""
    request = urllib.request.Request(
        f"{running.admin_url}/admin/snapshot", headers={"Authorization": f"Bearer {running.token}"}
    )
    deadline = time.monotonic() + 10
    while True:
        with urllib.request.urlopen(request, timeout=5) as answer:
            told = json.load(answer)
        if not any(pool["in_flight"] or pool["waiting"] for pool in told["pools"]) or time.monotonic() > deadline:
            return told
        time.sleep(0.2)


def play(llamacpp: list[str], home: Path, duration: float, at_least: int) -> None:
    with gateway(home, policy_text(llamacpp)) as running:
        report, results = replay(running, home, duration)
        told = snapshot(running)
        written = rows(running)
        assert len(results) == report["num_planned"] >= at_least
        assert disagreements(results, written) == []
        counts = Counter(row.tenant for row in written)
        for count in told["counts"]:
            states = count["by_state"]
            assert count["received"] == sum(states.values()), count
            assert not any(states.pop(state, 0) for state in ("queued", "dispatched", "streaming")), count
            mine = Counter(row.outcome.value for row in written if row.tenant == count["tenant"])
            assert states == mine, "the governor's counts are those of the rows"
        assert {count["tenant"] for count in told["counts"]} == set(counts)
        assert sum(counts.values()) == sum(result.sent_at > 0 for result in results)
        endings = Counter(result.outcome for result in results)
        assert endings[Seen.COMPLETED] > 0.9 * len(results), endings
        assert endings[Seen.LEFT] > 0
        assert len(counts) == len(SENDERS)
    stopped = Counter(row.outcome for row in rows(running))
    assert stopped == Counter(row.outcome for row in written), "stopping the gateway adds and loses nothing"


@pytest.mark.timeout(300)
def test_ninety_seconds(llamacpp: list[str], tmp_path: Path) -> None:
    play(llamacpp, tmp_path, 90.0, at_least=200)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_minutes(llamacpp: list[str], tmp_path: Path) -> None:
    play(llamacpp, tmp_path, 600.0, at_least=2000)

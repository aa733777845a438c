"""Other people's clients, unmodified: langchain-openai, curl, and AIPerf as a public load tool."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from plimsoll.slo.outcome import Outcome
from tests.real.loadtool import prepared
from tests.real.parts import MODEL, ROOT, TINY_HOME, Gateway
from tests.real.rows import row_of, rows

pytestmark = pytest.mark.real


def test_langchain(served: Gateway) -> None:
    chat = ChatOpenAI(
        model=MODEL,
        base_url=f"{served.url}/v1",
        api_key=SecretStr("sk-test-lantern"),
        max_retries=0,
        max_completion_tokens=7,
        default_headers={"X-Request-Id": "langchain"},
    )
    before = sum(row.client_request_id == "langchain" for row in rows(served))
    answer = chat.invoke("hello")
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 7
    pieces = list(chat.stream("hello"))
    assert len(pieces) > 1
    assert len(chat.batch(["one", "two", "three"])) == 3
    mine = [row for row in rows(served) if row.client_request_id == "langchain"]
    assert len(mine) - before == 5
    assert {(row.tenant, row.outcome, row.output_tokens) for row in mine} == {("lantern", Outcome.COMPLETED, 7)}


def curl(gateway: Gateway, *more: str, body: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    line = ["curl", "-sS", "-N", "--max-time", "30", "-H", "Authorization: Bearer sk-test-anchor"]
    line += ["-H", "Content-Type: application/json", "--data-binary", "@-", *more, f"{gateway.url}/v1/completions"]
    return subprocess.run(line, input=json.dumps(body).encode(), capture_output=True, check=True, timeout=60)


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="no curl here")
@pytest.mark.parametrize("version", ["--http1.1", "--http1.0"])
def test_curl(served: Gateway, version: str) -> None:
    body = {"model": MODEL, "prompt": [1000, 1001, 1002], "max_tokens": 6, "stream": True}
    done = curl(served, version, "-i", "-H", f"X-Request-Id: curl{version}", body=body)
    head, _, answer = done.stdout.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    events = [line for line in answer.replace(b"\r", b"").split(b"\n\n") if line.startswith(b"data: ")]
    assert events[-1] == b"data: [DONE]"
    assert len([event for event in events if b'"text":' in event]) >= 6
    assert row_of(served, f"curl{version}").output_tokens == 6


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="no curl here")
def test_curl_waits_for_100_continue_with_a_large_body(served: Gateway) -> None:
    """curl asks before it sends more than 1 MiB; a gateway that does not answer costs it a second."""
    body = {"model": MODEL, "prompt": "deep " * 300_000, "max_tokens": 1}
    done = curl(served, "-i", "-w", "%{time_total}", body=body)
    assert done.stdout.startswith(b"HTTP/1.1 100 Continue\r\n")
    assert b'"prompt_too_long"' in done.stdout
    assert float(done.stdout.rpartition(b"}")[2]) < 0.9


@pytest.fixture(scope="session")
def aiperf() -> Path:
    return prepared()


@pytest.mark.timeout(400)
def test_a_public_load_tool(served: Gateway, aiperf: Path, tmp_path: Path) -> None:
    before = len(rows(served))
    (tmp_path / "tiny").symlink_to(TINY_HOME / "hf")
    line = [str(aiperf), "profile", "-m", MODEL, "--url", served.url, "--endpoint-type", "chat", "--streaming"]
    line += ["--api-key", "sk-test-sextant", "--request-count", "40", "--concurrency", "6", "--tokenizer", "./tiny"]
    line += ["--synthetic-input-tokens-mean", "60", "--output-tokens-mean", "16", "--ui", "none"]
    line += ["--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", str(tmp_path / "out")]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    report = json.loads((tmp_path / "out" / "profile_export_aiperf.json").read_text())
    assert report["request_count"]["avg"] == 40
    assert not report.get("error_summary")
    mine = [row for row in rows(served)[before:] if row.tenant == "sextant"]
    assert len(mine) == 40
    assert {row.outcome for row in mine} == {Outcome.COMPLETED}
    measured = sorted(row.ttft or 0.0 for row in mine)[len(mine) // 2]
    assert measured <= report["time_to_first_token"]["p50"] / 1e3 + 0.01, f"{ROOT.name}: ours cannot be above theirs"

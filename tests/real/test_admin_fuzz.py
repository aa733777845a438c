"""schemathesis on the operators' port of a running gateway: whatever it sends, the answer is one that was described."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.real.parts import Gateway, gateway, policy_text

pytestmark = pytest.mark.real
NOBODY = "http://127.0.0.1:9"  # a replica that is not there: the operators' side lives without


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openapi") / "openapi.json"


def test_every_answer_is_as_described(tmp_path: Path, description: Path) -> None:
    with gateway(tmp_path, policy_text([NOBODY])) as served:
        token = {"authorization": f"Bearer {served.token}"}
        described = httpx.get(f"{served.admin_url}/admin/openapi.json", headers=token)
        paths = described.json()["paths"]
        assert paths.keys() >= {"/healthz", "/readyz", "/metrics", "/scaling", "/admin/snapshot", "/admin/reload"}
        description.write_bytes(described.content)
        done = fuzz(served, description)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "tested" in done.stdout.lower()


def fuzz(served: Gateway, description: Path) -> subprocess.CompletedProcess[str]:
    """All but the stream of events, which does not end. A 500 is described nowhere, so it would be found."""
    line = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", str(description), "--url", served.admin_url),
        *("--header", f"Authorization: Bearer {served.token}", "--exclude-path", "/admin/events"),
        *("--max-examples", "12", "--phases", "examples,coverage,fuzzing", "--no-color"),
        *(
            "--checks",
            "status_code_conformance,content_type_conformance,response_schema_conformance",
        ),
        *("--suppress-health-check", "all"),
    ]
    return subprocess.run(line, capture_output=True, text=True, timeout=100, check=False, cwd=description.parent)

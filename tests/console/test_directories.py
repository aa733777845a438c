"""Directories that are no gateway's: an analysed log, one without its journal, one in which nothing was written yet."""

import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.console.recorded import Serving, serving
from tests.storage.rows import record

ROOT = Path(__file__).parents[2]
PATHS = (
    *("/", "/tenants", "/tenants/unknown", "/tenants/unknown?window=30d", "/diagnose", "/diagnose?tenant=unknown"),
    *("/cache", "/replicas", "/journal?span=all", "/what-if", "/capability", "/formulas"),
)
READ_ANEW = ("/tenants/", "/diagnose", "/cache", "/capability")  # from the log, when asked for: no page without it


def plimsoll(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "plimsoll", *line], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = tmp_path_factory.mktemp("analysed") / "kept"
    done = plimsoll("analyze", str(ROOT / "examples" / "llama-server.log.gz"), "--out", str(kept))
    assert done.returncode == 0, done.stderr
    return kept


def read(served: Serving, path: str, status: int = 200) -> str:
    answer = httpx.get(served.url + path, timeout=60)
    assert answer.status_code == status, (path, answer.text)
    return answer.text


def test_every_page_of_an_analysed_log(analysed: Path) -> None:
    with serving(analysed) as served:
        served.read()
        pages = {path: read(served, path) for path in PATHS}
        request = read(served, "/requests/req-0000000000000001")
    assert "No tenant is in danger." in pages["/"]
    assert "No pool of the policy took the requests" in pages["/"]
    assert '<b id="ended">–</b>' in pages["/"]
    assert "n = 363" in pages["/tenants/unknown"]
    assert '<option value="unknown"' in pages["/diagnose"]
    assert "a replica that the log does not name" in request


def test_every_page_where_nothing_was_written_yet_and_then_is(analysed: Path, tmp_path: Path) -> None:
    for name in ("plimsoll.json", "policy.yaml"):
        shutil.copy(analysed / name, tmp_path)
    with serving(tmp_path) as served:
        served.read()
        pages = {path: read(served, path) for path in PATHS}
        assert "No request arrived in the last hour." in pages["/"]
        assert "No tenant is in danger." not in pages["/"]
        now = time.time()
        (tmp_path / "journal").mkdir()
        with closing(Journal.open(tmp_path)) as journal:
            one = replace(record(1), tenant="unknown", tier="all", arrived_at=now - 1, finished_at=now)
            journal.settle(Settle(one, ()))
            journal.flush()
            assert seen_within(served, '<b id="ended">1</b>', 5.0)


def test_a_log_without_its_journal_is_told_and_read_once_it_is_back(analysed: Path, tmp_path: Path) -> None:
    shutil.copytree(analysed, tmp_path / "kept")
    (tmp_path / "kept" / "journal").rename(tmp_path / "journal")
    with serving(tmp_path / "kept") as served:
        served.read()
        for path in PATHS:
            text = read(served, path, 503 if path.startswith(READ_ANEW) else 200)
            assert "had been read up to offset 363" in text, path
        (tmp_path / "journal").rename(tmp_path / "kept" / "journal")
        assert seen_within(served, "No tenant is in danger.", 10.0)


def seen_within(served: Serving, text: str, seconds: float) -> bool:
    """Whether the first page says so by then."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if text in read(served, "/"):
            return True
        threading.Event().wait(0.1)
    return False


def test_what_is_no_data_directory_is_told_before_anything_is_served(tmp_path: Path) -> None:
    told = plimsoll("console", str(tmp_path), "--port", "0")
    assert told.returncode != 0
    assert "is no data directory of Plimsoll" in told.stderr

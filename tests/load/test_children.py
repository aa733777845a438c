"""Children are ready when they say so, and gone when their parent is, however that ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plimsoll.errors import UsageError
from plimsoll.load.children import Children

SLEEPER = "import sys, time; print('READY here', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('READY', flush=True); time.sleep(60)"
PARENT = f"""
import sys, time
from pathlib import Path
from plimsoll.load.children import Children
with Children(Path(sys.argv[1])) as children:
    child = children.start("sleeper", [sys.executable, "-c", {SLEEPER!r}])
    child.ready(10)
    print(child.process.pid, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether that process runs (a zombie does not)."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_ready_lines_are_caught_and_all_are_ended(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        started = [children.start(name, [sys.executable, "-c", code]) for name, code in (("a", SLEEPER), ("b", DEAF))]
        assert [child.ready(10) for child in started] == ["READY here", "READY"]
        assert children.fallen() is None
        started[0].process.terminate()
        assert gone_within(started[0].process.pid, 5)
        assert children.fallen() is started[0]
        started[1].end(0.2)  # deaf to SIGTERM
    assert not any(alive(child.process.pid) for child in started)
    assert (tmp_path / "a.log").read_text() == "READY here\n"


def test_one_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start("bad", [sys.executable, "-c", "import sys; sys.exit('port in use')"])
        with pytest.raises(UsageError, match=r"bad ended: port in use \(its log: .*bad.log\)"):
            child.ready(10)
        mute = children.start("mute", [sys.executable, "-c", "import time; time.sleep(60)"])
        with pytest.raises(UsageError, match=r"mute is not ready after 0.1 s: it said nothing"):
            mute.ready(0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_orphans(tmp_path: Path, number: signal.Signals) -> None:
    line = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        os.kill(parent.pid, number)
        parent.wait(10)
        assert gone_within(child, 5)

"""AIPerf, the public load tool, in an environment of its own; `python -m tests.real.loadtool` sets it up beforehand."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.real.parts import TINY_HOME
from tests.shared_data import tools

AIPERF: Final = "aiperf==0.13.0"
HOME: Final = TINY_HOME / "loadtool"
READY: Final = HOME / "ready"
"""Written last: an installation that was broken off is done again."""


def prepared() -> Path:
    """AIPerf's program, installed (no torch) with the tiny model's tokenizer; set up once, kept in .tiny."""
    if not READY.exists() or READY.read_text() != AIPERF:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
        pip = [str(HOME / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", AIPERF]
        subprocess.run(pip, check=True)
        READY.write_text(AIPERF)
    if not (TINY_HOME / "hf" / "tokenizer.json").exists():
        maker = [sys.executable, str(tools() / "tiny-engine" / "make_model.py"), "--hf", str(TINY_HOME / "hf")]
        subprocess.run([*maker, "--no-gguf"], check=True)
    return HOME / "bin" / "aiperf"


if __name__ == "__main__" and (os.environ.get("CI") or os.environ.get("PLIMSOLL_TOOLS")):  # else its test is skipped
    prepared()

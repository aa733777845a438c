"""Where data and tools that are not in the repository lie: skip without them, but fail in CI."""

import os
from pathlib import Path

import pytest


def _place(variable: str) -> Path:
    named = os.environ.get(variable, "")
    if named and Path(named).is_dir():
        return Path(named)
    if os.environ.get("CI"):
        pytest.fail(f"{variable} does not name a directory, and CI is set")
    pytest.skip(f"{variable} does not name a directory")


def data() -> Path:
    """The folder of traces, timings and recorded streams."""
    return _place("PLIMSOLL_DATA")


def tools() -> Path:
    """The folder of engines and load clients."""
    return _place("PLIMSOLL_TOOLS")

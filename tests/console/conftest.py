"""One recorded incident and a console on it, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.recorded import Serving, keep, serving


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six minutes in which eel's long prompts keep acme waiting."""
    return keep("neighbour_long_prompts", tmp_path_factory.mktemp("incident") / "data")


@pytest.fixture(scope="session")
def served(incident: Path) -> Iterator[Serving]:
    """A console that has read it."""
    with serving(incident) as served:
        yield served.read()

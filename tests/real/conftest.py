"""Real engines and a gateway before them, started once for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.real.parts import Gateway, engines, gateway, policy_text


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Two real llama.cpp servers with the tiny model, 8 slots each."""
    with engines(tmp_path_factory.mktemp("engines")) as urls:
        yield urls


@pytest.fixture(scope="session")
def served(llamacpp: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway on both, with eight tenants."""
    with gateway(tmp_path_factory.mktemp("gateway"), policy_text(llamacpp)) as running:
        yield running

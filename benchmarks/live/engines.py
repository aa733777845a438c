"""The engines of a stage, each a process at an address that is known beforehand: policy files name it."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.live.stage import Stage
from plimsoll.errors import UsageError
from plimsoll.load.children import Child, Children, plimsoll

ROOT: Final = Path(__file__).parents[2]
STARTS_WITHIN: Final = 300.0  # s; the first llama.cpp sets its environment up
FIRST_PORT: Final = 21_400
NICE: Final = 10  # of engines that compute for real: gateway and clients are not to wait for them


def started(children: Children, stage: Stage, urls: Sequence[str]) -> dict[str, Child]:
    """All of them, ready, at the addresses that the policy names."""
    found: dict[str, Child] = {}
    for number, url in enumerate(urls):
        port = url.rpartition(":")[2]
        name = f"engine-{number}"
        if stage.engine == "vllm":
            line = plimsoll("emulate", "--profile", stage.profile, "--model", stage.model, "--port", port)
            found[name] = children.start(name, line, ours())
        else:
            tool = Path(_tools()) / "tiny-engine" / "run.sh"
            slots = str(stage.loaded().max_num_seqs)
            line = ["nice", f"-n{NICE}", "bash", str(tool), "--port", port, "--slots", slots, "--quiet"]
            found[name] = children.start(name, line, {"TINY_HOME": str(ROOT / ".tiny"), "PYTHON": sys.executable})
            found[name].ready(STARTS_WITHIN)  # one after the other: the first makes what they share
    for engine in found.values():
        engine.ready(STARTS_WITHIN)
    return found


def _tools() -> str:
    """Where llama.cpp is started from. Raises UsageError where nobody says it."""
    if not (named := os.environ.get("PLIMSOLL_TOOLS", "")):
        raise UsageError("PLIMSOLL_TOOLS must name the folder that holds tiny-engine")
    return named


def ours() -> dict[str, str]:
    """The environment in which a process finds this very Plimsoll."""
    return {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def free_addresses(num: int) -> tuple[str, ...]:
    """Addresses at which nobody listens, below the ports that the system gives to connections that go out."""
    found: list[str] = []
    for port in range(FIRST_PORT, FIRST_PORT + 2000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                found.append(f"http://127.0.0.1:{port}")
        if len(found) == num:
            return tuple(found)
    raise RuntimeError(f"no {num} free ports from {FIRST_PORT} on")

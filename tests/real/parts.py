"""Real components, started for tests: llama.cpp servers and the gateway before them, each a process of its own."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from plimsoll.load.children import Child, Children, plimsoll
from plimsoll.load.tenants import Sender
from tests.shared_data import tools

ROOT: Final = Path(__file__).parents[2]
TINY_HOME: Final = ROOT / ".tiny"
MODEL: Final = "tiny"
TENANTS: Final = {
    "harbor": "gold", "lantern": "gold", "compass": "silver", "sextant": "silver", "anchor": "silver",
    "ballast": "bronze", "barge": "bronze", "dredger": "bronze",
}  # fmt: skip
SENDERS: Final = tuple(Sender(name, f"sk-test-{name}") for name in TENANTS)

POLICY: Final = """
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    share: 40%
    objectives: [{sli: ttft, below: 2s, target: 99%}, {sli: itl, below: 500ms, target: 99%}]
  - {name: silver, rank: 1, share: 30%, objectives: [{sli: ttft, below: 5s, target: 99%}]}
  - {name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{sli: e2e, below: 60s, target: 95%}]}
tenants:
TENANTS
pools:
  - {name: chat, model: tiny, engine: ENGINE, replicas: [REPLICAS], max_context: 2560MORE}
"""


class Gateway(Struct, frozen=True):
    """A running `plimsoll serve`."""

    url: str
    admin_url: str
    token: str
    data: Path
    child: Child


def policy_text(replicas: list[str], engine: str = "llamacpp", more: str = "") -> str:
    """A policy of eight tenants in three tiers on one pool."""
    tenants = "\n".join(
        f'  - {{name: {sender.name}, tier: {TENANTS[sender.name]}, keys: ["sha256:{digest(sender.key)}"]}}'
        for sender in SENDERS
    )
    urls = ", ".join(f'"{url}"' for url in replicas)
    text = POLICY.replace("TENANTS", tenants).replace("REPLICAS", urls).replace("ENGINE", engine)
    return text.replace("MORE", f", {more}" if more else "")


def digest(key: str) -> str:
    """As a policy holds keys."""
    return sha256(key.encode()).hexdigest()


@contextmanager
def engines(logs: Path, num: int = 2, slots: int = 8) -> Iterator[list[str]]:
    """`num` real llama.cpp servers with the tiny model; their base URLs."""
    line = ["bash", str(tools() / "tiny-engine" / "run.sh"), "--port", "0", "--slots", str(slots), "--quiet"]
    with Children(logs) as children:
        urls = []
        for number in range(num):
            # One after the other: the first sets up the environment that the others share.
            child = children.start(f"llamacpp-{number}", line, {"TINY_HOME": str(TINY_HOME)})
            urls.append(address(child.ready(300.0)))
        yield urls


@contextmanager
def gateway(home: Path, policy: str, *more: str) -> Iterator[Gateway]:
    """The gateway on free ports, with a data directory of its own below `home`; drained and ended on the way out.

    `more` are options of `plimsoll serve`.
    """
    home.mkdir(parents=True, exist_ok=True)
    (home / "policy.yaml").write_text(policy)
    line = plimsoll(
        "serve", str(home / "policy.yaml"), "--data", str(home / "data"), "--port", "0", "--admin-port", "0", *more
    )
    with Children(home / "logs") as children:
        child = children.start("gateway", line, {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"})
        ready = child.ready(30.0)
        token = re.search(r"token (\S+)", ready)
        yield Gateway(
            url=address(ready),
            admin_url=address(ready.partition("admin")[2]),
            token=Path(token[1]).read_text().strip() if token else "",
            data=home / "data",
            child=child,
        )


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def address(text: str) -> str:
    """The first URL of a READY line."""
    found = re.search(r"https?://[\w.:\[\]-]+", text)
    assert found is not None, text
    return found[0]


def quiet_machine(limit: float = 3.0, within: float = 20.0) -> None:
    """Wait a little for other processes to calm down: figures of a crowded machine say nothing."""
    deadline = time.monotonic() + within
    while os.getloadavg()[0] > limit and time.monotonic() < deadline:
        time.sleep(0.5)

"""kill -9 of the real gateway under load: every answer that ended is in the log once, the ledger agrees."""

import http.client
import itertools
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.slo.outcome import Outcome
from plimsoll.storage.audit import audit
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.projections import Projections
from plimsoll.storage.query import records
from tests.real.parts import free_port
from tests.storage.restarts import allowed

pytestmark = pytest.mark.real
NUM_CLIENTS = 6
POLICY = """
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    share: 50%
    objectives: [{{sli: ttft, below: 2ms, target: 99%}}, {{sli: itl, below: 150ms, target: 99%}}]
  - {{name: bronze, rank: 1, share: 20%, objectives: [{{sli: e2e, below: 60s, target: 95%}}]}}
tenants:
  - {{name: acme, tier: gold, keys: ["sha256:0c28d6922e5b43cf27398eb37d4a94d6664956b895ad43bc1e0574966620e566"]}}
pools:
  - {{name: chat, model: llama, engine: vllm, replicas: ["http://127.0.0.1:{port}"], profile: h100-llama70b-tp4}}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "plimsoll", *arguments]


class Clients:
    """Threads that ask, one request after another each, and remember what they saw end."""

    def __init__(self, port: int, seed: int) -> None:
        self.answered: set[str] = set()  # our own ids of requests whose answer ended well
        self.begun: set[str] = set()  # the gateway's ids of all whose answer began
        self._port = port
        self._numbers = itertools.count(1)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on, args=(seed + each,)) for each in range(NUM_CLIENTS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _ask_on(self, seed: int) -> None:
        dice = random.Random(seed)
        while not self._stopping.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20.0)
            try:
                while not self._stopping.is_set():
                    self._ask(connection, dice)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # it was killed, or is not up yet
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection, dice: random.Random) -> None:
        own_id = f"client-{next(self._numbers)}"
        body = {
            "model": "llama",
            "stream": dice.random() < 0.7,
            "max_tokens": dice.randint(1, 40),
            "messages": [{"role": "user", "content": "say it"}],
        }
        headers = {"authorization": "Bearer acme-example-key", "x-request-id": own_id}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        gateway_id = answer.headers.get("x-plimsoll-request-id", "")
        if answer.status == 200 and gateway_id:
            self.begun.add(gateway_id)
        text = answer.read()
        if answer.status == 200 and (not body["stream"] or text.endswith(b"data: [DONE]\n\n")):
            self.answered.add(own_id)


class Gateway:
    """`plimsoll serve`, started and killed again and again on one port and one data directory."""

    def __init__(self, home: Path, policy: Path, port: int) -> None:
        self.restarts: list[float] = []
        self._line = command("serve", str(policy), "--data", str(home), "--port", str(port), "--admin-port", "0")
        self._log = home.with_name("gateway.log").open("ab")

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        began = time.monotonic()
        self._process = subprocess.Popen(self._line, stdout=subprocess.PIPE, stderr=self._log)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready.startswith(b"READY"), Path(self._log.name).read_text()[-2000:]
        self.restarts.append(time.monotonic() - began)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """SIGTERM, and wait for the end, the projector's too."""
        self._process.terminate()
        self._process.communicate(timeout=60)
        self._log.close()


@pytest.fixture
def engine() -> Iterator[int]:
    """An emulated replica's port."""
    port = free_port()
    line = command(
        "emulate", "--profile", "h100-llama70b-tp4", "--port", str(port), "--model", "llama", "--speed", "20"
    )
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        assert process.poll() is None
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            break
        except OSError:
            time.sleep(0.05)
    yield port
    process.terminate()
    process.wait()


def kill_often(home: Path, engine: int, kills: int, seed: int) -> tuple[Clients, Gateway]:
    dice = random.Random(seed)
    port = free_port()
    policy = home.with_name("policy.yaml")
    policy.write_text(POLICY.format(port=engine))
    gateway = Gateway(home, policy, port)
    gateway.start()
    clients = Clients(port, seed)
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.05, 0.5))
            gateway.kill()
            gateway.start()
        time.sleep(0.5)
    finally:
        clients.stop()
        gateway.end()
    return clients, gateway


def check(home: Path, clients: Clients) -> None:
    found = list(records(home))
    ids = Counter(f"req-{record.request_id:016x}" for record in found)
    completed = Counter(record.client_request_id for record in found if record.outcome is Outcome.COMPLETED)
    assert max(ids.values()) == 1, "no request twice"
    assert {name: completed[name] for name in clients.answered} == dict.fromkeys(clients.answered, 1)
    assert clients.begun <= ids.keys(), "whoever saw the beginning of an answer is in the log"
    assert any(record.outcome is Outcome.INTERRUPTED for record in found), "some were struck"
    with Projections(home, takeover=30.0) as projections:
        projections.catch_up()
        proof = audit(DataDirectory(home), projections.books)
    assert (proof.findings, proof.num_settled) == ((), len(found))


@pytest.mark.timeout(600)
def test_killed_twenty_times(tmp_path: Path, engine: int) -> None:
    home = tmp_path / "data"
    clients, gateway = kill_often(home, engine, 20, seed=1)
    assert len(clients.answered) > 40, "there was load"
    check(home, clients)
    assert statistics.median(gateway.restarts) <= allowed(), gateway.restarts


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_five_hundred_times(tmp_path: Path, engine: int) -> None:
    home = tmp_path / "data"
    clients, gateway = kill_often(home, engine, 500, seed=2)
    check(home, clients)
    assert statistics.median(gateway.restarts) <= allowed(), gateway.restarts

"""Incidents on real llama.cpp engines behind a real gateway: steady traffic, and one thing that goes wrong in it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final

from plimsoll.load.children import Child, Children, plimsoll
from tests.real.parts import MODEL, ROOT, SENDERS, TINY_HOME, Gateway, address, free_port, policy_text
from tests.shared_data import tools

VICTIM: Final = "harbor"
NEIGHBOUR: Final = "dredger"
EVERY: Final = 0.3
"""s between two requests of the victim."""
OBJECTIVES: Final = "{sli: ttft, below: 1s, target: 99%}, {sli: e2e, below: 6s, target: 99%}"


def policy_for(engine: "Engine") -> str:
    """One pool of one engine whose steps are known, with places for all; the answers of slow clients soon wait."""
    text = policy_text([engine.url], more="profile: tiny-llamacpp, max_concurrency: 32")
    text = text.replace("{sli: ttft, below: 2s, target: 99%}, {sli: itl, below: 500ms, target: 99%}", OBJECTIVES)
    return f"{text}\ngateway: {{stream_buffer: 4096}}\n"


class Engine:
    """A llama.cpp server on a port of its own, so that it can be started again where it was."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._port = free_port()
        self._running = self._start()
        self.url = address(self._running.ready_line)

    def _start(self) -> Child:
        line = ["bash", str(tools() / "tiny-engine" / "run.sh"), "--port", str(self._port), "--slots", "32", "--quiet"]
        child = self._children.start("engine", line, {"TINY_HOME": str(TINY_HOME)})
        child.ready(300.0)
        return child

    def pause(self, seconds: float) -> None:
        """Stop the process for a while, as a hypervisor, a debugger or a full disk does."""
        os.kill(self._running.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._running.process.pid, signal.SIGCONT)

    def restart(self, down: float) -> None:
        """Kill it, and start it again after a while: so long a larger model would take to load."""
        self._running.process.kill()
        time.sleep(down)
        self._running = self._start()


class Traffic:
    """The victim's requests at a steady rate, replayed by a process of its own."""

    def __init__(self, target: Gateway, home: Path, seconds: float) -> None:
        trace, people = home / "trace.csv", home / "people.yaml"
        rows = [f"{number * EVERY:.2f},{VICTIM},48,24" for number in range(int(seconds / EVERY))]
        trace.write_text("\n".join(["at,tenant,prompt_tokens,output_tokens", *rows]) + "\n")
        people.write_text("".join(f"{sender.name}: {sender.key}\n" for sender in SENDERS))
        line = plimsoll("replay", str(trace), "--target", target.url, "--tenants", str(people), "--json")
        self._process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        """Until all was answered."""
        assert self._process.wait(90.0) == 0


def send_long_prompts(target: Gateway, seconds: float, at_once: int = 3) -> None:
    """The neighbour's prompts of 1,800 tokens, one after another from each of its clients: as many as this machine can
    take. Returns when the last one was answered."""
    until = time.monotonic() + seconds

    def ask_on() -> None:
        while time.monotonic() < until:
            connection = http.client.HTTPConnection(target.url.partition("//")[2], timeout=60.0)
            connection.request("POST", "/v1/completions", _body(1800, 4), _headers(NEIGHBOUR))
            connection.getresponse().read()
            connection.close()

    _in_threads(ask_on, at_once)


def read_slowly(target: Gateway, seconds: float, num: int = 6) -> None:
    """Clients of the victim that read 256 bytes twice a second for so long, on connections that buffer little."""

    def ask() -> None:
        host, _, port = target.url.partition("//")[2].partition(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # else loopback's buffers take it all
            client.connect((host, int(port)))
            body = _body(48, 300, logprobs=5)  # more bytes than buffers take
            head = "".join(f"{name}: {value}\r\n" for name, value in _headers(VICTIM).items())
            head += f"host: {host}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            client.sendall(f"POST /v1/completions HTTP/1.1\r\n{head}{body}".encode())
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.5)
                client.recv(256)
            while client.recv(65536):
                pass

    _in_threads(ask, num)


def _in_threads(work: Any, num: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(num)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _body(prompt: int, output: int, **more: int) -> str:
    tokens = [1000 + number % 500 for number in range(prompt)]
    return json.dumps({"model": MODEL, "prompt": tokens, "max_tokens": output, "stream": True, **more})


def _headers(tenant: str) -> dict[str, str]:
    key = next(sender.key for sender in SENDERS if sender.name == tenant)
    return {"authorization": f"Bearer {key}", "content-type": "application/json"}


def diagnosed(target: Gateway) -> dict[str, Any]:
    """What `plimsoll diagnose --json` says of the victim, while the gateway runs."""
    line = plimsoll("diagnose", str(target.data), "--tenant", VICTIM, "--json")
    said = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
    found: dict[str, Any] = json.loads(said)["tenants"][0]
    return found

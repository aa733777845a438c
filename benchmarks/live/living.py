"""A rival live: engines, gateway and clients, each a process of its own, and somebody who watches the machine."""

import re
import shutil
import signal
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from benchmarks.live.documents import key_of
from benchmarks.live.engines import ours, started
from benchmarks.live.health import Watch
from benchmarks.live.play import Play, Times, or_never
from benchmarks.live.stage import tenants
from plimsoll.load.children import Child, Children, plimsoll
from plimsoll.load.result import Result
from plimsoll.storage import query

BEYOND: Final = 90.0  # s after the last arrival; who has no first token by then has none
STARTS_WITHIN: Final = 30.0  # s


def live(play: Play, home: Path) -> Times:
    """Engines, `plimsoll serve` and `plimsoll replay`; ends when gold's last request has ended."""
    began = time.monotonic()
    with Children(home / "logs") as children:
        engines = started(children, play.stage, play.urls)
        data = home / "data"
        line = plimsoll(
            "serve", str(play.policy), "--data", str(data), "--port", "0", "--admin-port", "0", "--no-project"
        )
        gateway = children.start("gateway", line, ours())
        url = _address(gateway.ready(STARTS_WITHIN))
        pids = {"gateway": gateway.process.pid} | {name: engine.process.pid for name, engine in engines.items()}
        asked = {"gateway": url}
        if play.stage.engine == "vllm":  # llama.cpp answers from another thread than the one that computes
            asked |= dict(zip(engines, play.urls, strict=True))
        with Watch(asked, pids) as watch:
            results = _sent(children, play, home, url)
            health = watch.health()
        gateway.end(10.0)
        own = {row.client_request_id: row.ttft for row in query.records(data)}
    seen = {result.index: result for result in results}
    counted = [seen[index] for index in play.counted() if index in seen]
    play.check(len(counted), len(play.counted()))
    late = sorted(each.lateness or 0.0 for each in counted)
    return Times(
        ttft=tuple(or_never(each.ttft) for each in counted),
        gateway=tuple(or_never(own.get(each.client_request_id)) for each in counted),
        health=replace(health, late_p99=late[int(0.99 * (len(late) - 1))]),
        wall=time.monotonic() - began,
    )


def _sent(children: Children, play: Play, home: Path, url: str) -> list[Result]:
    """The trace, played to the gateway until gold has all its answers."""
    out, people = home / "client.jsonl", home / "tenants.yaml"
    people.write_text("".join(f"{name}: {key_of(name)}\n" for name in tenants()))
    line = plimsoll(
        "replay", str(play.trace), "--target", url, "--tenants", str(people), "--out", str(out),
        "--model", play.stage.model,
    )  # fmt: skip
    client = children.start("client", line, ours())
    wanted, deadline = set(play.counted()), time.monotonic() + play.rows[-1].at + BEYOND
    results: list[Result] = []
    for batch in _lines(out, client, deadline):
        results += batch
        wanted.difference_update([each.index for each in batch])
        if not wanted and client.process.poll() is None:
            client.process.send_signal(signal.SIGTERM)  # the neighbour's backlog is not waited for
    return results


def _lines(path: Path, child: Child, deadline: float) -> Iterator[list[Result]]:
    """Rows of a file as they are written, until its writer has ended."""
    rest, offset = b"", 0
    while True:
        ended = child.process.poll() is not None
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                rest += file.read()
                offset = file.tell()
        *whole, rest = rest.split(b"\n")
        yield [msgspec.json.decode(line, type=Result) for line in whole]
        if ended:
            return
        if time.monotonic() > deadline:
            child.process.send_signal(signal.SIGTERM)
            deadline = inf
        time.sleep(0.5)


def _address(text: str) -> str:
    found = re.search(r"http://[\w.:\[\]-]+", text)
    if found is None:
        raise RuntimeError(f"no address in {text!r}")
    return found[0]


def remove(home: Path) -> None:
    """A folder of an earlier run, if it is there."""
    if home.exists():
        shutil.rmtree(home)

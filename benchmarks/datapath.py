"""What Python costs on the data path, without sockets or kernel: `python -m benchmarks.datapath [--profile OUT]`.

The whole gateway (HTTP, auth, governor, timing, journal, metrics) over transports that only keep what is written. CPU
time of the best of many short slices, so that neighbours on the machine show as little as can be: for comparing one
version of the code with another, minutes apart, on a machine that is not quiet. `benchmarks.gateway` has the kernel in
it and is what targets are held to.
"""

import argparse
import asyncio
import cProfile
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from benchmarks.gateway import KEY, POLICY
from plimsoll.gateway.carrier import Surroundings
from plimsoll.gateway.channel import DirectChannel
from plimsoll.gateway.clock import wall_clock
from plimsoll.gateway.connection import ClientConnection
from plimsoll.gateway.driver import Driver
from plimsoll.gateway.server import HttpServer
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.governor import Governor
from plimsoll.policy import document
from plimsoll.storage.journal import Journal
from plimsoll.telemetry.prometheus import Metrics

REPLICA = "http://127.0.0.1:1"
DATE = b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\nserver: mock\r\n"
USAGE = b'"usage":{"prompt_tokens":256,"completion_tokens":16,"total_tokens":272}'
CONTENT = (
    b'{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1700000000,"model":"mock-model",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"Zq9:1234567890 lorem ipsum dolor sit amet"},'
    b'"finish_reason":"stop"}],' + USAGE + b"}"
)
ANSWER = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n" % (DATE, len(CONTENT))
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    + DATE
    + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _event(delta: bytes, finish: bytes = b"null", usage: bytes = b"") -> bytes:
    event = (
        b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,'
        b'"model":"mock-model","choices":[{"index":0,"delta":{%b},"finish_reason":%b}]%b}\n\n' % (delta, finish, usage)
    )
    return b"%x\r\n%b\r\n" % (len(event), event)


FIRST = STREAM_HEAD + _event(b'"role":"assistant","content":""')
TOKEN = _event(b'"content":"Zq9:1234567890 lo"')
LAST = _event(b"", b'"stop"', b"," + USAGE) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Wire:
    """A transport that counts what is written."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.last = b""

    def write(self, data: bytes) -> None:
        self.num_bytes += len(data)
        self.last = data

    def writelines(self, parts: list[bytes]) -> None:
        self.num_bytes += sum(map(len, parts))

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


class Bench:
    """A gateway, one client's connection and one engine's."""

    def __init__(self, folder: Path) -> None:
        text = POLICY.format(digest=sha256(KEY.encode()).hexdigest(), port=1)
        policy = document.parse(text)
        clock = wall_clock()
        self.soon: list[Callable[[], None]] = []
        around = Surroundings(clock, lambda at, call: _Timer(), self.soon.append, lambda work, done: done(work()))
        self.journal = Journal.open(folder)
        self.driver = Driver(
            policy,
            DirectChannel(Governor(policy, {})),
            self.journal,
            around,
            first_request_id=self.journal.next_request_id,
        )
        self.driver.carrier.settled.append(Metrics().settled)
        self.driver.replicas_reported((ReplicaReport(REPLICA, True, clock()),))
        self.server = HttpServer(self.driver, policy.gateway, clock)
        self.client_wire, self.engine_wire = Wire(), Wire()
        self.client = ClientConnection(self.server)
        self.client.connection_made(self.client_wire)  # type: ignore[arg-type]  # a transport by its methods
        origin = self.server.upstreams.origin(REPLICA)
        self.engine = UpstreamConnection(origin)
        self.engine.connection_made(self.engine_wire)  # type: ignore[arg-type]
        origin.put(self.engine)

    def turn(self) -> None:
        """The event loop's next turn."""
        while self.soon:
            self.soon.pop()()

    def request(self, data: bytes) -> None:
        """One that is answered whole."""
        self.client.data_received(data)
        self.turn()
        self.engine.data_received(ANSWER + CONTENT)
        self.turn()

    def large(self, pieces: list[bytes]) -> None:
        """One whose body comes in many reads."""
        for piece in pieces:
            self.client.data_received(piece)
        self.turn()
        self.engine.data_received(ANSWER + CONTENT)
        self.turn()

    def stream(self, data: bytes, reads: list[bytes]) -> None:
        """One that is answered by those reads."""
        self.client.data_received(data)
        self.turn()
        receive = self.engine.data_received
        receive(FIRST)
        for read in reads:
            receive(read)
        receive(LAST)
        self.turn()


class _Timer:
    def cancel(self) -> None:
        pass


def request_bytes(num_prompt_bytes: int, *, stream: bool) -> bytes:
    """As the load client sends it."""
    body = {
        "model": "mock-model",
        "messages": [{"role": "user", "content": "lorem ipsum " * (num_prompt_bytes // 12)}],
        "max_tokens": 64,
    }
    raw = msgspec.json.encode(body | {"stream": True} if stream else body)
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:1\r\nuser-agent: gwload\r\naccept: */*\r\n"
        b"content-type: application/json\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"
        % (KEY.encode(), len(raw), raw)
    )


def best(work: Callable[[], None], per_slice: int, num_slices: int) -> float:
    """µs of CPU a piece of work, in the best slice."""
    least = float("inf")
    for _ in range(num_slices):
        began = time.thread_time()
        for _ in range(per_slice):
            work()
        least = min(least, time.thread_time() - began)
    return least / per_slice * 1e6


async def measure(folder: Path, scale: int) -> dict[str, float]:
    """All figures, µs."""
    bench = Bench(folder)
    plain, streamed = request_bytes(1000, stream=False), request_bytes(1000, stream=True)
    large = request_bytes(220_000, stream=False)
    pieces = [large[i : i + 65536] for i in range(0, len(large), 65536)]
    paced, burst = [TOKEN] * 240, [TOKEN * 16] * 15
    bench.request(plain)
    if not bench.client_wire.last.endswith(CONTENT):
        raise SystemExit(f"not answered as it should be: {bench.client_wire.last!r}")
    figures = {"request": best(lambda: bench.request(plain), 50, 40 * scale)}
    short = best(lambda: bench.stream(streamed, [TOKEN]), 20, 30 * scale)
    figures["stream of one token"] = short
    figures["event, one a read"] = (best(lambda: bench.stream(streamed, paced), 1, 60 * scale) - short) / 239
    figures["event, 16 a read"] = (best(lambda: bench.stream(streamed, burst), 1, 60 * scale) - short) / 239
    figures["request, 220 KB"] = best(lambda: bench.large(pieces), 10, 10 * scale)
    bench.journal.close()
    return figures


def main() -> None:
    """Print the table, or write a profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, help="write cProfile's statistics of 2,000 requests there")
    parser.add_argument("--scale", type=int, default=3, help="how long to look for the best slice")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if a.profile:
            bench = Bench(Path(folder))
            data = request_bytes(1000, stream=False)
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(2000):
                bench.request(data)
            profile.disable()
            profile.dump_stats(a.profile)
            return
        for name, value in asyncio.run(measure(Path(folder), a.scale)).items():
            print(f"{name:22}{value:9.2f} µs")


if __name__ == "__main__":
    main()

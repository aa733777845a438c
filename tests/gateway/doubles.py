"""A driver that forwards everything and writes down what it is told, and a client of raw bytes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from plimsoll.gateway.hands import Answer, Attempt, ClientRequest, Ended, Exchange
from plimsoll.gateway.server import HttpServer
from plimsoll.governor.events import Endpoint
from plimsoll.policy.policy import GatewayRules
from plimsoll.slo.outcome import REASONS, Phase, Reason

Log = tuple[str, object]


class Tokens:
    """Counts what a TokenClock would count."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self.calls: list[tuple[float, int]] = []
        self.stalled = 0.0

    def tokens(self, at: float, num: int) -> None:
        self.num_tokens += num
        self.calls.append((at, num))

    def stall(self, seconds: float) -> None:
        self.stalled += seconds


@dataclass
class Recorder:
    """Forwards to the replicas in turn as long as there are any; `wait` leaves requests undispatched."""

    replicas: list[str] = field(default_factory=list)
    endpoint: Endpoint = Endpoint.CHAT
    hide_usage: bool = False
    reserved: int = 0
    wait: bool = False
    body: bytes | None = None
    log: list[Log] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    tokens: list[Tokens] = field(default_factory=list)
    forbid: Callable[[ClientRequest], bool] = lambda _request: False
    on_end: Callable[[Exchange], None] = lambda _exchange: None
    on_first: Callable[[Exchange], None] = lambda _exchange: None
    tried: dict[int, int] = field(default_factory=dict)

    def words(self) -> list[str]:
        return [word for word, _ in self.log]

    def head_read(self, request: ClientRequest) -> Answer | None:
        self.log.append(("head_read", request))
        return _answer(Reason.UNKNOWN_KEY) if self.forbid(request) else None

    def request(self, exchange: Exchange) -> None:
        self.log.append(("request", exchange.request))
        self.exchanges.append(exchange)
        if not self.wait:
            self.forward(exchange)

    def forward(self, exchange: Exchange) -> None:
        num = self.tried.get(id(exchange), 0)
        self.tried[id(exchange)] = num + 1
        if num >= len(self.replicas):
            answer = _answer(Reason.NO_REPLICA)
            exchange.answer(answer.status, answer.headers, answer.body)
            return
        tokens = Tokens()
        self.tokens.append(tokens)
        attempt = Attempt(
            self.replicas[num],
            tokens,
            self.endpoint,
            streaming=True,
            body=self.body,
            hide_usage=self.hide_usage,
            reserved_output_tokens=self.reserved,
        )
        exchange.forward(attempt)

    def hedge(self, exchange: Exchange, url: str) -> None:
        """Try a second replica beside the first, as the driver does: both count on one clock."""
        exchange.hedge(Attempt(url, self.tokens[-1], self.endpoint, streaming=True, body=self.body))

    def client_left(self, exchange: Exchange, at: float) -> None:
        self.log.append(("client_left", at))

    def first_token(self, exchange: Exchange, at: float, *, hedge: bool = False) -> None:
        self.log.append(("first_token by hedge" if hedge else "first_token", at))
        self.on_first(exchange)

    def hedge_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        self.log.append(("hedge_failed", (reason, retry_after)))

    def prefill_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        self.log.append(("prefill_failed", (reason, retry_after)))

    def outgrown(self, exchange: Exchange, tokens: int, at: float) -> None:
        self.log.append(("outgrown", tokens))

    def attempt_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        self.log.append(("attempt_failed", (reason, retry_after, exchange.phase)))
        self.forward(exchange)

    def ended(self, exchange: Exchange, end: Ended) -> None:
        self.log.append(("ended", (end.outcome, end.reason, end.phase)))
        self.ends.append(end)
        self.on_end(exchange)

    def refusal(self, request: ClientRequest, reason: Reason, at: float) -> Answer:
        self.log.append(("refusal", reason))
        return _answer(reason)

    def failure(self, exchange: Exchange, reason: Reason) -> Answer:
        return _answer(reason)

    def failure_event(self, exchange: Exchange, reason: Reason) -> bytes:
        return b'data: {"error":{"code":"%b"}}\n\n' % reason.value.encode()


def _answer(reason: Reason) -> Answer:
    body = b'{"error":{"code":"%b"}}' % reason.value.encode()
    return Answer(REASONS[reason].status, ((b"content-type", b"application/json"),), body)


class RawClient:
    """A socket; no opinion about HTTP but what `answer` needs to find an answer's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and unframed body of one answer of known length or chunks."""
        head = await self.head()
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            return head, await self._chunks()
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in lower else 0
        return head, await asyncio.wait_for(self.reader.readexactly(length), 10)

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while True:
            size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), 10), 16)
            parts.append(await self.reader.readexactly(size))
            assert await self.reader.readexactly(2) == b"\r\n"
            if size == 0:
                return b"".join(parts)

    async def until_close(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(-1), 10)

    async def close(self) -> None:
        self.writer.close()


@dataclass
class Served:
    """A server under test, and clients for it."""

    server: HttpServer
    hands: Recorder
    port: int
    clients: list[RawClient] = field(default_factory=list)

    async def client(self) -> RawClient:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        client = RawClient(reader, writer)
        self.clients.append(client)
        return client

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until that holds; how long it takes depends on the machine, not on the test."""
        for _ in range(4000):
            if holds():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"never happened; so far: {self.hands.log}")

    async def settled(self, num: int = 1) -> None:
        """Wait until so many requests have ended or been left."""
        await self.until(lambda: sum(word in ("ended", "client_left") for word in self.hands.words()) >= num)

    async def phase(self, phase: Phase) -> None:
        """Wait until the first request is in that phase."""
        await self.until(lambda: self.hands.exchanges and self.hands.exchanges[0].phase is phase)


@asynccontextmanager
async def serving(hands: Recorder, rules: GatewayRules | None = None) -> AsyncIterator[Served]:
    """A server with that driver on a free port."""
    server = HttpServer(hands, rules or GatewayRules(), time.time)
    served = Served(server, hands, await server.listen("127.0.0.1", 0))
    try:
        yield served
    finally:
        await server.close()
        for client in served.clients:
            client.writer.close()
        await asyncio.sleep(0)


def post(body: bytes = b'{"a":1}', extra: bytes = b"", path: bytes = b"/v1/chat/completions") -> bytes:
    """A request as an SDK sends it."""
    head = b"POST %b HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
    return head % (path, extra, len(body)) + body

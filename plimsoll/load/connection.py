"""Connections to the target: HTTP/1.1 by httptools, kept alive while young, one request at a time on each."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.load.exchange import Exchange

MAX_IDLE: Final = 4.0  # s; servers close idle connections after 5 s or more, and a request must not meet that
CONNECT_TIMEOUT: Final = 10.0  # s


class Target(Struct, frozen=True):
    """Where requests go."""

    host: str
    port: int
    tls: bool
    path: str  # in front of /v1/…

    @property
    def authority(self) -> str:
        """What stands in the Host header."""
        return f"{self.host}:{self.port}"


def target(url: str) -> Target:
    """The parts of a base URL; a trailing /v1 may be there or not. Raises UsageError where it is none."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1:
        raise UsageError(f"{url!r} is no target: give one like http://127.0.0.1:8000")
    tls = parts.scheme == "https"
    return Target(parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/").removesuffix("/v1"))


class Connection(asyncio.Protocol):
    """Reads one answer after another; every piece is stamped when it is read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._headers: dict[bytes, bytes] = {}
        self._exchange: Exchange | None = None
        self._at = 0.0
        self.idle_since = 0.0
        self.usable = False

    def send(self, exchange: Exchange, data: bytes) -> None:
        """Write a request whole and read its answer into `exchange`."""
        if self._transport is None:
            raise RuntimeError("send before the connection was made")
        self._parser, self._headers, self._exchange = httptools.HttpResponseParser(self), {}, exchange
        exchange.sent_at = self._clock()
        self._transport.write(data)

    def close(self) -> None:
        """Leave at once; the server sees the client go."""
        self.usable, self._exchange = False, None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call."""
        self._transport, self.usable = cast(asyncio.Transport, transport), True  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """asyncio's call."""
        self._at = self._clock()
        if self._exchange is None or self._parser is None:
            self.close()  # bytes nobody asked for
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(f"not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's call."""
        self.usable = False
        self._at = self._clock()
        self._break("connection closed" if exc is None else type(exc).__name__)

    def _break(self, why: str) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.broke(why, self._at)
        self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools' call."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """httptools' call."""
        if self._exchange is not None and self._parser is not None:
            self._exchange.head(self._parser.get_status_code(), self._headers)

    def on_body(self, body: bytes) -> None:
        """httptools' call."""
        if self._exchange is not None:
            self._exchange.body(body, self._at)

    def on_message_complete(self) -> None:
        """httptools' call."""
        exchange, self._exchange = self._exchange, None
        self.usable = self.usable and self._parser is not None and self._parser.should_keep_alive()
        self.idle_since = self._at
        if exchange is not None:
            exchange.ended(self._at)


class Connections:
    """The kept ones, youngest first; makes more without a limit: an open loop must not wait for itself."""

    def __init__(self, where: Target, clock: Callable[[], float]) -> None:
        self._where, self._clock = where, clock
        self._idle: list[Connection] = []
        self._tls = ssl.create_default_context() if where.tls else None

    async def take(self) -> Connection:
        """A connection ready for a request. Raises OSError or TimeoutError where the target cannot be reached."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._clock() - connection.idle_since < MAX_IDLE:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, connection = await loop.create_connection(
                lambda: Connection(self._clock), self._where.host, self._where.port, ssl=self._tls
            )
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep it for the next request if the server lets us, else close it."""
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle ones."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

"""Engines by address: dialling, and the pool of idle connections."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from plimsoll.gateway.hands import Clock
from plimsoll.gateway.tls import default_context
from plimsoll.gateway.upstream import UpstreamConnection

IDLE_LIMIT = 4.0
"""s an idle connection is kept: below the 5 s after which uvicorn and llama.cpp close theirs. Not Final: compiled
code would fix it, tests change it."""


class Caller(Protocol):
    """Who asked for a connection."""

    def connected(self, upstream: UpstreamConnection) -> None:
        """The dialled connection stands."""

    def not_connected(self) -> None:
        """Dialling failed."""


class Origin:
    """One engine's address and its idle connections, the last used first."""

    def __init__(self, url: str, clock: Clock, tls: Callable[[str], ssl.SSLContext]) -> None:
        """`tls` says how to speak to that URL, asked at each dial: a policy may change it."""
        parts = urlsplit(url)
        self._url, self._context = url, tls
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._clock = clock
        self._idle: deque[UpstreamConnection] = deque()
        self.host = parts.netloc.rpartition("@")[2].encode()
        self.prefix = parts.path.rstrip("/").encode()
        self.num_dialled = 0

    def take(self) -> UpstreamConnection | None:
        """An idle connection, or None where one must be dialled."""
        while self._idle:
            upstream = self._idle.pop()
            if upstream.transport is not None and not upstream.transport.is_closing():
                return upstream
        return None

    def dial(self, caller: Caller) -> asyncio.Task[None]:
        """Connect; `caller.connected` or `not_connected` is called unless the task is cancelled first."""
        self.num_dialled += 1
        return asyncio.get_running_loop().create_task(self._dial(caller))

    async def _dial(self, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        context = self._context(self._url) if self._tls else None
        try:
            _, upstream = await loop.create_connection(self._connection, self._host, self._port, ssl=context)
        except (OSError, UnicodeError):  # UnicodeError: a host name that IDNA cannot encode
            caller.not_connected()
        else:
            caller.connected(upstream)

    def _connection(self) -> Any:  # a protocol by its methods: asyncio's types want a base class
        return UpstreamConnection(self)

    def put(self, upstream: UpstreamConnection) -> None:
        """Take back a connection whose answer is complete."""
        upstream.idle_since = self._clock()
        self._idle.append(upstream)

    def forget(self, upstream: UpstreamConnection) -> None:
        """A connection closed."""
        if self._idle and upstream.receiver is None:
            with suppress(ValueError):  # it was not idle
                self._idle.remove(upstream)

    def expire(self, now: float) -> None:
        """Close those that have been idle for so long that their engine is about to close them."""
        while self._idle and now - self._idle[0].idle_since > IDLE_LIMIT:
            self._idle.popleft().abort()

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.popleft().abort()


class Upstreams:
    """All engines by base URL."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origins: dict[str, Origin] = {}
        self.contexts: Mapping[str, ssl.SSLContext] = {}  # for engines with authorities of their own

    def origin(self, url: str) -> Origin:
        """The engine at that base URL."""
        origin = self._origins.get(url)
        if origin is None:
            origin = self._origins[url] = Origin(url, self._clock, self._tls)
        return origin

    def _tls(self, url: str) -> ssl.SSLContext:
        return self.contexts.get(url) or default_context()

    def expire(self, now: float) -> None:
        """Close connections that have been idle too long."""
        for origin in self._origins.values():
            origin.expire(now)

    def close(self) -> None:
        """Close all idle connections."""
        for origin in self._origins.values():
            origin.close()

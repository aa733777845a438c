"""The HTTP server: listens, keeps the connections, asks them now and then what is overdue, drains.

Reading order for one request: `connection` → `reader` → `exchange` → `upstream` → `reading`, `stream` → `answer`;
`hands` is what it calls.
"""

import asyncio
import logging
import socket
import ssl
from typing import Any, Final, NamedTuple

from plimsoll.gateway.connection import ClientConnection
from plimsoll.gateway.hands import Clock, Hands
from plimsoll.gateway.headers import DateLine
from plimsoll.gateway.listening import BACKLOG, open_sockets, take_backlog
from plimsoll.gateway.origin import Upstreams
from plimsoll.gateway.tls import HANDSHAKE
from plimsoll.policy.policy import GatewayRules, Timeouts

_log = logging.getLogger("plimsoll.gateway")
LAST_REQUESTS: Final = 0.05  # s that idle clients have in a drain: what they sent at its very moment is answered


class Listener(NamedTuple):
    """One address that we listen on."""

    server: asyncio.Server
    sock: socket.socket
    tls: ssl.SSLContext | None


class HttpServer:
    """Serves `hands` on any number of addresses. `rules` may be replaced at any time; timeouts follow at once, limits
    with the next connection."""

    def __init__(self, hands: Hands, rules: GatewayRules, clock: Clock) -> None:
        self.hands = hands
        self.rules = rules
        self.clock = clock
        self.upstreams = Upstreams(clock)
        self.dates = DateLine()
        self.draining = False
        self.connections: set[ClientConnection] = set()
        self._listeners: list[Listener] = []
        self._adopting: set[asyncio.Task[None]] = set()
        self._all_closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on that address (port 0: any free one); returns the port. OSError where it is taken."""
        loop = asyncio.get_running_loop()
        sockets = await open_sockets(host, port)
        for sock in sockets:
            server = await loop.create_server(
                self._connection, sock=sock, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=HANDSHAKE if tls else None
            )
            self._listeners.append(Listener(server, sock, tls))
        if self._timer is None:
            self._tick()
        bound: int = sockets[0].getsockname()[1]
        return bound

    def _connection(self) -> Any:  # a protocol by its methods: asyncio's types want a base class
        return ClientConnection(self)

    def drain(self) -> None:
        """Take no further connections than those that wait for us, close idle ones, others when they are answered."""
        if self.draining:
            return
        self.draining = True
        for listener in self._listeners:
            for taken in take_backlog(listener.sock):
                task = asyncio.create_task(self._adopt(taken, listener.tls))
                self._adopting.add(task)
                task.add_done_callback(self._adopted)
            listener.server.close()
        asyncio.get_running_loop().call_later(LAST_REQUESTS, self._close_idle)
        self._note_closed()

    async def _adopt(self, taken: socket.socket, tls: ssl.SSLContext | None) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connection, taken, ssl=tls, ssl_handshake_timeout=HANDSHAKE if tls else None
            )
        except (OSError, TimeoutError):  # its client has left meanwhile, or speaks no TLS
            taken.close()

    def _adopted(self, task: "asyncio.Task[None]") -> None:
        self._adopting.discard(task)
        self._note_closed()

    def _close_idle(self) -> None:
        for connection in tuple(self.connections):
            connection.close_if_idle()
        self._note_closed()

    async def drained(self) -> None:
        """Wait until the last connection is gone; call `drain` first."""
        self._note_closed()
        await self._all_closed.wait()

    async def close(self) -> None:
        """Close everything at once. Requests that are still open end as if their clients had left."""
        self.drain()
        await asyncio.gather(*self._adopting)
        for connection in tuple(self.connections):
            connection.abort()
        await self.drained()
        self.upstreams.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self._note_closed()

    def _note_closed(self) -> None:
        if self.draining and not self.connections and not self._adopting:
            self._all_closed.set()

    def _tick(self) -> None:
        """One coarse timer for all timeouts: nothing is armed for a connection, a request or an event."""
        now = self.clock()
        self._timer = asyncio.get_running_loop().call_later(tick_period(self.rules.timeouts), self._tick)
        for connection in tuple(self.connections):
            try:
                connection.check(now)
            except Exception as fault:  # the others' timeouts must hold all the same
                _log.error("a fault of the gateway itself, looking after a connection", exc_info=fault)
                connection.abort()
        self.upstreams.expire(now)


def tick_period(timeouts: Timeouts) -> float:
    """Seconds between looks: an eighth of the shortest timeout, within 10 ms to 0.5 s."""
    shortest = min(
        timeouts.connect,
        timeouts.first_byte,
        timeouts.idle,
        timeouts.total,
        timeouts.request,
        timeouts.keep_alive,
        timeouts.client_stall,
    )
    return min(0.5, max(0.01, shortest / 8))

"""A drain answers everybody who has reached us: also those whom only the kernel knows of yet."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import pytest

from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import wall_clock
from plimsoll.gateway.listening import open_sockets
from plimsoll.gateway.tls import ServingTls
from plimsoll.storage.journal import Journal
from tests.gateway.doubles import RawClient, post
from tests.gateway.liveapp import KEY, policy_for
from tests.gateway.scripted import run
from tests.gateway.test_tls import BODY, FIRST, client_side
from tests.gateway.tinyengine import Engine

NUM = 40
REQUEST = post(BODY, b"Authorization: Bearer " + KEY.encode() + b"\r\n")


def draining(test: Callable[[App, int], Awaitable[None]], directory: Path, loop: str, *, tls: bool = False) -> None:
    async def whole() -> None:
        engine = await Engine().start()
        clock = wall_clock()
        app = App(Promise(policy_for(engine.url), {}), Journal.open(directory, clock=clock), clock)
        context = ServingTls(FIRST, FIRST).context if tls else None
        try:
            await test(app, await app.listen("127.0.0.1", 0, context))
        finally:
            await app.close()
            await engine.stop()

    run(whole, loop)


def connect(port: int, data: bytes = b"") -> socket.socket:
    """Connected and sent by the kernels alone: the event loop has not run meanwhile."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(data)
    return sock


async def client_of(sock: socket.socket) -> RawClient:
    return RawClient(*await asyncio.open_connection(sock=sock))


async def refused(client: RawClient) -> None:
    """A whole answer and an orderly end; 200 for whoever the loop came to before it came to the drain."""
    head, body = await client.answer()
    if not head.startswith(b"HTTP/1.1 200"):
        assert head.startswith(b"HTTP/1.1 503")
        assert b"connection: close" in head.lower()
        assert b'"reason":"draining"' in body
    assert await client.until_close() == b""
    await client.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_waits_in_the_backlog_is_answered(loop: str, tmp_path: Path) -> None:
    async def test(app: App, port: int) -> None:
        waiting = [connect(port, REQUEST) for _ in range(NUM)]
        drain = asyncio.create_task(app.drain())
        await asyncio.gather(*[refused(await client_of(sock)) for sock in waiting])
        await asyncio.wait_for(drain, 5)
        with pytest.raises(ConnectionRefusedError):
            connect(port)

    draining(test, tmp_path, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_has_connected_and_sends_later_is_answered_too(loop: str, tmp_path: Path) -> None:
    async def test(app: App, port: int) -> None:
        waiting = [connect(port) for _ in range(NUM)]
        drain = asyncio.create_task(app.drain())
        clients = [await client_of(sock) for sock in waiting]
        await asyncio.sleep(0.3)
        for client in clients[: NUM // 2]:
            await client.send(REQUEST)
        await asyncio.gather(*[refused(client) for client in clients[: NUM // 2]])
        for client in clients[NUM // 2 :]:  # who says nothing is closed soon
            assert await client.until_close() == b""
            await client.close()
        await asyncio.wait_for(drain, 5)

    draining(test, tmp_path, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_an_idle_client_sends_at_that_very_moment_is_answered(loop: str, tmp_path: Path) -> None:
    async def test(app: App, port: int) -> None:
        sock = connect(port, REQUEST)
        spare = sock.dup()
        client = await client_of(sock)
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
        idle = await client_of(connect(port, REQUEST))
        await idle.answer()
        spare.send(REQUEST)  # in our receive buffer before the loop runs again
        spare.close()
        began = monotonic()
        drain = asyncio.create_task(app.drain())
        await refused(client)
        assert await idle.until_close() == b""
        await idle.close()
        await asyncio.wait_for(drain, 5)
        assert monotonic() - began < 1.0

    draining(test, tmp_path, loop)


def test_who_waits_in_a_tls_backlog_is_answered(tmp_path: Path) -> None:
    async def test(app: App, port: int) -> None:
        waiting = [connect(port) for _ in range(5)]
        broken = connect(port, b"GET / HTTP/1.1\r\n\r\n")
        left = connect(port)
        left.close()
        drain = asyncio.create_task(app.drain())

        async def talk(sock: socket.socket) -> None:
            tls: ssl.SSLContext = client_side()
            client = RawClient(*await asyncio.open_connection(sock=sock, ssl=tls, server_hostname="localhost"))
            await client.send(REQUEST)
            await refused(client)

        await asyncio.gather(*[talk(sock) for sock in waiting])
        broken.close()
        await asyncio.wait_for(drain, 10)

    draining(test, tmp_path, "uvloop", tls=True)


def test_one_port_on_every_address_of_a_name() -> None:
    async def test() -> None:
        sockets = await open_sockets("localhost", 0)
        try:
            assert len({sock.getsockname()[1] for sock in sockets}) == 1
            with pytest.raises(OSError, match="in use"):
                await open_sockets("localhost", sockets[0].getsockname()[1])
        finally:
            for sock in sockets:
                sock.close()

    asyncio.run(test())

"""What the kernel tells of connections, and what is kept of prompts: a number."""

import asyncio
import sys

import pytest

from plimsoll.gateway.prompts import ENTROPY_LEAST, entropy
from plimsoll.gateway.sockets import tcp_state


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is read on Linux only")
def test_a_connections_round_trip_is_told() -> None:
    async def scenario() -> tuple[tuple[float, int] | None, tuple[float, int] | None]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(5))
            await reader.read()  # until the client is gone
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1")
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        told = tcp_state(writer.transport)
        writer.transport.abort()
        await asyncio.sleep(0.01)
        server.close()
        return told, tcp_state(writer.transport)

    told, after = asyncio.run(scenario())
    assert told is not None
    assert 0.0 < told[0] < 1.0
    assert told[1] == 0
    assert after is None, "a closed connection tells nothing"


def test_entropy_tells_repetition_from_text_and_noise() -> None:
    words = "the quick brown fox jumps over a lazy dog while seven wizards mix potions quietly near old castle walls"
    text = (" ".join(words.split()[(i * 7) % 19] + str(i * i % 97) for i in range(400))).encode()
    repeated, noise = b"again and again " * 200, bytes((i * i * 31 + i * 7) % 251 for i in range(4096))
    found = [entropy(each) for each in (repeated, text, noise)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] < 1.0 < found[1] < 6.5
    assert entropy(b"x" * (ENTROPY_LEAST - 1)) is None

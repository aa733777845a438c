"""A real server that follows a script: what an engine may do to a gateway, byte by byte."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

Result = TypeVar("Result")
Step = bytes | float | str
"""Bytes to send, seconds to wait, or a word: see `Script`."""


@dataclass
class Script:
    """What one connection does with one request, step by step.

    Words: `close` (orderly), `reset` (RST), `hold` (wait until the gateway closes), `gate` (wait for `engine.gate`),
    `turn` (wait for one more release of `engine.turns`).
    After the last step the connection reads the next request, if the script's bytes did not say otherwise.
    """

    steps: list[Step]
    read_request: bool = True


@dataclass
class Seen:
    """A request as the engine got it."""

    head: bytes
    body: bytes
    connection: int

    def header(self, name: bytes) -> bytes | None:
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == name:
                return value.strip()
        return None


@dataclass
class ScriptedEngine:
    """Plays one script a request, in order; the last one again and again."""

    scripts: list[Script]
    seen: list[Seen] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    num_connections: int = 0
    num_closed_by_gateway: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _played: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer, self.num_connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            await self._serve(reader, writer, number)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.num_closed_by_gateway += 1
            self.gone.set()
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            script = self.scripts[min(self._played, len(self.scripts) - 1)]
            if script.read_request:
                await self._read_request(reader, number)
            self._played += 1
            for step in script.steps:
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif isinstance(step, float):
                    await asyncio.sleep(step)
                elif await self._word(step, reader, writer):
                    return

    async def _word(self, word: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Act; returns whether the connection is over."""
        if word == "gate":
            await self.gate.wait()
            return False
        if word == "turn":
            await self.turns.acquire()
            return False
        if word == "hold":
            if await reader.read(1) == b"":
                self.num_closed_by_gateway += 1
                self.gone.set()
        elif word == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return True

    async def _read_request(self, reader: asyncio.StreamReader, number: int) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = await reader.readexactly(length)
        self.seen.append(Seen(head, body, number))


def sse(*data: str, end: str = "\n\n") -> bytes:
    """Events with these data lines."""
    return b"".join(f"data: {item}{end}".encode() for item in data)


def token(text: str) -> str:
    """A chat chunk with one token."""
    return (
        '{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"'
        + text
        + '"},"finish_reason":null}]}'
    )


USAGE = '{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def json_answer(body: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    """A whole answer of known length."""
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
    return head % (status, extra, len(body)) + body


def run(test: Callable[[], Awaitable[Result]], loop: str = "asyncio") -> Result:
    """Run a coroutine on asyncio's own loop or on uvloop, for 40 s at most, warnings being errors; what it returns."""
    if loop == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_bounded(test))
    return asyncio.run(_bounded(test))


async def _bounded(test: Callable[[], Awaitable[Result]]) -> Result:
    return await asyncio.wait_for(test(), 40)

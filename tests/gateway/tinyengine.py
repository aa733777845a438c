"""A small engine on a real socket: answers chat token by token, tells vLLM's metrics, misbehaves on demand."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

import httptools


class Engine:
    """`gap` s between tokens; `probe_delay` s before its metrics answer; `status` of everything but 200 for errors."""

    def __init__(self) -> None:
        self.gap = 0.0
        self.probe_delay = 0.0
        self.metrics_status = 200
        self.num_running = 0
        self.bodies: list[bytes] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", port or self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in tuple(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (request := await _Request.read(reader)) is not None:
                await self._answer(request, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, request: "_Request", writer: asyncio.StreamWriter) -> None:
        if request.method == b"GET":
            await self._page(request, writer)
            return
        self.bodies.append(request.body)
        self.headers.append(request.headers)
        body = json.loads(request.body)
        self.num_running += 1
        try:
            if body.get("stream"):
                await self._stream(body, writer)
            else:
                await asyncio.sleep(self.gap)
                _whole(writer, 200, {"object": "chat.completion", "usage": _usage(body)})
                await writer.drain()
        finally:
            self.num_running -= 1

    async def _page(self, request: "_Request", writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.probe_delay)
        if request.target.endswith(b"/metrics"):
            text = f'vllm:num_requests_running{{engine="0"}} {self.num_running}\n'
            text += 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1\n'
            _raw(writer, self.metrics_status, b"text/plain", text.encode())
        else:
            _whole(writer, 200, {"object": "list", "data": [{"id": "m", "max_model_len": 4096}]})
        await writer.drain()

    async def _stream(self, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        num = body.get("max_tokens", 3)
        for _ in range(num if isinstance(num, int) else 3):
            await asyncio.sleep(self.gap)
            _event(writer, {"choices": [{"index": 0, "delta": {"content": "word "}}]})
            await writer.drain()
        _event(writer, {"choices": [], "usage": _usage(body)})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


def _usage(body: dict[str, object]) -> dict[str, object]:
    usage = {"prompt_tokens": 9, "completion_tokens": body.get("max_tokens", 3), "total_tokens": 12}
    if body.get("kv_transfer_params"):  # vLLM counts what it took over from another engine as cached
        usage["prompt_tokens_details"] = {"cached_tokens": 8}
    return usage


def _event(writer: asyncio.StreamWriter, document: object) -> None:
    data = b"data: " + json.dumps(document).encode() + b"\n\n"
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def _whole(writer: asyncio.StreamWriter, status: int, document: object) -> None:
    _raw(writer, status, b"application/json", json.dumps(document).encode())


def _raw(writer: asyncio.StreamWriter, status: int, kind: bytes, data: bytes) -> None:
    head = b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(data))
    writer.write(head + data)


class _Request:
    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.complete = False

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> "Self | None":
        request = cls()
        parser = httptools.HttpRequestParser(request)
        while not request.complete:
            data = await reader.read(65_536)
            if not data:
                return None
            parser.feed_data(data)
        request.method = parser.get_method()
        return request

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


async def until(holds: Callable[[], object]) -> None:
    """Wait until that holds; the test's own time limit ends what never does."""
    while not holds():  # noqa: ASYNC110 - what is waited for is in another process or has no event
        await asyncio.sleep(0.01)


@asynccontextmanager
async def engines(num: int = 1) -> AsyncIterator[list[Engine]]:
    """That many, stopped at the end."""
    started = [await Engine().start() for _ in range(num)]
    try:
        yield started
    finally:
        for engine in started:
            await engine.stop()

"""An engine that breaks wherever an engine can, and clients that leave wherever a client can; both as dice say."""

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.gateway.tinyengine import Engine, _event, _raw, _Request, _usage, _whole

STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BREAKS: Final = (
    "busy", "error", "refuse", "reset", "reset_after_head", "reset_midway", "end_midway", "silent", "garbage",
    "no_cache",
)  # fmt: skip
LEAVES: Final = ("at_once", "soon", "after_bytes", "half_close")
_TOKEN: Final = {"choices": [{"index": 0, "delta": {"content": "word "}}]}


class FickleEngine(Engine):
    """Answers `steady` of all requests as asked; the others break, each in the next of `ways`."""

    def __init__(self, dice: Random, ways: Iterator[str]) -> None:
        super().__init__()
        self.dice, self.ways = dice, ways
        self.steady = 1.0
        self.broke: set[str] = set()

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        if request.method == b"GET":
            await self._page(request, writer)
            return
        body = json.loads(request.body)
        is_prompt = bool((body.get("kv_transfer_params") or {}).get("do_remote_decode"))
        how = "" if self.dice.random() < self.steady else next(self.ways)
        if how:
            self.broke.add(how)
            await self._break(how, body, writer)
        elif is_prompt:
            self._prompt(body, writer, {"do_remote_prefill": True, "remote_host": "10.0.0.7"})
        else:
            await super()._answer(request, writer)
            return
        await writer.drain()

    def _prompt(self, body: dict[str, object], writer: asyncio.StreamWriter, params: object) -> None:
        _whole(writer, 200, {"object": "chat.completion", "usage": _usage(body), "kv_transfer_params": params})

    async def _break(self, how: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        statuses = {"busy": 503, "error": 500, "refuse": 400}
        if how in statuses:
            _whole(writer, statuses[how], {"error": {"message": "no"}})
        elif how == "no_cache":
            self._prompt(body, writer, None)
        elif how == "garbage":
            _raw(writer, 200, b"application/json", b'{"kv_transfer_params": {"do_remote')
        elif how == "silent":
            await asyncio.sleep(self.dice.choice((0.2, 30.0)))
            writer.transport.abort()
        else:
            await self._break_off(how, writer)

    async def _break_off(self, how: str, writer: asyncio.StreamWriter) -> None:
        if how != "reset":
            writer.write(STREAM_HEAD)
        if how in {"reset_midway", "end_midway"}:
            for _ in range(2):
                _event(writer, _TOKEN)
                await writer.drain()
                await asyncio.sleep(0.02)
        if how == "end_midway":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            writer.close()
        else:
            writer.transport.abort()


class FickleClient:
    """One request over a connection of its own, read to its end or left in one of the ways of LEAVES."""

    def __init__(self, port: int, leaves: str, moment: float) -> None:
        self._port, self._leaves, self._moment = port, leaves, moment

    async def ask(self, request: bytes) -> None:
        """Send it; whatever comes back is nobody's business here."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(request)
            await writer.drain()
            if self._leaves == "soon":
                await asyncio.sleep(self._moment)
            elif self._leaves == "after_bytes":
                await reader.read(64)
            elif self._leaves == "half_close":
                await asyncio.sleep(self._moment)
                writer.write_eof()
                await reader.read()
            elif not self._leaves:
                await _whole_answer(reader)
        except ConnectionError:
            pass
        finally:
            writer.close()


async def _whole_answer(reader: asyncio.StreamReader) -> None:
    """The request says `Connection: close`, so its end is the answer's."""
    while await reader.read(1 << 16):
        pass

"""A small guardrail service on a real socket: judges, is slow, breaks, as it is told; keeps what it was asked."""

import asyncio
import json
from typing import Any, Self

from aiohttp import web


class Guard:
    """`answer` is sent as JSON with `status`; `raw` instead of it, where set; after `delay` s."""

    def __init__(self) -> None:
        self.answer: Any = {"allow": True}
        self.raw: bytes | None = None
        self.status = 200
        self.delay = 0.0
        self.asked: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.num_running = 0
        self.num_connections = 0
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/check", self._check)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/check"

    async def _check(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        self.asked.append(json.loads(body))
        self.headers.append(dict(request.headers))
        self.num_running += 1
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.num_running -= 1
        data = json.dumps(self.answer).encode() if self.raw is None else self.raw
        return web.Response(status=self.status, body=data, content_type="application/json")

"""The operators' side, on a port of its own: health, metrics, the governor's state, decisions as they fall, reload.

`/healthz`, `/readyz`, `/metrics`, `/scaling` and `/apis/…` are open to whoever reaches the port (loopback unless told
otherwise); `/admin/…` wants the token.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple, Protocol

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from plimsoll.errors import PlimsollError, PolicyError
from plimsoll.gateway.feed import Feed
from plimsoll.gateway.openapi import EXTERNAL, document


class Reloaded(NamedTuple):
    """What a reload did."""

    version: str
    warnings: tuple[str, ...]


class Operations(Protocol):
    """What operators may ask of the gateway."""

    feed: Feed

    def unready(self) -> list[str]:
        """Why no traffic should be sent here now; empty: all is well."""

    async def metrics(self, accept: str) -> tuple[str, list[bytes]]:
        """The page for Prometheus in a format that this Accept header takes: its content type, its pieces in order."""

    def snapshot(self) -> bytes:
        """The governor's state, JSON."""

    def scaling(self) -> bytes:
        """Signals for autoscalers by pool, JSON."""

    def external_metrics(self, metric: str, pool: str) -> bytes | None:
        """One of them as Kubernetes' external metrics, JSON (`pool`: "" for all); None where there is none so named."""

    async def reload(self) -> Reloaded:
        """Read the policy again and go by it. Raises PlimsollError, and then the old one stays."""


_log = logging.getLogger(__name__)
_log.addFilter(
    # what is no HTTP is answered with a 400 and is no fault of ours: a port scan must not fill the log with tracebacks
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)

PART: Final = 65_536
"""Bytes of a page that are written at once: tens of microseconds."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """Serves `Operations` over HTTP."""

    def __init__(self, operations: Operations, token: str) -> None:
        self._operations = operations
        self._token = token
        self._runner: web.AppRunner | None = None

    async def listen(self, host: str, port: int) -> int:
        """Listen there (port 0: any free one); returns the port. OSError where it is taken."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/scaling", self._scaling),
                web.get(EXTERNAL + "/{namespace}/{metric}", self._external_metrics),
                web.get("/admin/openapi.json", self._openapi),
                web.get("/admin/snapshot", self._snapshot),
                web.get("/admin/events", self._events),
                web.post("/admin/reload", self._reload),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, logger=_log, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def close(self) -> None:
        """Stop listening and end the streams."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/admin/"):
            given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(given, self._token.encode()):
                return _error(401, "the admin token is missing or wrong; it is in the file that the READY line names")
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        reasons = self._operations.unready()
        return web.Response(status=503 if reasons else 200, text="".join(f"{reason}\n" for reason in reasons) or "ok\n")

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        """Sent part by part: a thousand tenants' 15 MB in one write would hold up whoever is served."""
        content_type, pieces = await self._operations.metrics(request.headers.get("accept", ""))
        response = web.StreamResponse(headers={"content-type": content_type})
        response.content_length = sum(map(len, pieces))
        try:
            await response.prepare(request)
            for part in _parts(pieces) if request.method == "GET" else ():
                await response.write(part)
                await asyncio.sleep(0)  # a socket that takes megabytes at once would make it one long turn
            await response.write_eof()
        except (ConnectionResetError, ConnectionAbortedError):
            _log.debug("a scraper left before its page ended")
        return response

    async def _snapshot(self, _: web.Request) -> web.Response:
        return web.Response(body=self._operations.snapshot(), content_type="application/json")

    async def _scaling(self, _: web.Request) -> web.Response:
        return web.Response(body=self._operations.scaling(), content_type="application/json")

    async def _external_metrics(self, request: web.Request) -> web.Response:
        """`labelSelector=pool=chat` chooses a pool; other selectors choose nothing that we could give."""
        name = request.match_info["metric"]
        label, _, pool = request.query.get("labelSelector", "pool=").partition("=")
        found = self._operations.external_metrics(name, pool.lstrip("=")) if label == "pool" else None
        if found is None:
            return _error(404, f"no metric {name!r} for these labels: see /scaling, and labelSelector=pool=NAME")
        return web.Response(body=found, content_type="application/json")

    async def _openapi(self, _: web.Request) -> web.Response:
        return _json(200, document())

    async def _reload(self, _: web.Request) -> web.Response:
        try:
            done = await self._operations.reload()
        except PolicyError as error:
            return _error(400, "the old policy stays in force", faults=[str(fault) for fault in error.faults])
        except PlimsollError as error:
            return _error(400, "the old policy stays in force", faults=[str(error)])
        return _json(200, {"policy_version": done.version, "warnings": list(done.warnings)})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-store"})
        await stream.prepare(request)
        subscription = self._operations.feed.subscribe()
        try:
            while True:
                await stream.write(await subscription.take())
        except (ConnectionResetError, ConnectionAbortedError):
            return stream
        finally:
            self._operations.feed.unsubscribe(subscription)


def _parts(pieces: list[bytes]) -> Iterator[bytes]:
    """The same, in fewer."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PART:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _json(status: int, document: object) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(document), content_type="application/json")


def _error(status: int, message: str, **more: object) -> web.Response:
    return _json(status, {"error": {"message": message} | more})

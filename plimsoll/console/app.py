"""The console's web server: which path is which page, what stands around pages, and the stream of news."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from plimsoll.console import acting, handlers, lineview
from plimsoll.console.formulas import formulas
from plimsoll.console.guarding import Guard
from plimsoll.console.pages import STATIC, Frame, render
from plimsoll.console.store import Store
from plimsoll.console.whatif import Job
from plimsoll.console.words import LANGUAGES, chosen
from plimsoll.errors import PlimsollError, UsageError

BEAT: float = 1.0
"""s after which a browser is told that nothing is new: silence is how it knows that we are gone."""
YEAR = 365 * 86_400
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Console:
    """Serves one `Store` to browsers."""

    def __init__(self, store: Store, guard: Guard) -> None:
        self.store, self.guard = store, guard
        self._runner: web.AppRunner | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self.job: Job | None = None  # the what-if that runs, or ran last

    async def listen(self, host: str, port: int) -> int:
        """Listen there (port 0: any free one) and keep the store fresh; returns the port. OSError where it is taken."""
        runner = await self._start()
        await web.TCPSite(runner, host, port).start()
        bound: int = runner.addresses[0][1]
        return bound

    async def listen_on(self, sockets: Sequence[socket.socket]) -> None:
        """The same on sockets that somebody else has opened."""
        runner = await self._start()
        for each in sockets:
            await web.SockSite(runner, each).start()

    async def _start(self) -> web.AppRunner:
        app = web.Application(middlewares=[self.guard.middleware], client_max_size=1 << 20)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, logger=_log, shutdown_timeout=0.5)
        await self._runner.setup()
        self._keeping = asyncio.create_task(self.store.run())
        return self._runner

    async def close(self) -> None:
        """Stop, with whatever runs."""
        if self.job is not None:
            self.job.cancel()
        for task in (self._keeping, self._running):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        self.store.close()

    def begin(self, job: Job) -> None:
        """Run a what-if in place of the one before."""
        if self.job is not None:
            self.job.cancel()
        self.job = job
        self._running = asyncio.create_task(job.run())

    def routes(self) -> list[web.RouteDef]:
        """Every path."""
        return [
            web.get("/", self.line),
            web.get("/formulas", self.formulas),
            web.get("/events", self.events),
            web.get("/healthz", self.health),
            web.get("/static/{name}", self.static),
            web.get("/choose", self.choose),
            *[web.get(path, partial(page, self)) for path, page in handlers.PAGES.items()],
            *[web.get(path, partial(act, self)) for path, act in acting.GET.items()],
            *[web.post(path, partial(act, self)) for path, act in acting.POST.items()],
        ]

    async def line(self, request: web.Request) -> web.Response:
        """Page 1."""
        return self.page(request, "line", "line.html", lineview.line_view(self.store.seen()))

    async def formulas(self, request: web.Request) -> web.Response:
        """How each figure is computed."""
        return self.page(request, "formulas", "formulas.html", formulas())

    async def health(self, _: web.Request) -> web.Response:
        """For whoever watches the console itself."""
        return web.Response(text="ok\n")

    async def static(self, request: web.Request) -> web.Response:
        """The style sheet and the script."""
        kinds = {"console.css": "text/css", "console.js": "text/javascript", "mark.svg": "image/svg+xml"}
        kind = kinds.get(request.match_info["name"])
        if kind is None:
            raise web.HTTPNotFound
        body = _file(STATIC / request.match_info["name"])
        return web.Response(body=body, content_type=kind, headers={"Cache-Control": "no-cache"})

    async def choose(self, request: web.Request) -> web.Response:
        """Keep a choice of language or theme, and go back to the page."""
        language, theme = request.query.get("lang", ""), request.query.get("theme", "")
        back = urlsplit(request.query.get("back", "/"))
        safe = back.path if back.path.startswith("/") and not back.path.startswith("//") and not back.netloc else "/"
        answer = web.Response(status=303, headers={"Location": safe + (f"?{back.query}" if back.query else "")})
        if language in LANGUAGES:
            answer.set_cookie("lang", language, max_age=YEAR, httponly=True, samesite="Strict")
        if theme in {"light", "dark", "auto"}:
            answer.set_cookie("theme", theme, max_age=YEAR, httponly=True, samesite="Strict")
        return answer

    async def events(self, request: web.Request) -> web.StreamResponse:
        """What is new, by number, at least once a second; the browser then asks for its page again."""
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await stream.prepare(request)
        version = -1
        try:
            while True:
                version = await self.store.changed(version, BEAT)
                told = {"version": version, "state": self.state()[0]}
                await stream.write(b"data: " + msgspec.json.encode(told) + b"\n\n")
                await asyncio.sleep(0.25)
        except (ConnectionResetError, ConnectionAbortedError):
            return stream

    def state(self) -> tuple[str, str]:
        """How trustworthy figures are now, and why not."""
        store = self.store
        if store.refused:
            return "stale", store.refused
        if store.unread or store.hour.error:
            return "error", store.unread or store.hour.error
        if store.hour.value is None:
            return "loading", ""
        if store.stale:
            return "stale", "the gateway does not answer"
        return ("live", "") if store.live else ("recorded", "")

    def frame(self, request: web.Request, page: str) -> Frame:
        """What stands around the page for whoever asks."""
        state, note = self.state()
        theme = request.cookies.get("theme", "")
        return Frame(
            page=page,
            path=request.path_qs,
            language=chosen(request.cookies.get("lang", ""), request.headers.get("Accept-Language", "")),
            theme=theme if theme in {"light", "dark"} else "",
            state=state,
            at=self.store.last_at,
            zone=self.store.policy.service.timezone,
            source=str(self.store.root),
            note=note,
            version=self.store.version,
        )

    def page(self, request: web.Request, name: str, template: str, view: object, **more: object) -> web.Response:
        """A whole page."""
        status = more.pop("status", 200)
        text = render(template, self.frame(request, name), view, **more)
        return web.Response(text=text, content_type="text/html", status=int(str(status)))

    async def asked(self, request: web.Request, name: str, work: Callable[..., T], *values: object) -> T:
        """What a page wants of the log, read in a thread; a page that says why where it cannot be."""
        try:
            return await self.store.off(work, *values)
        except UsageError as error:
            raise self.failed(request, name, 404, str(error)) from error
        except (PlimsollError, OSError) as error:
            raise self.failed(request, name, 503, str(error)) from error

    def failed(self, request: web.Request, name: str, status: int, why: str) -> web.HTTPException:
        """An answer that is a page."""
        text = render("failed.html", self.frame(request, name), why)
        kind = {404: web.HTTPNotFound, 403: web.HTTPForbidden}.get(status, web.HTTPServiceUnavailable)
        return kind(text=text, content_type="text/html")


def _file(path: Path) -> bytes:
    return path.read_bytes()

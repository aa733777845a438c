"""What may be done from pages: undo, override, statements, what-ifs. Each is a `plimsoll` command in a process."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from plimsoll.console import handlers, whatifview
from plimsoll.console.whatif import Change, Job
from plimsoll.errors import PlimsollError, UsageError
from plimsoll.ledger.promise import is_month
from plimsoll.units import parse_duration

if TYPE_CHECKING:
    from plimsoll.console.app import Console

WITHIN: Final = 60.0  # s for a command to end
Act = Callable[["Console", web.Request], Awaitable[web.StreamResponse]]


async def undo(console: "Console", request: web.Request) -> web.Response:
    """Take a decision back."""
    form = await request.post()
    key, why = str(form.get("key", "")), str(form.get("why", ""))
    _permit(console, request, str(form.get("token", "")))
    if not key.startswith(("override/", "action/")):
        raise console.failed(request, "journal", 404, f"{key!r} is no decision that can be undone")
    told = await _command(console, request, "budget", "undo", str(console.store.root), key, f"--why={why}")
    return await handlers.journal(console, request, told)


async def override(console: "Console", request: web.Request) -> web.Response:
    """Let nothing be done about a tenant's budgets for a time."""
    form = await request.post()
    _permit(console, request, str(form.get("token", "")))
    name = handlers.tenant_of(console, request)
    lasts, why = str(form.get("lasts", "")), str(form.get("why", ""))
    try:
        seconds = parse_duration(lasts)
    except PlimsollError as error:
        raise console.failed(request, "tenants", 404, str(error)) from error
    line = ("budget", "override", str(console.store.root), f"--lasts={seconds:g}s", f"--why={why}", "--", name)
    return await handlers.journal(console, request, await _command(console, request, *line))


async def statement(console: "Console", request: web.Request) -> web.Response:
    """A tenant's month as the page that its customer gets."""
    name, month = handlers.tenant_of(console, request), request.query.get("month", "")
    if not is_month(month):
        raise console.failed(request, "tenants", 404, f"{month!r} is no month: write 2026-11")
    with tempfile.TemporaryDirectory() as home:
        page = Path(home) / "statement.html"
        root = str(console.store.root)
        await _command(console, request, "budget", "statement", root, f"--html={page}", "--json", "--", name, month)
        text = await console.store.off(page.read_text)
    # its style stands in the page, which goes to customers by mail: only this answer allows that
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
    return web.Response(text=text, content_type="text/html", headers={"Content-Security-Policy": policy})


async def what_if(console: "Console", request: web.Request) -> web.Response:
    """Page 7."""
    job = console.job
    change = job.change if job else Change()
    view = whatifview.what_if_view(
        console.store.policy,
        whatifview.Told(
            state=job.state if job else "",
            step=job.step if job else "",
            progress=job.progress if job else 0.0,
            error=job.error if job else "",
            change=msgspec.to_builtins(change),
            today=job.today if job else None,
            changed=job.changed if job else None,
        ),
    )
    return console.page(request, "whatif", "whatif.html", view)


async def start(console: "Console", request: web.Request) -> web.Response:
    """Simulate a change; what ran before is stopped."""
    form = {name: str(value) for name, value in (await request.post()).items()}
    try:
        change = Change(
            factor=float(form.get("factor", "1")),
            tenant=form.get("tenant", ""),
            rules=form.get("rules", ""),
            set_path=form.get("set_path", "").strip(),
            set_value=form.get("set_value", "").strip(),
            seeds=int(form.get("seeds", "3")),
        ).check()
    except (ValueError, UsageError) as error:
        raise console.failed(request, "whatif", 404, str(error)) from error
    console.begin(Job(console.store.root, change, console.store.readers.replaced, console.store.tell))
    return web.Response(status=303, headers={"Location": "/what-if"})


async def cancel(console: "Console", _: web.Request) -> web.Response:
    """Stop what runs."""
    if console.job is not None:
        console.job.cancel()
    return web.Response(status=303, headers={"Location": "/what-if"})


def _permit(console: "Console", request: web.Request, token: str) -> None:
    if not console.guard.token:
        raise console.failed(request, "journal", 403, "there is no admin token here: this log has no gateway")
    if not console.guard.permits(token):
        raise console.failed(request, "journal", 403, "that is not the admin token; nothing was done")


async def _command(console: "Console", request: web.Request, *line: str) -> str:
    """What a command says; its fault as a page."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plimsoll", *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(WITHIN):
            said, wrong = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise console.failed(request, "journal", 503, f"plimsoll {line[0]} did not end within {WITHIN:g} s") from None
    if process.returncode != 0:
        raise console.failed(request, "journal", 503, wrong.decode("utf-8", "replace").strip())
    return said.decode("utf-8", "replace").strip()


GET: Final[dict[str, Act]] = {"/what-if": what_if, "/tenants/{tenant}/statement": statement}
POST: Final[dict[str, Act]] = {
    "/journal/undo": undo,
    "/tenants/{tenant}/override": override,
    "/what-if": start,
    "/what-if/cancel": cancel,
}

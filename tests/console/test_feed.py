"""What a watcher reads of the admin API, from a small real server in its place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from plimsoll.console.feed import Dropped, Feed, Told
from plimsoll.errors import UsageError
from plimsoll.governor.decisions import Reject, Settle
from plimsoll.slo.outcome import Reason
from tests.console.test_live import record

DECISIONS = [
    Told(1.0, "a", Reject(7, Reason.QUEUE_FULL, retry_after=2.0)),
    Told(1.0, "a", Settle(record(7, "a", 0.5), ())),
]


async def _events(request: web.Request) -> web.StreamResponse:
    if request.headers.get("authorization") != "Bearer secret":
        return web.Response(status=401)
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    for told in DECISIONS:
        await answer.write(b"data: " + msgspec.json.encode(told) + b"\n\n")
    await answer.write(b'data: {"dropped":3}\n\n')
    return answer


async def _snapshot(_: web.Request) -> web.Response:
    return web.json_response({"pools": []})


@asynccontextmanager
async def admin() -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get("/admin/events", _events), web.get("/admin/snapshot", _snapshot)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_decisions_come_whole_and_losses_are_told() -> None:
    async def main() -> None:
        async with admin() as url:
            feed = Feed(url, "secret")
            assert [told async for told in feed.decisions()] == [*DECISIONS, Dropped(3)]
            assert await feed.snapshot() == {"pools": []}

    asyncio.run(main())


def test_a_wrong_token_a_wrong_port_and_nobody_are_told_apart() -> None:
    async def read(url: str, token: str) -> None:
        async for _ in Feed(url, token).decisions():
            pass

    async def main() -> None:
        async with admin() as url:
            with pytest.raises(UsageError, match="refuses that admin token"):
                await read(url, "guess")
            with pytest.raises(UsageError, match="wants the admin token: name its file with --token"):
                await read(url, "")
            with pytest.raises(UsageError, match="is it the admin port"):
                await read(f"{url}/elsewhere", "secret")
        with pytest.raises(UsageError, match=r"cannot reach .*: Connection refused$"):
            await read(url, "secret")
        assert await Feed(url, "secret").snapshot() is None

    asyncio.run(main())

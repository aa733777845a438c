"""The operators' port: health, metrics, snapshot, decisions streaming by, reload; the token guards /admin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from plimsoll.errors import Fault, PolicyError, UsageError
from plimsoll.gateway.admin import Admin, Reloaded
from plimsoll.gateway.carrier import Watcher
from plimsoll.gateway.feed import MOST, Feed, Told
from plimsoll.governor.decisions import Enqueue
from plimsoll.slo.outcome import Reason
from plimsoll.telemetry.exposition import CONTENT_TYPE
from tests.gateway.tinyengine import until


class Operated:
    """Operations in memory."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.feed = Feed(self.watchers)
        self.reasons: list[str] = []
        self.fault: Exception | None = None
        self.more: list[bytes] = []

    def unready(self) -> list[str]:
        return self.reasons

    async def metrics(self, accept: str) -> tuple[str, list[bytes]]:
        return CONTENT_TYPE, [b"up 1\n", *self.more]

    def scaling(self) -> bytes:
        return b'{"at":1.0,"pools":{}}'

    def external_metrics(self, metric: str, pool: str) -> bytes | None:
        return b'{"items":["%s"]}' % pool.encode() if metric == "saturation" else None

    def snapshot(self) -> bytes:
        return b'{"pools":[]}'

    async def reload(self) -> Reloaded:
        if self.fault:
            raise self.fault
        return Reloaded("v2", ("mind the gap",))


def tell(operated: Operated) -> bool:
    """One more event, if anybody listens: a client that has gone is noticed when something is written to it."""
    for watcher in operated.watchers:
        watcher.decided(6.0, "acme", Enqueue(8, "gold", Reason.POOL_FULL))
    return bool(operated.watchers)


@asynccontextmanager
async def served(operated: Operated) -> AsyncIterator[httpx.AsyncClient]:
    admin = Admin(operated, "secret")
    port = await admin.listen("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5) as client:
            yield client
    finally:
        await admin.close()


TOKEN = {"authorization": "Bearer secret"}


def test_health_metrics_and_the_guard() -> None:
    async def scenario() -> None:
        operated = Operated()
        async with served(operated) as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/readyz")).text == "ok\n"
            operated.reasons = ["draining"]
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.text) == (503, "draining\n")
            metrics = await client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert metrics.text == "up 1\n"
            for headers in ({}, {b"authorization": b"Bearer secre"}, {b"authorization": "secret\u00e9".encode()}):
                assert (await client.get("/admin/snapshot", headers=headers)).status_code == 401
            assert (await client.get("/admin/snapshot", headers=TOKEN)).json() == {"pools": []}

    asyncio.run(scenario())


def test_a_long_metrics_page_arrives_whole_and_holds_nobody_up() -> None:
    async def scenario() -> None:
        operated = Operated()
        operated.more = [f"line {num} {'x' * 70}\n".encode() for num in range(200_000)]  # 15 MB
        async with served(operated) as client:
            whole = b"".join([b"up 1\n", *operated.more])
            got = await client.get("/metrics")
            assert (got.content, got.headers["content-length"]) == (whole, str(len(whole)))
            head = await client.head("/metrics")
            assert (head.content, head.headers["content-length"]) == (b"", str(len(whole)))
            async with client.stream("GET", "/metrics") as unread:  # whoever reads slowly waits alone, and may leave
                assert unread.status_code == 200
                assert (await client.get("/healthz")).text == "ok\n"
            assert (await client.get("/metrics")).content == whole

    asyncio.run(scenario())


def test_reload_tells_every_fault() -> None:
    async def scenario() -> None:
        operated = Operated()
        async with served(operated) as client:
            done = await client.post("/admin/reload", headers=TOKEN)
            assert done.json() == {"policy_version": "v2", "warnings": ["mind the gap"]}
            operated.fault = PolicyError("p.yaml", [Fault("tiers", "missing"), Fault("pools", "missing", line=3)])
            refused = await client.post("/admin/reload", headers=TOKEN)
            assert refused.status_code == 400
            assert refused.json()["error"]["faults"] == ["tiers: missing", "line 3: pools: missing"]
            operated.fault = UsageError("no such file")
            assert (await client.post("/admin/reload", headers=TOKEN)).json()["error"]["faults"] == ["no such file"]

    asyncio.run(scenario())


def test_decisions_stream_by() -> None:
    async def scenario() -> None:
        operated = Operated()
        async with served(operated) as client, client.stream("GET", "/admin/events", headers=TOKEN) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            await until(lambda: operated.watchers)
            operated.watchers[0].decided(5.0, "acme", Enqueue(7, "gold", Reason.POOL_FULL))
            lines = stream.aiter_lines()
            data = (await anext(lines)).removeprefix("data: ")
            assert msgspec.json.decode(data, type=Told) == Told(5.0, "acme", Enqueue(7, "gold", Reason.POOL_FULL))
        await until(lambda: not tell(operated))

    asyncio.run(scenario())


def test_a_slow_watcher_costs_events_not_memory() -> None:
    async def scenario() -> None:
        watchers: list[Watcher] = []
        feed = Feed(watchers)
        subscription = feed.subscribe()
        for _ in range(MOST + 5):
            feed.decided(1.0, "acme", Enqueue(7, "gold", Reason.POOL_FULL))
        text = await subscription.take()
        assert text.count(b"data: {") == MOST + 1
        assert text.endswith(b'data: {"dropped":5}\n\n')
        feed.unsubscribe(subscription)
        assert not watchers

    asyncio.run(scenario())


JUNK = [b"\x00\x01\r\n\r\n", b"GET /metrics HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 99_999 + b"\r\n\r\n"]


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_http_leaves_no_trace_in_the_log(junk: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        admin = Admin(Operated(), "secret")
        port = await admin.listen("127.0.0.1", 0)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(junk)
            assert b" 400 " in await reader.readline()
            writer.close()
        finally:
            await admin.close()

    asyncio.run(scenario())
    assert not caplog.records


def test_scaling_and_external_metrics() -> None:
    async def scenario() -> None:
        base = "/apis/external.metrics.k8s.io/v1beta1/namespaces/prod"
        async with served(Operated()) as client:
            assert (await client.get("/scaling")).json() == {"at": 1.0, "pools": {}}
            chosen = await client.get(f"{base}/saturation", params={"labelSelector": "pool=chat"})
            assert chosen.json() == {"items": ["chat"]}
            assert (await client.get(f"{base}/saturation")).json() == {"items": [""]}
            assert (await client.get(f"{base}/nothing")).status_code == 404
            other = await client.get(f"{base}/saturation", params={"labelSelector": "app=x"})
            assert "labelSelector=pool=NAME" in other.json()["error"]["message"]

    asyncio.run(scenario())

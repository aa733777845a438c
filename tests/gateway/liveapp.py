"""A whole gateway in the test's own event loop, on real sockets with a real governor and journal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import httpx
from msgspec.structs import replace

from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import wall_clock
from plimsoll.policy.policy import GatewayRules, Policy, Pool, Tenant, Tier, Timeouts
from plimsoll.requestlog.codec import RowKind
from plimsoll.requestlog.record import Record
from plimsoll.storage.journal import Journal
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import decode_settle

KEY = "sk-acme"
HEADERS = {"authorization": f"Bearer {KEY}"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


def policy_for(*urls: str, drain: float = 5.0) -> Policy:
    return Policy(
        tiers=(Tier("gold", 0),),
        tenants=(Tenant("acme", "gold", keys=("sha256:" + sha256(KEY.encode()).hexdigest(),)),),
        pools=(Pool("chat", "m", "vllm", urls, max_context=4096),),
        gateway=GatewayRules(probe_every=0.1, timeouts=Timeouts(drain=drain)),
        version="v1",
    )


def renamed(policy: Policy, key: str) -> Policy:
    tenant = replace(policy.tenants[0], keys=("sha256:" + sha256(key.encode()).hexdigest(),))
    return replace(policy, tenants=(tenant,), version="v2")


def records(directory: Path) -> list[Record]:
    """What the journal says of requests that are over, in order."""
    rows = [row for row in read_rows(directory / "journal", 0) if row.kind == RowKind.SETTLE]
    return [decode_settle(row.payload).record for row in rows]


@asynccontextmanager
async def running(policy: Policy, directory: Path) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    """The app and a client of it."""
    clock = wall_clock()
    app = App(Promise(policy, {}), Journal.open(directory, clock=clock), clock)
    port = await app.listen("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=15) as client:
            yield app, client
    finally:
        await app.close()

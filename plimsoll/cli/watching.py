"""The loop behind `top` and `demo`: reads a gateway's decisions and draws them until it is told to stop."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from rich.console import Console
from rich.live import Live as Screen

from plimsoll.console.feed import Dropped, Feed
from plimsoll.console.live import Live
from plimsoll.console.liveview import ReplicaReading, Scene, draw, plain
from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy

DRAW_EVERY: Final = 0.25  # s
TELL_EVERY: Final = 10.0  # s, without a terminal


class Watch(Struct, frozen=True):
    """What is watched, and for how long: `over` is asked at every drawing."""

    title: str
    admin_url: str
    token: str
    policy: Policy
    policy_name: str
    over: Callable[[], bool]
    total: float = 0.0  # s; 0: no end known
    on_terminal: bool = True
    note: str = ""


async def watch(what: Watch) -> Live:
    """Watch until `over`, the gateway's end or a cancel; returns all that was seen."""
    live, feed = Live(what.policy), Feed(what.admin_url, what.token)
    reading = asyncio.create_task(_read(feed, live))
    try:
        await (_draw if what.on_terminal else _tell)(what, live, feed, reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return live


async def _read(feed: Feed, live: Live) -> None:
    async for told in feed.decisions():
        if isinstance(told, Dropped):
            live.num_dropped += told.dropped
        else:
            live.take(told.at, told.tenant, told.decision)


async def _draw(what: Watch, live: Live, feed: Feed, reading: "asyncio.Task[None]") -> None:
    console, begun = Console(), time.monotonic()
    with Screen(console=console, screen=True, auto_refresh=False) as screen:
        while not what.over() and not reading.done():
            scene = await _scene(what, feed, begun)
            screen.update(draw(live, scene, time.time(), console.height), refresh=True)
            await asyncio.sleep(DRAW_EVERY)
    _raise_from(reading)


async def _tell(what: Watch, live: Live, feed: Feed, reading: "asyncio.Task[None]") -> None:
    begun = told_at = time.monotonic()
    while not what.over() and not reading.done():
        await asyncio.sleep(DRAW_EVERY)
        if time.monotonic() >= told_at + TELL_EVERY:
            told_at += TELL_EVERY
            sys.stdout.write(plain(live, await _scene(what, feed, begun), time.time()) + "\n")
            sys.stdout.flush()
    _raise_from(reading)


def _raise_from(reading: "asyncio.Task[None]") -> None:
    if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
        raise error


async def _scene(what: Watch, feed: Feed, begun: float) -> Scene:
    snapshot = await feed.snapshot() if what.on_terminal else None
    return Scene(
        title=what.title,
        elapsed=time.monotonic() - begun,
        total=what.total,
        policy=what.policy_name,
        replicas=tuple(_replicas(snapshot or {})),
        note=what.note,
    )


def _replicas(snapshot: dict[str, Any]) -> list[ReplicaReading]:
    return [
        ReplicaReading(
            name=replica["replica"].rpartition("/")[2],
            healthy=replica["healthy"],
            running=replica["running"],
            kv_usage_ratio=replica["kv_usage"],
        )
        for pool in snapshot.get("pools", ())
        for replica in pool["replicas"]
    ]


def read_token(path: Path | None) -> str:
    """The admin token in a file; "" where none is given."""
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"cannot read the admin token in {path}: {error.strerror}") from error

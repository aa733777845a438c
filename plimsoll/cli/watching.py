"""The loop behind `top` and `demo`: reads a gateway's decisions and draws them until it is told to stop."""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from rich.live import Live as Screen

from plimsoll.cli.output import Terminal
from plimsoll.console.feed import Dropped, Feed
from plimsoll.console.live import Live
from plimsoll.console.liveview import ReplicaReading, Scene, draw, plain
from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy

DRAW_EVERY: Final = 0.25  # s
TELL_EVERY: Final = 10.0  # s, without a terminal
FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
PICTURE: Final = (128, 34)  # columns and lines of a kept picture


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
    picture: Path | None = None  # where the last drawing is kept, as SVG


async def watch(what: Watch) -> Live:
    """Watch until `over`, the gateway's end or a cancel; returns all that was seen."""
    watching = _Watching(what)
    reading = asyncio.create_task(watching.read())
    try:
        await (watching.draw if what.on_terminal else watching.tell)(reading)
        _raise_from(reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        if what.picture is not None:
            watching.keep_picture(what.picture)
    return watching.live


class _Watching:
    """One view while it lasts."""

    def __init__(self, what: Watch) -> None:
        self._what = what
        self._feed = Feed(what.admin_url, what.token)
        self._begun = time.monotonic()
        self._scene = Scene(what.title, 0.0, what.total, what.policy_name)
        self.live = Live(what.policy)

    async def read(self) -> None:
        """Take in decisions until the gateway ends."""
        async for told in self._feed.decisions():
            if isinstance(told, Dropped):
                self.live.num_dropped += told.dropped
            else:
                self.live.take(told.at, told.tenant, told.decision)

    async def draw(self, reading: "asyncio.Task[None]") -> None:
        """The whole screen, four times a second."""
        console = Terminal()
        with Screen(console=console, screen=True, auto_refresh=False) as screen:
            while not self._what.over() and not reading.done():
                await self._look()
                screen.update(draw(self.live, self._scene, time.time(), console.height), refresh=True)
                await asyncio.sleep(DRAW_EVERY)

    async def tell(self, reading: "asyncio.Task[None]") -> None:
        """A line every ten seconds."""
        told_at = self._begun
        while not self._what.over() and not reading.done():
            await asyncio.sleep(DRAW_EVERY)
            if time.monotonic() >= told_at + TELL_EVERY:
                told_at += TELL_EVERY
                await self._look()
                sys.stdout.write(plain(self.live, self._scene, time.time()) + "\n")
                sys.stdout.flush()

    async def _look(self) -> None:
        snapshot = await self._feed.snapshot()
        what = self._what
        self._scene = Scene(
            title=what.title,
            elapsed=time.monotonic() - self._begun,
            total=what.total,
            policy=what.policy_name,
            replicas=tuple(_replicas(snapshot or {})) or self._scene.replicas,
            note=what.note,
        )

    def keep_picture(self, path: Path) -> None:
        """The view as it stands, as SVG. Raises UsageError where it cannot be written."""
        console = Terminal(record=True, width=PICTURE[0], height=PICTURE[1], file=StringIO(), force_terminal=True)
        console.print(draw(self.live, self._scene, time.time(), PICTURE[1]))
        try:
            # without the template's @font-face rules: a picture must not load anything from elsewhere
            path.write_text(FONT_FACE.sub("", console.export_svg(title=self._what.title)), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _raise_from(reading: "asyncio.Task[None]") -> None:
    if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
        raise error


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

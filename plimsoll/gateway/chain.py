"""The plugins of the policy in force, asked one after the other, each within its time.

A plugin that fails costs the request that it was asked about, or nothing (`on_error`); no prompt is kept or logged, and
of what a plugin raises only its kind, since its text may quote one.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Final

from plimsoll.gateway.httpplugin import BadAnswer, HttpPlugin
from plimsoll.gateway.plugin import Asked, Cancel, Found, Said
from plimsoll.policy import extensions
from plimsoll.policy.plugins import HTTP, OnError, Plugin
from plimsoll.slo.outcome import Reason

LONGEST: Final = 500  # characters of a reason that a client is told
_TOLD_EVERY: Final = 1000  # failures of a plugin between two lines in the log
_log = logging.getLogger("plimsoll.gateway")


class Link:
    """One plugin at work."""

    def __init__(self, rules: Plugin) -> None:
        """Raises UsageError where its package does not have it or cannot make it."""
        self.rules = rules
        self.num_running = 0
        self.num_failed = 0
        settings = json.loads(rules.settings)
        made: Any = HttpPlugin(settings) if rules.kind == HTTP else extensions.load("plugin", rules.kind, settings)
        self._made = made
        self._on_loop = inspect.iscoroutinefunction(made.check)
        self._retired = False
        self._closing: asyncio.Task[None] | None = None  # held: a loop keeps no task alive

    async def ask(self, asked: Asked) -> tuple[Said, str]:
        """What it says of the request, and why not."""
        if self.num_running >= self.rules.concurrency:
            return self._failed(Said.BUSY, "it looks at as many requests as it may")
        try:
            async with asyncio.timeout(self.rules.timeout):
                why_not = await (self._await(asked) if self._on_loop else self._wait_for_thread(asked))
        except TimeoutError:
            return self._failed(Said.TIMEOUT, f"no answer within {self.rules.timeout:g} s")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # by us: its client left
            return self._failed(Said.ERROR, type(error).__name__)
        except (Exception, SystemExit) as error:  # another package's, or the network's
            return self._failed(Said.ERROR, str(error) if isinstance(error, BadAnswer) else type(error).__name__)
        if not isinstance(why_not, str):
            return self._failed(Said.ERROR, f"it answered with a {type(why_not).__name__}, not a text")
        return (Said.DENY, _for_client(why_not)) if why_not else (Said.ALLOW, "")

    async def retire(self) -> None:
        """No policy names it any more: it is closed when it looks at no request any more."""
        self._retired = True
        close: Callable[[], Awaitable[None]] | None = getattr(self._made, "close", None)
        if close is not None and not self.num_running:
            try:
                await close()
            except Exception as error:
                _log.error("plugin %s could not be closed: %s", self.rules.name, type(error).__name__)

    async def _await(self, asked: Asked) -> object:
        self.num_running += 1
        try:
            found: object = await self._made.check(asked)
            return found
        finally:
            self.num_running -= 1
            if self._retired:
                await self.retire()

    async def _wait_for_thread(self, asked: Asked) -> object:
        """A thread a call, and a daemon: one that hangs keeps its place, but not the gateway from ending."""
        loop = asyncio.get_running_loop()
        came: asyncio.Future[object] = loop.create_future()
        self.num_running += 1

        def settle(found: object, error: BaseException | None) -> None:
            self.num_running -= 1
            if self._retired:
                self._closing = loop.create_task(self.retire())
            if came.cancelled():
                return
            if error is None:
                came.set_result(found)
            else:
                came.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))

        def work() -> None:
            found, error = None, None
            try:
                found = self._made.check(asked)
            except BaseException as raised:  # a thread has nobody above it
                error = raised
            with suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(settle, found, error)

        Thread(target=work, name=f"plimsoll-{self.rules.name}", daemon=True).start()
        return await came

    def _failed(self, said: Said, why: str) -> tuple[Said, str]:
        self.num_failed += 1
        if self.num_failed == 1 or self.num_failed % _TOLD_EVERY == 0:
            _log.error("plugin %s failed (%d times now): %s", self.rules.name, self.num_failed, why)
        return said, ""


class Chain:
    """Those of one policy; `run` is what the hands are given."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, plugins: Iterable[Plugin]) -> list[Link]:
        """Go by these from now on; one whose rules are the same stays. Returns those to be retired.

        Raises UsageError where one cannot be made; then nothing changes.
        """
        before = self._links
        links = {rules.name: _kept(before.get(rules.name), rules) for rules in plugins}
        self._links = links
        return [link for name, link in before.items() if links.get(name) is not link]

    def run(self, names: tuple[str, ...], asked: Asked, done: Callable[[Found], None]) -> Cancel:
        """See `plugin.PluginRunner`. A plugin that a reload took away meanwhile is not asked any more."""
        links = [link for name in names if (link := self._links.get(name)) is not None]
        task = asyncio.get_running_loop().create_task(_run(links, asked, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return partial(_cancel, task)

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self.take(()):
            await link.retire()


def _for_client(why_not: str) -> str:
    return "".join(filter(str.isprintable, why_not))[:LONGEST].strip() or "no reason given"


def _kept(before: Link | None, rules: Plugin) -> Link:
    return before if before is not None and before.rules == rules else Link(rules)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _run(links: list[Link], asked: Asked, done: Callable[[Found], None]) -> None:
    done(await found_by(links, asked))


async def found_by(links: Iterable[Link], asked: Asked) -> Found:
    """Until one does not let it pass."""
    said: list[tuple[str, Said]] = []
    for link in links:
        name = link.rules.name
        each, why_not = await link.ask(asked)
        said.append((name, each))
        if each is Said.DENY:
            return Found(tuple(said), Reason.PLUGIN_DENIED, f"{name}: {why_not}")
        if each is not Said.ALLOW and link.rules.on_error is OnError.REFUSE:
            return Found(tuple(said), Reason.PLUGIN_FAILED, name)
    return Found(tuple(said))

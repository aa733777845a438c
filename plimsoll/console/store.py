"""What the console knows now, and how old each part is: read by threads of its own, never by who asks for a page."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from plimsoll.console.feed import Feed
from plimsoll.console.gauges import TierSafe, safe_loads
from plimsoll.console.logreading import HOUR, Hour, Span, read_day, read_hour, span_of
from plimsoll.console.seen import Seen
from plimsoll.console.tailing import Tail
from plimsoll.diagnosis.explain import Explanation
from plimsoll.diagnosis.findings import Findings
from plimsoll.errors import PlimsollError, UsageError
from plimsoll.ledger.assessment import Row
from plimsoll.policy.policy import Policy
from plimsoll.storage.promised import policy_in_force

LIVE_WITHIN: Final = 120.0
"""s after its last row for which a log without a gateway's feed is taken to be written still."""
STALE_AFTER: Final = 5.0
"""s without an answer of the gateway after which figures are said to be old."""
LOOK_EVERY: Final = 0.25
"""s between looks at the log's end."""
ASK_EVERY: Final = 0.5
"""s between questions to the gateway."""
RETRY_EVERY: Final = 2.0
"""s until what could not be read is tried again."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Readers(Struct, frozen=True):
    """How findings, explanations, budgets and changed policies are made: the command line's own functions."""

    diagnose: Callable[[Path, str | None, float, float], Findings]
    explain: Callable[[Path, str], Explanation]
    budgets: Callable[[Path], list[Row]]
    replaced: Callable[[str, str, str], str]  # a policy's text with the value at a path replaced


class Part(Struct):
    """One thing that is read again and again. `error` is why the last try failed; the value is then of before."""

    every: float  # s, while the log is written
    value: Any = None
    made_at: float = 0.0
    took: float = 0.0
    error: str = ""


class Store:
    """The state. `run` keeps it fresh until it is cancelled; `version` grows with every change that pages may show."""

    def __init__(self, root: Path, readers: Readers, feed: Feed | None, clock: Callable[[], float] = time.time) -> None:
        self.root, self.readers = root, readers
        self.policy: Policy = policy_in_force(root)
        self.version = 0
        self.snapshot: dict[str, Any] | None = None
        self.heard_at: float | None = None  # when the gateway last answered
        self.refused = ""  # why the gateway will not answer us
        self.unread = ""  # why the log's end cannot be followed
        self.span = Span(None, None)
        self.tail: Tail | None = None
        self.hour, self.safe, self.findings, self.budgets = Part(5.0), Part(600.0), Part(20.0), Part(5.0)
        self.clock = clock
        self.feed = feed
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="console")
        self._follower = ThreadPoolExecutor(1, thread_name_prefix="tail")  # never behind a page's reading
        self._changed, self._begun = asyncio.Event(), asyncio.Event()

    @property
    def has_feed(self) -> bool:
        """Whether a gateway's admin API is read beside the log."""
        return self.feed is not None

    @property
    def live(self) -> bool:
        """Whether the log is being written: a gateway answers, or its last row is young."""
        last = self.last_at
        young = last is not None and self.clock() - last < LIVE_WITHIN
        return young or (self.heard_at is not None and self.clock() - self.heard_at < LIVE_WITHIN)

    @property
    def last_at(self) -> float | None:
        """The latest end of a request that was read."""
        return (self.tail.last_at if self.tail else None) or self.span.last

    @property
    def at(self) -> float:
        """The instant that "now" means: of a log that is no longer written, its end."""
        return self.clock() if self.live else (self.last_at or self.clock()) + 1e-6

    @property
    def stale(self) -> bool:
        """Whether a gateway that should answer has not for a while."""
        return self.feed is not None and (self.heard_at is None or self.clock() - self.heard_at > STALE_AFTER)

    def seen(self) -> Seen:
        """What is known at this moment."""
        tail = self.tail
        return Seen(
            policy=self.policy,
            hour=self.hour.value,
            safe=self.safe.value,
            findings=self.findings.value,
            budgets=self.budgets.value,
            entries=tuple(tail.entries) if tail else (),
            reasons=dict(tail.reasons) if tail else {},
            snapshot=self.snapshot,
            num_ended=tail.num if tail and (tail.num or self.live) else None,
        )

    async def run(self) -> None:
        """Read everything once, then again as often as each part wants; the log's end and the gateway meanwhile too."""
        beats = [asyncio.create_task(self._watch())] + ([asyncio.create_task(self._listen())] if self.feed else [])
        try:
            await self._begun.wait()
            while True:
                for part, read in self._parts():
                    if self._is_due(part):
                        await self._refresh(part, read)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            for beat in beats:
                beat.cancel()
            await asyncio.gather(*beats, return_exceptions=True)

    def _is_due(self, part: Part) -> bool:
        """Whether it was never read, or is old of a log that is written or could not be read."""
        every = min(part.every, RETRY_EVERY) if part.error else part.every
        is_old = self.clock() - part.made_at > max(every, 4 * part.took)
        return not part.made_at or (is_old and (self.live or bool(part.error)))

    def close(self) -> None:
        """End the threads."""
        for threads in (self._threads, self._follower):
            threads.shutdown(wait=False, cancel_futures=True)

    async def off(self, work: Callable[..., T], *values: object) -> T:
        """Do it in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *values)

    async def changed(self, version: int, within: float) -> int:
        """The version once it is another one, or after that many s."""
        if self.version == version:
            try:
                async with asyncio.timeout(within):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.version

    def _parts(self) -> list[tuple[Part, Callable[[], Any]]]:
        return [
            (self.hour, self._read_hour),
            (self.findings, self._read_findings),
            (self.budgets, lambda: tuple(self.readers.budgets(self.root))),
            (self.safe, self._read_safe),
        ]

    def _read_hour(self) -> Hour:
        self.policy = policy_in_force(self.root)
        return read_hour(self.root, self.at - HOUR, self.at)

    def _read_findings(self) -> Findings:
        return self.readers.diagnose(self.root, None, self.at - HOUR, self.at)

    def _read_safe(self) -> tuple[TierSafe, ...]:
        return safe_loads(read_day(self.root, self.at - 24 * HOUR, self.at), self.policy)

    async def _refresh(self, part: Part, read: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            part.value, part.error = await self.off(read), ""
        except (PlimsollError, OSError) as error:
            part.error = str(error)
        except Exception as fault:  # a page that shows why is better than a console that has ended
            _log.exception("a fault of the console itself")
            part.error = f"{type(fault).__name__}: {fault}"
        part.made_at, part.took = self.clock(), time.monotonic() - began
        self.tell()

    async def _watch(self) -> None:
        """Follow the log's end, whatever else is being read: counts are no older than a beat."""
        while True:
            try:
                news = await asyncio.get_running_loop().run_in_executor(self._follower, self._look)
                unread = ""
            except (PlimsollError, OSError) as error:
                news, unread = False, str(error)
            except Exception as fault:  # as of other parts; told once
                news, unread = False, f"{type(fault).__name__}: {fault}"
                if unread != self.unread:
                    _log.exception("a fault of the console itself")
            if news or unread != self.unread:
                self.unread = unread
                self.tell()
            self._begun.set()
            await asyncio.sleep(LOOK_EVERY)

    def _look(self) -> bool:
        if self.tail is None:
            self.span = span_of(self.root)
            self.tail = Tail(self.root, self.at - HOUR)
        return self.tail.look()

    async def _listen(self) -> None:
        while self.feed is not None:
            try:
                found = await self.feed.snapshot()
            except UsageError as error:
                self.refused, found = str(error), None
            if found is not None:
                self.snapshot, self.heard_at, self.refused = found, self.clock(), ""
                self.tell()
            elif self.stale:
                self.tell()
            await asyncio.sleep(ASK_EVERY)

    def tell(self) -> None:
        """Something that pages show has changed."""
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

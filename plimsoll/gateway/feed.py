"""Decisions as they are made, for those who watch: bounded, and never at the cost of those who are served."""

import asyncio
from typing import Final

import msgspec

from plimsoll.gateway.carrier import Watcher
from plimsoll.governor.decisions import Decision

MOST: Final = 2000  # events that one watcher may be behind
_encode = msgspec.json.Encoder().encode


class Told(msgspec.Struct, frozen=True):
    """One line of `/admin/events`."""

    at: float
    tenant: str
    decision: Decision


class Subscription:
    """One watcher's events, waiting to be written."""

    def __init__(self) -> None:
        self.num_dropped = 0
        self._lines: list[bytes] = []
        self._some = asyncio.Event()

    def add(self, line: bytes) -> None:
        """One more; dropped and counted where the watcher is too slow."""
        if len(self._lines) >= MOST:
            self.num_dropped += 1
            return
        self._lines.append(line)
        self._some.set()

    async def take(self) -> bytes:
        """All that waits, as server-sent events; waits for the first."""
        await self._some.wait()
        self._some.clear()
        lines, self._lines = self._lines, []
        if self.num_dropped:
            lines.append(b'data: {"dropped":%d}\n\n' % self.num_dropped)
            self.num_dropped = 0
        return b"".join(lines)


class Feed:
    """A carrier's watcher that passes on to any number of subscriptions; it watches only while there are some."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self._watchers = watchers
        self._subscriptions: set[Subscription] = set()

    def subscribe(self) -> Subscription:
        """Everything from now on; `unsubscribe` when done."""
        if not self._subscriptions:
            self._watchers.append(self)
        subscription = Subscription()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more."""
        self._subscriptions.discard(subscription)
        if not self._subscriptions and self in self._watchers:
            self._watchers.remove(self)

    def decided(self, at: float, tenant: str, decision: Decision) -> None:
        """See `carrier.Watcher`."""
        line = b"data: " + _encode(Told(at, tenant, decision)) + b"\n\n"
        for subscription in self._subscriptions:
            subscription.add(line)

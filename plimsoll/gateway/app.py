"""A gateway's life: listen, serve, take a new policy without dropping a request, drain, stop.

The parts are made here and know each other only by their seams; `cli/serving.py` adds the admin port and metrics.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import StorageError, UsageError
from plimsoll.gateway.bodyhelper import BodyHelper
from plimsoll.gateway.carrier import Surroundings
from plimsoll.gateway.chain import Chain
from plimsoll.gateway.channel import DirectChannel
from plimsoll.gateway.driver import Driver
from plimsoll.gateway.feed import Feed
from plimsoll.gateway.finding import PrefixFinder
from plimsoll.gateway.guard import Guard
from plimsoll.gateway.hands import Clock
from plimsoll.gateway.kvevents import KvEvents
from plimsoll.gateway.listening import cannot_listen
from plimsoll.gateway.probe import Prober
from plimsoll.gateway.server import HttpServer
from plimsoll.gateway.statekeeper import StateKeeper
from plimsoll.gateway.tls import engine_contexts
from plimsoll.governor.events import BudgetsReported, CachesCleared, CapabilitiesReported, ReplicaReport
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.slo.outcome import Reason
from plimsoll.storage.journal import Journal

LAST_WORDS: Final = 2.0  # s for ended requests' last bytes after the drain's time is over
FIRST_LOOK: Final = 2.0  # s to hear from all replicas before we say that we are ready
_log = logging.getLogger("plimsoll.gateway")


class Promise(NamedTuple):
    """A policy as it was read, with all that it needs."""

    policy: Policy
    profiles: Mapping[str, EngineProfile]
    warnings: tuple[str, ...] = ()
    text: str = ""  # the document itself, as it was checked


class App:
    """All live parts of one gateway process, on the running event loop."""

    def __init__(self, promise: Promise, journal: Journal, clock: Clock) -> None:
        self.clock = clock
        self.journal = journal
        self.governor = Governor(promise.policy, promise.profiles)
        self._chain = Chain()
        self._chain.take(promise.policy.plugins)
        loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(1, "plimsoll-body")
        self._bodies = BodyHelper()
        self.finder = PrefixFinder(clock, _call_at(loop, clock))
        around = Surroundings(
            clock,
            _call_at(loop, clock),
            loop.call_soon,
            _offload(loop, self._threads),
            self._bodies.read,
            self._chain.run,
            self.finder.find,
        )
        channel = DirectChannel(self.governor)
        self._loop = loop
        self._channel = channel
        self.reported: Callable[[BudgetsReported | CapabilitiesReported], None] = channel.send  # the driver carries on
        self.driver = Driver(
            promise.policy,
            channel,
            journal,
            around,
            first_request_id=journal.next_request_id,
            trace_seed=int.from_bytes(os.urandom(8)),
        )
        self.feed = Feed(self.driver.carrier.watchers)
        self.server = HttpServer(Guard(self.driver), promise.policy.gateway, clock)
        self.states = StateKeeper(journal, clock)
        self.prober = Prober(clock, self._replicas_reported)
        self._kv_events = KvEvents(self._caches_cleared)
        self.finder.upstreams = self.server.upstreams
        self.finder.is_up = self.prober.is_up
        self._probing: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._speak_tls(engine_contexts(promise.policy))
        self._note_policy(promise.policy)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin to serve there (port 0: any free one); the port. UsageError where we cannot listen."""
        try:
            bound = await self.server.listen(host, port, tls)
        except OSError as error:
            raise UsageError(cannot_listen(host, port, error, "--port")) from error
        await self.prober.meet(self.driver.policy, FIRST_LOOK)
        self.prober.take(self.driver.policy)
        self.prober.deliver()
        self._probing = asyncio.create_task(self.prober.run())
        self._kv_events.take(self.driver.policy)
        self.finder.take(self.driver.policy, self._kv_events.caches)
        return bound

    def unready(self) -> list[str]:
        """Why no traffic should be sent here now; empty: all is well."""
        reasons = []
        if self.driver.draining:
            reasons.append("draining")
        if not self.journal.accepting:
            reasons.append("the journal has no room or cannot be written")
        serving = {url for pool in self.driver.policy.pools for url in pool.replicas}
        replicas = [replica for url, replica in self.prober.replicas.items() if url in serving]
        if not any(replica.healthy for replica in replicas):
            reasons += ["no replica is up", *(f"{replica.url}: {replica.why}" for replica in replicas)]
        return reasons

    async def change_policy(self, promise: Promise) -> None:
        """Go by another policy, once its replicas have been asked. Open requests, connections, learnt figures stay."""
        async with self._changing:
            contexts = await asyncio.to_thread(engine_contexts, promise.policy)
            self._speak_tls(contexts)
            await self.prober.meet(promise.policy, FIRST_LOOK)
            parted = self._chain.take(promise.policy.plugins)
            self.driver.change_policy(promise.policy, promise.profiles)
            self.server.rules = promise.policy.gateway
            self.prober.take(promise.policy)
            self.prober.deliver()
            await asyncio.to_thread(self._kv_events.take, promise.policy)
            self.finder.take(promise.policy, self._kv_events.caches)
            self._note_policy(promise.policy)
            for link in parted:
                await link.retire()

    async def drain(self) -> None:
        """Refuse new requests, let the open ones end within the policy's `drain` time, end the rest with their rows."""
        allowed = self.driver.policy.gateway.timeouts.drain
        self.driver.drain(allowed / 2)  # the queued get half of it: those sent later would be cut short
        self.server.drain()
        try:
            async with asyncio.timeout(allowed):
                await self.server.drained()
        except TimeoutError:
            _log.warning("%d requests did not end within %g s: ending them", self.driver.num_open, allowed)
            self.driver.end_all(Reason.DRAIN_TIMEOUT)
            await asyncio.sleep(0 if not self.driver.num_open else LAST_WORDS)

    async def close(self) -> None:
        """Stop everything; the journal last."""
        self._kv_events.close()
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self.server.close()
        await self._chain.close()
        self._threads.shutdown()
        self._bodies.close()
        self.states.close()
        self.journal.close()

    def _replicas_reported(self, reports: tuple[ReplicaReport, ...]) -> None:
        self.driver.replicas_reported(reports)
        self.states.add(reports)

    def _caches_cleared(self, replicas: tuple[str, ...]) -> None:
        """Called in another thread."""
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(lambda: self._channel.send(CachesCleared(self.clock(), replicas)))

    def _speak_tls(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        self.server.upstreams.contexts = self.prober.contexts = contexts

    def _note_policy(self, policy: Policy) -> None:
        try:
            self.journal.policy(self.clock(), policy)
            self.journal.flush()
        except StorageError as error:
            _log.error("the policy could not be noted in the journal: %s", error)


def _call_at(
    loop: asyncio.AbstractEventLoop, clock: Clock
) -> Callable[[float, Callable[[], None]], asyncio.TimerHandle]:
    def call_at(at: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return loop.call_later(max(0.0, at - clock()), callback)

    return call_at


def _offload(
    loop: asyncio.AbstractEventLoop, threads: ThreadPoolExecutor
) -> Callable[[Callable[[], Any], Callable[[Any], None]], None]:
    def offload(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        loop.run_in_executor(threads, work).add_done_callback(lambda future: done(future.result()))

    return offload

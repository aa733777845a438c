"""How the replicas are: each is asked once a tick, all are reported together.

A busy engine answers its probe late (llama.cpp only between two steps), so slow is not dead: a replica goes down when
nothing listens, when it says itself that it is not ready, or when several probes in a row brought nothing. What an
engine does not tell stays unknown. One that answered late keeps its last numbers, with their age.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import msgspec
from msgspec import structs

from plimsoll.gateway import fetch
from plimsoll.gateway.dialects import dialect
from plimsoll.gateway.dialects.exporters import EXPORTERS, read_dynamo_load
from plimsoll.gateway.dialects.reading import Dialect, Reading, over, plausible_state
from plimsoll.gateway.hands import Clock
from plimsoll.governor.events import ReplicaReport
from plimsoll.policy.policy import Policy, Pool
from plimsoll.requestlog.enginestate import EngineState

PATIENCE: Final = 10.0  # s for one probe to be answered
MISSES: Final = 3  # unanswered probes in a row that make a replica dead
EXPORTER_PATIENCE: Final = 0.5  # s: what a replica is must not wait for what others tell of it
STATE_EVERY: Final = 5.0  # s between looks at what only the log keeps: histograms are a millisecond to read
SETTLE: Final = 0.01  # s after a change of health before it is reported
NOT_SERVED: Final = (404, 405, 501)
_log = logging.getLogger("plimsoll.gateway")


class ReplicaProbe:
    """One replica, as far as it has told."""

    def __init__(self, url: str, engine: str, headers: tuple[tuple[bytes, bytes], ...], clock: Clock) -> None:
        self.url = url
        self.engine = engine
        self.healthy = False
        self.known = False  # asked at least once, with or without an answer
        self.why = "not asked yet"
        self.task: asyncio.Task[None] | None = None
        self._dialect: Dialect = dialect.of(engine)
        self._headers = headers
        self.tls: ssl.SSLContext | None = None
        self._clock = clock
        self._misses = 0
        self._facts: Reading | None = None
        self._reading = Reading()
        self._state = EngineState()
        self._state_read_at = -inf
        self._load = Reading()  # as exporters tell it
        self.pages: tuple[tuple[str, str], ...] = ()  # of exporters: (kind, base URL)
        self._read_at = 0.0

    def report(self) -> ReplicaReport:
        """Its latest state; of a dead one nothing is known but that."""
        reading = self._reading if self.healthy else Reading()
        state = self._state if self.healthy else None
        return ReplicaReport(self.url, self.healthy, self._read_at, *reading, state)

    async def ask(self, patience: float = PATIENCE) -> None:
        """One probe; afterwards `report` is up to date. Never raises for what an engine does."""
        try:
            await self._look(patience)
        except TimeoutError:
            self._missed(f"no answer to its probe within {patience:g} s")
        except (ConnectionRefusedError, ConnectionResetError) as error:
            self._dead(f"connection refused ({error})" if isinstance(error, ConnectionRefusedError) else str(error))
        except (OSError, msgspec.MsgspecError) as error:
            self._missed(str(error) or type(error).__name__)
        self.known = True

    async def _look(self, patience: float) -> None:
        status, page = await fetch.get(self.url, self._dialect.path, self._headers, patience, self.tls)
        read = self._dialect.read
        if status in NOT_SERVED and self._dialect.spare_path:
            status, page = await fetch.get(self.url, self._dialect.spare_path, self._headers, patience, self.tls)
            read = self._dialect.read_spare
        if status == 503:
            return self._dead("it says that it is not ready (503)")
        if status >= 500 and status not in NOT_SERVED:
            return self._missed(f"its metrics answer {status}")
        read_at = self._clock()
        reading = read(page) if status == 200 else Reading()
        if self._facts is None:
            self._facts = await self._ask_facts(patience)
        if read_at - self._state_read_at < STATE_EVERY and status == 200:
            self._reading, self._read_at = reading.over(self._load).over(self._facts).plausible(), read_at
            return self._alive()
        state = self._dialect.read_state(page) if status == 200 else EngineState()
        more = await asyncio.gather(*[self._ask_exporter(kind, url) for kind, url in self.pages])
        self._load = Reading()
        for told, load in more:  # the engine's own word goes first
            state, self._load = over(state, told), self._load.over(load)
        self._state, self._state_read_at = plausible_state(state), read_at
        self._reading = reading.over(self._load).over(self._facts).plausible()
        self._read_at = read_at
        return self._alive()

    async def _ask_exporter(self, kind: str, url: str) -> tuple[EngineState, Reading]:
        """What another page tells of this replica; one that does not answer tells nothing."""
        try:
            status, page = await fetch.get(url, "/metrics", (), EXPORTER_PATIENCE)
        except (OSError, TimeoutError):
            return EngineState(), Reading()
        if status != 200:
            return EngineState(), Reading()
        told = EXPORTERS[kind](page)
        if kind != "dynamo":
            return told, Reading()
        return over(self._dialect.read_state(page), told), self._dialect.read(page).over(read_dynamo_load(page))

    async def _ask_facts(self, patience: float) -> Reading:
        """What it was built with; asked again after each time it was down."""
        if not self._dialect.facts_path:
            return Reading()
        status, page = await fetch.get(self.url, self._dialect.facts_path, self._headers, patience, self.tls)
        return self._dialect.read_facts(page) if status == 200 else Reading()

    def _alive(self) -> None:
        self._misses = 0
        if not self.healthy:
            self.healthy = True
            _log.info("replica %s is up: %s", self.url, self._summary())
        self.why = ""

    def _missed(self, why: str) -> None:
        self._misses += 1
        if self._misses >= MISSES or not self.healthy:
            self._dead(f"{why}, {self._misses} times" if self._misses > 1 else why)

    def _dead(self, why: str) -> None:
        if self.healthy or not self.known:
            _log.warning("replica %s is down: %s", self.url, why)
        self.healthy = False
        self.why = why
        self._facts = None
        self._load, self._state_read_at = Reading(), -inf
        self._read_at = self._clock()

    def _summary(self) -> str:
        told = [f"{name} {value}" for name, value in self._reading._asdict().items() if value is not None]
        return ", ".join(told) or "it tells nothing of its load"


class Prober:
    """Asks all replicas of a policy, tick by tick, and passes on their reports."""

    def __init__(self, clock: Clock, deliver: Callable[[tuple[ReplicaReport, ...]], None]) -> None:
        self.replicas: dict[str, ReplicaProbe] = {}
        self._met: dict[str, ReplicaProbe] = {}
        self._clock = clock
        self._deliver = deliver
        self.contexts: Mapping[str, ssl.SSLContext] = {}  # for engines with authorities of their own
        self._every = 1.0
        self._changed = asyncio.Event()

    async def meet(self, policy: Policy, patience: float) -> None:
        """Ask the replicas that this policy brings, before it is in force, so that none stands idle as unknown."""
        self._met = self._replicas_of(policy)
        unknown = [replica.ask(patience) for replica in self._met.values() if not replica.known]
        await asyncio.gather(*unknown)

    def take(self, policy: Policy) -> None:
        """From now on these replicas; those that stay, and those that were met, keep what is known of them."""
        self._every = policy.gateway.probe_every
        before = self.replicas
        self.replicas = self._replicas_of(policy)
        self._met = {}
        for gone in before.values():
            if gone not in self.replicas.values() and gone.task is not None:
                gone.task.cancel()

    def is_up(self, url: str) -> bool:
        """Whether that replica answered when it was last asked."""
        replica = self.replicas.get(url)
        return replica is not None and replica.healthy

    def deliver(self) -> None:
        """Report what is known now."""
        self._deliver(tuple(replica.report() for replica in self.replicas.values() if replica.known))

    def _replicas_of(self, policy: Policy) -> dict[str, ReplicaProbe]:
        replicas = {}
        for pool in policy.pools:
            for url in (*pool.replicas, *pool.prefill):
                known = self.replicas.get(url) or self._met.get(url)
                if known is None or known.engine != pool.engine:
                    known = ReplicaProbe(url, pool.engine, _key(pool), self._clock)
                known.tls = self.contexts.get(url)
                known.pages = _pages_of(pool, pool.replicas.index(url)) if url in pool.replicas else ()
                replicas[url] = known
        return replicas

    async def run(self) -> None:
        """Until cancelled. The first look at each replica and each change of health are reported at once."""
        try:
            while True:
                for replica in self.replicas.values():
                    if replica.task is None or replica.task.done():
                        replica.task = asyncio.create_task(self._ask(replica))
                await self._until_changed()
                try:
                    self.deliver()
                except Exception as fault:  # one report that goes wrong must not be the last
                    _log.error("a fault of the gateway itself, reporting replicas", exc_info=fault)
        finally:
            for replica in self.replicas.values():
                if replica.task is not None:
                    replica.task.cancel()

    async def _ask(self, replica: ReplicaProbe) -> None:
        before = (replica.known, replica.healthy)
        await replica.ask()
        if before != (replica.known, replica.healthy):
            self._changed.set()

    async def _until_changed(self) -> None:
        try:
            async with asyncio.timeout(self._every):
                await self._changed.wait()
                await asyncio.sleep(SETTLE)  # others may just be answering
        except TimeoutError:
            pass
        self._changed.clear()


def _pages_of(pool: Pool, number: int) -> tuple[tuple[str, str], ...]:
    """The exporters' pages about the pool's replica of that number."""
    by_kind = structs.asdict(pool.exporters)
    return tuple([(kind, urls[number if len(urls) > 1 else 0]) for kind, urls in by_kind.items() if urls])


def _key(pool: Pool) -> tuple[tuple[bytes, bytes], ...]:
    key = os.environ.get(pool.engine_key, "") if pool.engine_key else ""
    return ((b"authorization", b"Bearer " + key.encode()),) if key else ()

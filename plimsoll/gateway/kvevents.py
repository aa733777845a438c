"""Engines' KV cache events over ZeroMQ, heard in a thread of their own: vLLM's, and SGLang's of the same form.

A message is a topic, a sequence number (8 bytes, from 0 when the engine starts) and a batch (`kvwire`). All pools that
name endpoints learn of caches that were emptied; those with `exact_prefixes` follow what each engine holds (`kvpool`),
and ask its replay socket for what was lost: a first number goes out, the messages from there on that it still has come
back, and one numbered -1 ends them. Needs the extra `kv-events` (pyzmq).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import msgspec

from plimsoll.errors import UsageError
from plimsoll.gateway.kvfollow import Follower
from plimsoll.gateway.kvpool import PoolCaches
from plimsoll.policy.policy import Policy, Pool

POLL: Final = 0.2  # s; so long closing may take
REPLAY_WAIT: Final = 0.5  # s for the next message of a replay
REPLAYS: Final = 8  # further questions for what got lost on the way
LAST: Final = b"\xff" * 8
_log = logging.getLogger("plimsoll.gateway")


def check_installed(policy: Policy) -> None:
    """UsageError where a pool names endpoints and the extra is missing: to be told before anything starts."""
    if any(pool.kv_events for pool in policy.pools) and find_spec("zmq") is None:
        raise UsageError("pools[].kv_events: zmq is not installed: pip install 'plimsoll[kv-events]'")


class Source(NamedTuple):
    """Where one engine publishes, and who follows it."""

    replica: str
    endpoint: str
    replay: str  # "": it keeps nothing
    follower: Follower


class KvEvents:
    """Listens to the engines of a policy, from `take` until `close`."""

    def __init__(self, tell: Callable[[tuple[str, ...]], None]) -> None:
        """`tell` is called in the listening thread, with the replicas whose caches were emptied."""
        self.caches: dict[str, PoolCaches] = {}  # by pool, of those whose prefixes are to be exact
        self._tell = tell
        self._pools: tuple[Pool, ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, policy: Policy) -> None:
        """From now on those of this policy. Where they change, all that is followed begins anew."""
        pools = tuple([pool for pool in policy.pools if pool.kv_events])
        if [_heard_of(pool) for pool in pools] == [_heard_of(pool) for pool in self._pools]:
            return
        self.close()
        self._pools = pools
        caches = {pool.name: PoolCaches(pool, pool.exact_prefixes.ranks) for pool in pools if pool.exact_prefixes}
        self.caches = caches
        if pools:
            sources = [source for pool in pools for source in sources_of(pool, caches.get(pool.name))]
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._listen, args=(sources, self._stop), name="plimsoll-kv-events", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread, self._pools, self.caches = None, (), {}

    def _listen(self, sources: list[Source], stop: threading.Event) -> None:
        zmq = import_module("zmq")
        with zmq.Context() as context:
            ears = [ear for source in sources if (ear := _open(zmq, context, source)) is not None]
            poller = zmq.Poller()
            for ear in ears:
                poller.register(ear.socket, zmq.POLLIN)
                poller.register(ear.monitor, zmq.POLLIN)
            try:
                self._hear(poller, ears, stop)
            finally:
                for ear in ears:
                    ear.close()

    def _hear(self, poller: Any, ears: "list[_Ear]", stop: threading.Event) -> None:
        for ear in ears:
            ear.source.follower.connected(ear.replay)
        while not stop.is_set():
            ready = {socket for socket, _ in poller.poll(1000.0 * POLL)}
            emptied = [ear.source.replica for ear in ears if ear.socket in ready and ear.hear()]
            for ear in ears:
                if ear.monitor in ready:  # after what came before the connection broke
                    ear.monitor.recv_multipart()
                    ear.source.follower.broke()
            if emptied:
                self._tell(tuple(emptied))


class _Ear:
    """An engine's sockets."""

    def __init__(self, zmq: Any, context: Any, source: Source) -> None:
        self.source = source
        self._zmq = zmq
        self._context = context
        self._troubled = False
        self.socket = context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.rcvhwm = 0  # what waits is bounded by what the engine publishes while we read others'
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def hear(self) -> bool:
        """Take one message; whether the cache was emptied."""
        try:
            _, sequence, payload = self.socket.recv_multipart()
            return self.source.follower.take(int.from_bytes(sequence, "big"), payload, self.replay)
        except (ValueError, msgspec.MsgspecError) as error:
            if not self._troubled:
                _log.warning("replica %s: its KV events cannot be read: %s", self.source.replica, error)
            self._troubled = True
            return False

    def replay(self, first: int) -> Iterator[tuple[int, bytes]] | None:
        """See `kvfollow.Replay`. An engine's socket drops what its queue has no room for: that is asked for again."""
        if not self.source.replay:
            return None
        told = self._ask(first)
        for _ in range(REPLAYS):
            gap = _first_gap(told) if told is not None else None
            if told is None or gap is None:
                break
            told = told[:gap] + (self._ask(told[gap - 1][0] + 1) or told[gap:])
        return None if told is None else _one_by_one(told)

    def _ask(self, first: int) -> list[tuple[int, bytes]] | None:
        zmq = self._zmq
        told: list[tuple[int, bytes]] = []
        asking = self._context.socket(zmq.DEALER)
        asking.linger = 0
        asking.rcvhwm = 0
        asking.rcvtimeo = int(1000 * REPLAY_WAIT)
        try:
            asking.connect(self.source.replay)
            asking.send_multipart((b"", first.to_bytes(8, "big")))
            while True:
                *_, sequence, payload = asking.recv_multipart()
                if sequence == LAST:
                    return told
                told.append((int.from_bytes(sequence, "big"), payload))
        except (zmq.ZMQError, ValueError) as error:
            _log.warning("replica %s: %s does not replay: %s", self.source.replica, self.source.replay, error)
            return None
        finally:
            asking.close()

    def close(self) -> None:
        """Hear no more."""
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close()


def _first_gap(told: list[tuple[int, bytes]]) -> int | None:
    """The place before which messages are missing; None: none are."""
    for place in range(1, len(told)):
        if told[place][0] != told[place - 1][0] + 1:
            return place
    return None


def _one_by_one(told: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Between two messages others may run: taking a whole replay takes seconds."""
    for message in told:
        time.sleep(0)
        yield message


def _open(zmq: Any, context: Any, source: Source) -> _Ear | None:
    ear = _Ear(zmq, context, source)
    try:
        ear.socket.connect(source.endpoint)
    except zmq.ZMQError as error:
        _log.warning("replica %s: its KV events cannot be had from %s: %s", source.replica, source.endpoint, error)
        ear.close()
        return None
    return ear


def sources_of(pool: Pool, caches: PoolCaches | None) -> list[Source]:
    """Its engines: one a replica, or one a rank of each, whose ports follow each other as vLLM counts them."""
    rules = pool.exact_prefixes
    replays = rules.replay if rules is not None and rules.replay else ("",) * len(pool.replicas)
    found = []
    for replica, endpoint, replay in zip(pool.replicas, pool.kv_events, replays, strict=False):
        followers = [Follower(None)] if caches is None else caches.followers[replica]
        for rank, follower in enumerate(followers):
            found.append(Source(replica, of_rank(endpoint, rank), of_rank(replay, rank), follower))
    return found


def of_rank(endpoint: str, rank: int) -> str:
    """That rank's endpoint by rank 0's: its port is as much higher."""
    base, _, port = endpoint.rpartition(":")
    return f"{base}:{int(port) + rank}" if rank and port.isdigit() else endpoint


def _heard_of(pool: Pool) -> tuple[object, ...]:
    rules = pool.exact_prefixes
    return pool.name, pool.replicas, pool.kv_events, rules and (rules.ranks, rules.replay)

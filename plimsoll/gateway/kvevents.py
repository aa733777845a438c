"""When an engine has emptied its prefix cache: vLLM's KV cache events over ZeroMQ, read in a thread of their own.

A message is a topic, a sequence number (8 bytes, from 0 when the engine starts) and a batch in MessagePack: [time,
[event, …], rank] with events [name, …], or the same as maps, by version. Of the events only `AllBlocksCleared` is made
use of; why not the others, docs/ARCHITECTURE.md says. Needs the extra `kv-events` (pyzmq).
"""

import logging
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import msgspec
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy

POLL: Final = 0.2  # s; so long closing may take
_log = logging.getLogger("plimsoll.gateway")


class _Stored(Struct, array_like=True, tag="BlockStored"):
    """What follows is skipped."""


class _Removed(Struct, array_like=True, tag="BlockRemoved"):
    """As above."""


class _Cleared(Struct, array_like=True, tag="AllBlocksCleared"):
    """It has nothing more."""


class _Batch(Struct, array_like=True):
    ts: float
    events: list[_Stored | _Removed | _Cleared]


class _StoredMap(Struct, tag="BlockStored"):
    """The same as maps."""


class _RemovedMap(Struct, tag="BlockRemoved"):
    """As above."""


class _ClearedMap(Struct, tag="AllBlocksCleared"):
    """As above."""


class _BatchMap(Struct):
    ts: float
    events: list[_StoredMap | _RemovedMap | _ClearedMap]


_arrays: Final = msgspec.msgpack.Decoder(_Batch)
_maps: Final = msgspec.msgpack.Decoder(_BatchMap)
_MAP16, _MAP32, _FIXMAP, _FIXMAP_END = 0xDE, 0xDF, 0x80, 0x8F


class CacheWatch:
    """One engine's messages in their order."""

    def __init__(self) -> None:
        self._last: int | None = None

    def cleared(self, sequence: int, payload: bytes) -> bool:
        """Whether the engine's cache was empty at some instant since the message before.

        Numbers that begin anew are a new process, whose cache was empty. Raises msgspec.MsgspecError where the batch is
        of no form that is known.
        """
        began_anew = self._last is not None and sequence <= self._last
        self._last = sequence
        is_map = payload[:1] != b"" and (_FIXMAP <= payload[0] <= _FIXMAP_END or payload[0] in {_MAP16, _MAP32})
        if is_map:
            return any(type(event) is _ClearedMap for event in _maps.decode(payload).events) or began_anew
        return any(type(event) is _Cleared for event in _arrays.decode(payload).events) or began_anew


def check_installed(policy: Policy) -> None:
    """UsageError where a pool names endpoints and the extra is missing: to be told before anything starts."""
    if any(pool.kv_events for pool in policy.pools) and find_spec("zmq") is None:
        raise UsageError("pools[].kv_events: zmq is not installed: pip install 'plimsoll[kv-events]'")


class KvEvents:
    """Listens to the engines of a policy, from `take` until `close`."""

    def __init__(self, tell: Callable[[tuple[str, ...]], None]) -> None:
        """`tell` is called in the listening thread, with the replicas whose caches were emptied."""
        self._tell = tell
        self._endpoints: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, policy: Policy) -> None:
        """From now on those of this policy."""
        named = {
            replica: endpoint
            for pool in policy.pools
            for replica, endpoint in zip(pool.replicas, pool.kv_events, strict=False)
        }
        if named == self._endpoints:
            return
        self.close()
        self._endpoints = named
        if named:
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._listen, args=(named, self._stop), name="plimsoll-kv-events", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread, self._endpoints = None, {}

    def _listen(self, endpoints: dict[str, str], stop: threading.Event) -> None:
        zmq = import_module("zmq")
        with zmq.Context() as context:
            poller = zmq.Poller()
            sources: dict[Any, tuple[str, CacheWatch]] = {}
            for replica, endpoint in endpoints.items():
                source = context.socket(zmq.SUB)
                source.linger = 0
                source.setsockopt(zmq.SUBSCRIBE, b"")
                try:
                    source.connect(endpoint)
                except zmq.ZMQError as error:
                    _log.warning("replica %s: its KV events cannot be had from %s: %s", replica, endpoint, error)
                    source.close()
                    continue
                poller.register(source, zmq.POLLIN)
                sources[source] = (replica, CacheWatch())
            try:
                self._hear(poller, sources, stop)
            finally:
                for source in sources:
                    source.close()

    def _hear(self, poller: Any, sources: dict[Any, tuple[str, CacheWatch]], stop: threading.Event) -> None:
        troubled: set[str] = set()
        while not stop.is_set():
            emptied: list[str] = []
            for source, _ in poller.poll(1000.0 * POLL):
                replica, watch = sources[source]
                try:
                    _, sequence, payload = source.recv_multipart()
                    if watch.cleared(int.from_bytes(sequence, "big"), payload):
                        emptied.append(replica)
                except (ValueError, msgspec.MsgspecError) as error:
                    if replica not in troubled:
                        _log.warning("replica %s: its KV events cannot be read: %s", replica, error)
                    troubled.add(replica)
            if emptied:
                self._tell(tuple(emptied))

"""The KV cache events of an emulated engine, published and replayed over ZeroMQ as vLLM does it.

A PUB socket carries (topic, number, batch); a ROUTER socket answers who asks from a number on with the batches that
are still kept, and one numbered -1. Needs the extra `kv-events` (pyzmq).
"""

import queue
import threading
from collections import deque
from importlib import import_module
from importlib.util import find_spec
from time import time
from typing import Any, Final

import msgspec

from plimsoll.errors import UsageError

KEPT: Final = 10_000  # batches, vLLM's `buffer_steps`
LOOK: Final = 0.05  # s between looks at who asks for a replay
LAST: Final = b"\xff" * 8
Event = dict[str, object]


def stored(hashes: tuple[object, ...], start: int, stop: int, ids: list[int], block_size: int) -> Event:
    """Blocks `start` to `stop` of a prompt are held now; `ids` are the tokens in them."""
    return {
        "type": "BlockStored",
        "block_hashes": list(hashes[start:stop]),
        "parent_block_hash": hashes[start - 1] if start else None,
        "token_ids": ids,
        "block_size": block_size,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }


def removed(hashes: tuple[object, ...], start: int, stop: int) -> Event:
    """They are no longer."""
    return {"type": "BlockRemoved", "block_hashes": list(hashes[start:stop]), "medium": "GPU"}


class KvPublisher:
    """Publishes from a thread of its own; batches are numbered from 0."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, replay_port: int = 0, kept: int = KEPT) -> None:
        """Port 0: any free one. Raises UsageError where pyzmq or a port is not to be had."""
        if find_spec("zmq") is None:
            raise UsageError("KV events: zmq is not installed: pip install 'plimsoll[kv-events]'")
        zmq = import_module("zmq")
        self.num_published = 0  # batches
        self._context = zmq.Context()
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=kept)
        self._batches: queue.SimpleQueue[list[Event] | None] = queue.SimpleQueue()
        self._out = self._context.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        try:
            self.endpoint = _bind(self._out, host, port)
            self.replay_endpoint = _bind(self._replay, host, replay_port)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise UsageError(f"KV events: cannot publish on {host}, ports {port} and {replay_port}: {error}") from error
        self._thread = threading.Thread(target=self._run, name="plimsoll-kv-publisher", daemon=True)
        self._thread.start()

    def publish(self, events: list[Event]) -> None:
        """One batch."""
        self.num_published += 1
        self._batches.put(events)

    def close(self) -> None:
        """Publish no more."""
        self._batches.put(None)
        self._thread.join()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        number = 0
        while True:
            self._answer()
            try:
                events = self._batches.get(timeout=LOOK)
            except queue.Empty:
                continue
            if events is None:
                return
            batch = msgspec.msgpack.encode({"ts": time(), "events": events, "data_parallel_rank": 0})
            self._kept.append((number, batch))
            self._out.send_multipart((b"", number.to_bytes(8, "big"), batch))
            number += 1

    def _answer(self) -> None:
        while self._replay.poll(0):
            who, *_, first = self._replay.recv_multipart()
            for number, batch in self._kept:
                if number >= int.from_bytes(first, "big"):
                    self._replay.send_multipart((who, b"", number.to_bytes(8, "big"), batch))
            self._replay.send_multipart((who, b"", LAST, b""))


def _bind(socket: Any, host: str, port: int) -> str:
    socket.bind(f"tcp://{host}:{port or '*'}")
    return str(socket.last_endpoint.decode())

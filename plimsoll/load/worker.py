"""One process of a replay: sends its share of the plan and hands results to the parent as they come."""

import asyncio
import contextlib
import os
import queue
import resource
import signal
import threading
import time
from multiprocessing.connection import Connection as Pipe
from typing import Final

import msgspec
import uvloop
from msgspec import Struct

from plimsoll.load.client import Client, Manner
from plimsoll.load.plan import Planned
from plimsoll.load.result import Result
from plimsoll.load.tenants import Sender

BATCH_EVERY: Final = 0.2  # s between messages to the parent


class Share(Struct, frozen=True):
    """What a worker is given: all it needs, in one message."""

    senders: tuple[Sender, ...]
    manner: Manner
    planned: tuple[Planned, ...]


def work(pipe: Pipe) -> None:
    """The process's main: share in, "ready" out, start in, batches of results out until the pipe closes.

    SIGINT is the parent's business; SIGTERM ends the replay early, with a row for every request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _allow_many_files()
    share = msgspec.msgpack.decode(pipe.recv_bytes(), type=Share)
    outbox: queue.SimpleQueue[Result | None] = queue.SimpleQueue()
    client = Client(share.senders, share.manner, outbox.put)
    pipe.send_bytes(b"ready")
    start_at = float(pipe.recv_bytes())
    post = threading.Thread(target=_post, args=(outbox, pipe))
    post.start()
    with contextlib.suppress(BrokenPipeError):
        uvloop.run(_send(client, share.planned, start_at))
    outbox.put(None)
    post.join()


async def _send(client: Client, planned: tuple[Planned, ...], start_at: float) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, client.stop)
    orphaned = asyncio.create_task(_stop_when_orphaned(client))
    await client.send(planned, start_at)
    orphaned.cancel()


async def _stop_when_orphaned(client: Client) -> None:
    """A worker whose parent was killed must not go on loading somebody's service."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - the system tells nobody that a parent died
        await asyncio.sleep(1.0)
    client.stop()


def _post(outbox: queue.SimpleQueue[Result | None], pipe: Pipe) -> None:
    """Send results in batches, off the event loop, since a full pipe blocks."""
    encode = msgspec.msgpack.encode
    while True:
        first = outbox.get()
        if first is not None:
            time.sleep(BATCH_EVERY)
        batch = [first]
        while not outbox.empty():
            batch.append(outbox.get())
        results = [result for result in batch if result is not None]
        try:
            if results:
                pipe.send_bytes(encode(results))
        except (BrokenPipeError, OSError):
            return  # the parent is gone
        if len(results) < len(batch):
            pipe.close()
            return


def _allow_many_files() -> None:
    """Each request in flight is a socket: take as many as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 65_536), hard))

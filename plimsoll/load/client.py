"""The open loop: each request goes out at its planned instant, whatever became of those before it.

Latencies start at the planned instant, so that a client (or a server) that falls behind cannot hide it
("coordinated omission", Tene 2013); how late the client itself was stands beside it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.load.connection import Connection, Connections, Target
from plimsoll.load.exchange import Exchange
from plimsoll.load.plan import Planned
from plimsoll.load.prompts import Prompts
from plimsoll.load.result import Result, Seen
from plimsoll.load.tenants import Sender

Sink = Callable[[Result], None]
_EPOCH: Final = time.time() - time.monotonic()


def clock() -> float:
    """UTC epoch s that never goes back."""
    return _EPOCH + time.monotonic()


class Manner(Struct, frozen=True):
    """How every request is sent."""

    target: Target
    run: str  # stands in front of every client request id
    model: str
    endpoint: str = "completions"  # | chat
    streaming: bool = True
    ignore_eos: bool = True  # ask engines that know it to go on to max_tokens
    timeout: float = 0.0  # s a client waits for the whole answer; 0: as long as it takes
    seed: int = 0
    vocabulary: tuple[int, int] = (1000, 2047)  # token ids of prompts, half-open


class Client:
    """Sends a share of a plan. `stop()` ends it early: what is in flight is cut, what was not sent is told as such."""

    def __init__(self, senders: tuple[Sender, ...], manner: Manner, sink: Sink) -> None:
        self._senders, self._manner, self._sink = senders, manner, sink
        self._chat = manner.endpoint == "chat"
        self._prompts = Prompts(manner.seed, range(*manner.vocabulary), words=self._chat)
        self._connections = Connections(manner.target, clock)
        self._running: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._fault: BaseException | None = None

    def stop(self) -> None:
        """Send nothing more and leave what is in flight."""
        self._stop.set()
        for task in self._running:
            task.cancel()

    async def send(self, planned: Iterable[Planned], start_at: float) -> None:
        """Send all of it, in order of time, `start_at` being the plan's zero on `clock`; returns when all has ended."""
        for one in planned:
            due_at = start_at + one.at
            if not self._stop.is_set() and (wait := due_at - clock()) > 0:
                await self._wait(wait)
            if self._stop.is_set():
                self._sink(self._unsent(one, due_at))
                continue
            task = asyncio.create_task(self._one(one, due_at))
            self._running.add(task)
            task.add_done_callback(self._done)
        while self._running:
            await asyncio.wait(set(self._running))
        self._connections.close()
        if self._fault is not None:
            raise self._fault

    def _done(self, task: asyncio.Task[None]) -> None:
        """Forget an ended request, but not that its code broke: a row would be missing without a word."""
        self._running.discard(task)
        if not task.cancelled():
            self._fault = self._fault or task.exception()

    async def _wait(self, seconds: float) -> None:
        """Sleep, but not through a stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _one(self, planned: Planned, due_at: float) -> None:
        exchange = Exchange(planned, self._senders[planned.sender].name, self._id(planned), due_at)
        request = self._request(planned)
        connection: Connection | None = None
        given_up: Seen | None = None
        patience, early = self._patience(planned)
        try:
            async with asyncio.timeout(due_at + patience - clock() if patience else None):
                connection = await self._connections.take()
                connection.send(exchange, request)
                await exchange.over
        except TimeoutError:
            given_up = early if patience else None
            exchange.broke("" if patience else "connect timeout", clock())
        except OSError as error:
            exchange.broke(type(error).__name__, clock())
        except asyncio.CancelledError:
            given_up = Seen.STOPPED  # by stop() alone, which wants the row, not the exception
            exchange.broke("", clock())
        if connection is not None:
            self._put_away(connection, given_up)
        self._sink(exchange.result(given_up))

    def _patience(self, planned: Planned) -> tuple[float, Seen]:
        """How long the client stays, s from the planned instant (0: for ever), and what it is called when it goes."""
        timeout, leaves = self._manner.timeout, planned.leaves_after
        if leaves and (not timeout or leaves < timeout):
            return leaves, Seen.LEFT
        return timeout, Seen.TIMED_OUT

    def _put_away(self, connection: Connection, given_up: Seen | None) -> None:
        if given_up is None:
            self._connections.give_back(connection)
        else:
            connection.close()

    def _id(self, planned: Planned) -> str:
        return f"{self._manner.run}-{planned.index}"

    def _unsent(self, planned: Planned, due_at: float) -> Result:
        return Result(
            client_request_id=self._id(planned),
            index=planned.index,
            tenant=self._senders[planned.sender].name,
            outcome=Seen.UNSENT,
            scheduled_at=due_at,
            asked_prompt_tokens=planned.prompt_tokens,
            asked_output_tokens=planned.output_tokens,
        )

    def _request(self, planned: Planned) -> bytes:
        """The request's bytes, head and body."""
        manner, sender = self._manner, self._senders[planned.sender]
        body = self._body(planned, sender)
        path = f"{manner.target.path}/v1/{'chat/completions' if self._chat else 'completions'}"
        labels = (
            ("X-Plimsoll-Session", planned.session),
            ("X-Plimsoll-Cause", planned.cause),
            ("X-Plimsoll-Criticality", planned.criticality),
        )
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {manner.target.authority}",
            f"Authorization: Bearer {sender.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {self._id(planned)}",
            *(f"{name}: {value}" for name, value in labels if value and value.isprintable()),
        ]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def _body(self, planned: Planned, sender: Sender) -> bytes:
        manner, prompt = self._manner, self._prompts.make(planned)
        content = b'"messages":[{"role":"user","content":"%b"}]' % prompt if self._chat else b'"prompt":[%b]' % prompt
        options = {
            "model": sender.model or manner.model,
            "max_tokens": planned.output_tokens,
            "temperature": 0,
            **({"ignore_eos": True} if manner.ignore_eos else {}),
            **({"stream": True, "stream_options": {"include_usage": True}} if manner.streaming else {}),
        }
        return msgspec.json.encode(options)[:-1] + b"," + content + b"}"

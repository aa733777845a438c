"""A small real engine to load: an asyncio server that streams tokens at a steady pace and notes what it was sent."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PacedEngine:
    """`first` s to the first token, `gap` s between tokens. `behave` maps a model's name to a fault of its own:
    refuse (429 with Retry-After), cut (connection closed after two tokens), error (an error event after two),
    mute (never answers)."""

    first: float = 0.02
    gap: float = 0.005
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    num_connections: int = 0
    num_left: int = 0  # clients that went away before the end
    sent_at: dict[str, list[float]] = field(default_factory=dict)  # client request id -> instants of its tokens

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as many requests as come on it."""
        self.num_connections += 1
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and await self._answer(head, reader, writer):
                pass
        except asyncio.IncompleteReadError:
            pass
        except (ConnectionError, asyncio.CancelledError):
            self.num_left += 1
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if first.startswith("GET"):
            reply = json.dumps({"object": "list", "data": [{"id": "paced"}]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(reply), reply))
            return True
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(body | {"path": first.split()[1]})
        self.headers.append(headers)
        if body["model"] == "mute":
            await reader.read(1)
            raise ConnectionResetError
        if body["model"] == "refuse":
            return self._refuse(writer)
        if not body.get("stream"):
            return self._whole(writer, body)
        return await self._stream(writer, body, headers.get("x-request-id", ""))

    def _refuse(self, writer: asyncio.StreamWriter) -> bool:
        error = {"error": {"message": "no", "type": "rate_limit_error", "code": "tenant_rate"}}
        reply = json.dumps(error).encode()
        head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: {}\r\n\r\n"
        writer.write(head.format(len(reply)).encode() + reply)
        return True

    def _whole(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        reply = json.dumps({"choices": [{"text": "x " * body["max_tokens"]}], "usage": self._usage(body)}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply))
        writer.write(reply)
        return True

    async def _stream(self, writer: asyncio.StreamWriter, body: dict[str, Any], request_id: str) -> bool:
        loop = asyncio.get_running_loop()
        instants = self.sent_at.setdefault(request_id, [])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        due = loop.time() + self.first
        for index in range(body["max_tokens"]):
            await asyncio.sleep(max(0.0, due - loop.time()))
            if index == 2 and body["model"] == "cut":
                return False
            if index == 2 and body["model"] == "error":
                self._event(writer, {"error": {"message": "broke", "type": "server_error", "code": "engine_error"}})
                writer.write(b"0\r\n\r\n")
                return True
            if writer.transport.is_closing():
                raise ConnectionResetError
            instants.append(loop.time())
            text = {"text": f"t{index} "} if "prompt" in body else {"delta": {"content": f"t{index} "}}
            self._event(writer, {"choices": [{"index": 0, **text, "finish_reason": None}]})
            due += self.gap
        self._event(writer, {"choices": [], "usage": self._usage(body)})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        return True

    def _usage(self, body: dict[str, Any]) -> dict[str, int]:
        prompt = len(body["prompt"]) if "prompt" in body else len(body["messages"][0]["content"].split())
        return {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"]}

    def _event(self, writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
        event = b"data: %b\n\n" % json.dumps(document).encode()
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))


@contextmanager
def running(engine: PacedEngine) -> Iterator[PacedEngine]:
    """The engine on a thread of its own with a free port of 127.0.0.1; stopped and joined at the end."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
        engine.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: (loop.run_until_complete(main()), loop.close()))
    thread.start()
    ready.wait(10)
    try:
        yield engine
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)

"""An emulated replica as an OpenAI-compatible server: which path does what.

Reading order: `Emulator.handle` here, `asking.py` (what is asked), `answers.py` (what goes out), `engine.py` (when).
"""

import asyncio
from time import time

from plimsoll.emulator import asking, metrics, shapes
from plimsoll.emulator.answers import Answer, Choice, Embedded, Stream, Whole
from plimsoll.emulator.engine import EmulatedEngine
from plimsoll.emulator.http import Connection, Request
from plimsoll.emulator.kvevents import KvPublisher
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError

GENERATING: dict[str, shapes.Shape] = {
    "/v1/chat/completions": shapes.ChatShape,
    "/v1/completions": shapes.CompletionShape,
}
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Emulator:
    """One emulated replica: serve with `start`, end with `close`."""

    def __init__(
        self,
        profile: EngineProfile,
        model: str = "",
        speed: float = 1.0,
        mean_output: int = 200,
        publisher: KvPublisher | None = None,
    ) -> None:
        """`model` "" means the profile's own; `mean_output` is the mean length of answers left open by the client;
        what the prefix cache does goes to `publisher`, which is closed with the emulator."""
        self.profile = profile
        self.model = model or profile.model or profile.name
        self.speed = speed
        self.mean_output = mean_output
        self.port = 0
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._engine: EmulatedEngine | None = None
        self._created = int(time())
        self._publisher = publisher

    @property
    def engine(self) -> EmulatedEngine:
        """The engine behind it; only after `start`."""
        if self._engine is None:
            raise RuntimeError("the emulator was not started")
        return self._engine

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen; the port. Raises OSError where the port is taken."""
        loop = asyncio.get_running_loop()
        self._engine = EmulatedEngine(self.profile, loop, self.speed, publisher=self._publisher)
        self._server = await loop.create_server(lambda: Connection(self.handle, self._connections), host, port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def close(self) -> None:
        """Stop listening and cut all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        self.engine.close()
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)
        await asyncio.sleep(0)

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer one request, now or over time."""
        try:
            self._route(connection, request)
        except asking.Refused as refused:
            connection.respond(refused.status, refused.body)
        except ProfileError as error:
            connection.respond(400, asking.Refused(400, str(error)).body)

    def _route(self, connection: Connection, request: Request) -> None:
        path = request.path
        if request.method == "POST" and path in GENERATING:
            self._generate(connection, request.body, GENERATING[path])
        elif request.method == "POST" and path == "/v1/embeddings":
            self._embed(connection, request.body)
        elif request.method == "POST" and path == "/tokenize":
            tokens = asking.tokenize(request.body, self.model)
            connection.respond(200, shapes.tokens(tokens, self.profile))
        elif request.method == "GET":
            self._get(connection, path)
        else:
            connection.respond(404, b'{"detail":"Not Found"}')

    def _get(self, connection: Connection, path: str) -> None:
        if path == "/v1/models":
            connection.respond(200, shapes.models(self.model, self.profile, self._created))
        elif path == "/metrics":
            connection.respond(200, metrics.render(self.engine, self.model), METRICS_TYPE)
        elif path in {"/health", "/ping"}:
            connection.respond(200, b"", b"text/plain; charset=utf-8")
        elif path == "/version":
            connection.respond(200, b'{"version":"0.19.0+plimsoll.emulator"}')
        else:
            connection.respond(404, b'{"detail":"Not Found"}')

    def _generate(self, connection: Connection, body: bytes, shape: shapes.Shape) -> None:
        ask = asking.read(body, self.model, self.profile, self.mean_output)
        answer = Answer(self.engine, connection, self.model, ask)
        prompts = [prompt for prompt in ask.prompts for _ in range(ask.num_choices)]
        seeds = [prompt.digest + 7 * index for index, prompt in enumerate(prompts)]
        if ask.streaming:
            stream = Stream(answer, shape)
            sinks: list[Choice | Whole] = [Choice(stream, index, seed) for index, seed in enumerate(seeds)]
        else:
            sinks = [Whole(answer, shape, seeds)] * len(prompts)
        answer.start(list(zip(prompts, sinks, strict=True)), ask.output_tokens, asking.HASH_TOKENS)

    def _embed(self, connection: Connection, body: bytes) -> None:
        ask = asking.read(body, self.model, self.profile, self.mean_output, embeddings=True)
        answer = Answer(self.engine, connection, self.model, ask)
        sink = Embedded(answer)
        answer.start([(prompt, sink) for prompt in ask.prompts], 0, asking.HASH_TOKENS)

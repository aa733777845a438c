"""`plimsoll emulate`: replicas to try things on, without a GPU."""

import asyncio
import signal
from typing import Annotated

from cyclopts import Parameter

from plimsoll.emulator.kvevents import KvPublisher
from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from plimsoll.errors import UsageError
from plimsoll.gateway.listening import cannot_listen


def emulate(
    *,
    profile: Annotated[str, Parameter(help="A shipped profile's name, or the path of a profile (YAML).")],
    port: Annotated[int, Parameter(help="Port of the first replica; 0: any free one.")] = 9001,
    replicas: Annotated[int, Parameter(help="How many, on ports that follow each other.")] = 1,
    speed: Annotated[float, Parameter(help="How many times faster than the real engine.")] = 1.0,
    model: Annotated[str, Parameter(help="Name to serve under; default: the profile's own.")] = "",
    mean_output: Annotated[int, Parameter(help="Mean length of answers whose length the client leaves open.")] = 200,
    kv_events: Annotated[
        int,
        Parameter(
            help="Publish KV cache events (ZeroMQ) from this port on: two a replica, the second replays. 0: none; "
            "needs the extra kv-events."
        ),
    ] = 0,
    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Serve emulated vLLM replicas: real HTTP, real waiting, words without meaning.

    Each replica batches, queues, caches prefixes and runs out of KV blocks as its profile says, and answers
    /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /health and /metrics by vLLM's names.

    Example: plimsoll emulate --profile h100-llama70b-tp4 --replicas 3 --speed 2
    """
    if not 0 < speed < float("inf") or replicas < 1 or mean_output < 1 or not 0 <= port <= 65_536 - max(1, replicas):
        raise UsageError("emulate: --speed must be above 0, --replicas and --mean-output at least 1, --port a port")
    if kv_events and not 0 < kv_events <= 65_536 - 2 * replicas:
        raise UsageError("emulate: --kv-events must be a port, with room above it for two a replica")
    loaded = profiles.load(profile)
    emulators = []
    for number in range(replicas):
        publisher = KvPublisher(host, kv_events + 2 * number, kv_events + 2 * number + 1) if kv_events else None
        emulators.append(Emulator(loaded, model, speed, mean_output, publisher))
    try:
        import uvloop  # noqa: PLC0415 - only where a server is started
    except ImportError:  # pragma: no cover - uvloop is a dependency, but not on every platform
        asyncio.run(_serve(emulators, host, port))
    else:
        uvloop.run(_serve(emulators, host, port))


async def _serve(emulators: list[Emulator], host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        for offset, emulator in enumerate(emulators):
            await _start(emulator, host, port + offset if port else 0)
            about = f"{emulator.model}  ({emulator.profile.name}, x{emulator.speed:g})"
            print(f"READY http://{host}:{emulator.port}  {about}", flush=True)  # noqa: T201 - the command's own voice
        await stop.wait()
    finally:
        for emulator in emulators:
            if emulator.port:
                await emulator.close()


async def _start(emulator: Emulator, host: str, port: int) -> None:
    try:
        await emulator.start(host, port)
    except OSError as error:
        raise UsageError(f"emulate: {cannot_listen(host, port, error, '--port')}") from error

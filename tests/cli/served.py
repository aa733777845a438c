"""`plimsoll serve` as a process of its own, for tests: its policy, its start, what it says."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from tests.gateway.tinyengine import Engine

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


def policy_text(engine: Engine, key: str = "sk-acme") -> str:
    digest = sha256(key.encode()).hexdigest()
    return f"""\
plimsoll: 1
tiers: [{{name: gold, rank: 0}}]
tenants: [{{name: acme, tier: gold, keys: ["sha256:{digest}"]}}]
pools: [{{name: chat, model: m, engine: vllm, replicas: ["{engine.url}"]}}]
gateway: {{timeouts: {{drain: 5s}}}}
"""


class Served:
    """A running `plimsoll serve`."""

    def __init__(self, process: asyncio.subprocess.Process, ready: str) -> None:
        self.process = process
        self.url, self.admin, token = re.findall(r"READY (\S+) admin (\S+) token (\S+)", ready)[0]
        self.token = {"authorization": f"Bearer {Path(token).read_text(encoding='ascii').strip()}"}

    async def told(self, text: str) -> str:
        """Read what it logs up to a line with that text."""
        assert self.process.stderr is not None
        while text not in (line := (await self.process.stderr.readline()).decode()):
            assert line, f"it ended without saying {text!r}"
        return line


async def start(*words: str, token: str = "", own_session: bool = False) -> asyncio.subprocess.Process:
    """`token` is that of its admin port; in a session of its own as a shell would have it."""
    command = [sys.executable, "-m", "plimsoll", "serve", *words, "--no-project"]
    around = os.environ | {"COLUMNS": "80"} | ({"PLIMSOLL_ADMIN_TOKEN": token} if token else {})
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command, stdout=pipe, stderr=pipe, env=around, start_new_session=own_session
    )


@asynccontextmanager
async def serving(policy: Path, data: Path) -> AsyncIterator[Served]:
    process = await start(str(policy), "--port", "0", "--admin-port", "0", "--data", str(data))
    assert process.stdout is not None
    try:
        yield Served(process, (await process.stdout.readline()).decode())
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def failing(*words: str) -> tuple[int | None, str]:
    process = await start(*words)
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}

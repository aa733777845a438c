"""`plimsoll serve --console` as processes: pages beside a gateway; neither is left behind or hurt by the other."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from plimsoll.cli.consolebeside import address_of
from plimsoll.errors import UsageError
from tests.cli.served import CHAT, bearer, failing, policy_text, start
from tests.gateway.tinyengine import engines, until

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux' /proc"),
    pytest.mark.timeout(120),
]


class Gateway(NamedTuple):
    """A running one, in a session of its own as a shell would have it."""

    process: asyncio.subprocess.Process
    url: str
    console: str

    @property
    def console_process(self) -> int:
        """The process id of its console; 0 where there is none."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                line, status = (path / "cmdline").read_bytes(), (path / "stat").read_text()
            except OSError:
                continue
            if b"\0console\0" in line and int(status.rpartition(")")[2].split()[1]) == self.process.pid:
                return int(path.name)
        return 0


@asynccontextmanager
async def gateway(home: Path, engine_policy: str, *, token: str = "") -> AsyncIterator[Gateway]:
    (home / "policy.yaml").write_text(engine_policy)
    words = ("--port", "0", "--admin-port", "0", "--data", str(home / "data"), "--console", "0")
    process = await start(str(home / "policy.yaml"), *words, token=token, own_session=True)
    assert process.stdout is not None
    try:
        ready = (await process.stdout.readline()).decode().split()
        yield Gateway(process, ready[1], ready[ready.index("console") + 1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def is_running(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


async def is_shown(client: httpx.AsyncClient, gateway: Gateway, text: str) -> None:
    """Wait until the first page says that."""
    for _ in range(300):
        if text in (await client.get(gateway.console)).text:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the console never said {text!r}")


async def is_refused(client: httpx.AsyncClient, url: str) -> bool:
    try:
        await client.get(url)
    except httpx.ConnectError:
        return True
    return False


def test_its_pages_show_the_gateway_and_end_with_its_drain(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            engines() as (engine,),
            httpx.AsyncClient(timeout=60) as client,
            gateway(tmp_path, policy_text(engine), token="from-the-environment") as running,
        ):
            url = f"{running.url}/v1/chat/completions"
            assert (await client.post(url, json=CHAT, headers=bearer("sk-acme"))).status_code == 200
            await is_shown(client, running, 'class="state live"')
            await is_shown(client, running, '<b id="ended">1</b>')
            console = running.console_process
            assert os.getpriority(os.PRIO_PROCESS, console) > os.getpriority(os.PRIO_PROCESS, running.process.pid)
            running.process.terminate()
            _, told = await running.process.communicate()
            assert running.process.returncode == 0
            assert b"console" not in told
            assert not is_running(console)
            assert await is_refused(client, running.console)

    asyncio.run(scenario())


def test_a_console_that_is_killed_leaves_the_gateway_alone_and_comes_back_at_its_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            engines() as (engine,),
            httpx.AsyncClient(timeout=60) as client,
            gateway(tmp_path, policy_text(engine)) as running,
        ):
            await is_shown(client, running, "<title>")
            first = running.console_process
            os.kill(first, signal.SIGKILL)
            url = f"{running.url}/v1/chat/completions"
            assert (await client.post(url, json=CHAT, headers=bearer("sk-acme"))).status_code == 200
            assert running.process.stderr is not None
            while b"the console ended" not in (line := await running.process.stderr.readline()):
                assert line, "it ended without a word about its console"
            await is_shown(client, running, "<title>")
            assert running.console_process not in {0, first}

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_none_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Neither by kill -9 of the gateway nor by Ctrl-C, which a terminal sends to both."""

    async def scenario() -> None:
        async with (
            engines() as (engine,),
            httpx.AsyncClient(timeout=60) as client,
            gateway(tmp_path, policy_text(engine)) as running,
        ):
            await is_shown(client, running, "<title>")
            console = running.console_process
            if number == signal.SIGKILL:
                running.process.kill()
            else:
                os.killpg(running.process.pid, number)
            _, told = await running.process.communicate()
            await until(lambda: not is_running(console))
            assert b"the console ended" not in told
            assert running.process.returncode == (0 if number == signal.SIGINT else -signal.SIGKILL)

    asyncio.run(scenario())


def test_a_taken_address_is_told_before_anything_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            policy = tmp_path / "policy.yaml"
            policy.write_text(policy_text(engine))
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                port = str(taken.getsockname()[1])
                words = ("--port", "0", "--admin-port", "0", "--data", str(tmp_path / "data"), "--console", port)
                code, errors = await failing(str(policy), *words)
            assert code == 2
            assert f"port {port} on 127.0.0.1 is in use by another process: choose another with --console" in errors

    asyncio.run(scenario())


def test_addresses() -> None:
    assert address_of(given=False) is None
    assert address_of(given=True) == ("127.0.0.1", 8002)
    assert address_of("9000") == ("127.0.0.1", 9000)
    assert address_of("0.0.0.0:0") == ("0.0.0.0", 0)
    assert address_of("[::1]:8002") == ("::1", 8002)
    for wrong in ("here", "::1:8002", "host:", "host:99999", "policy.yaml", "", "host:8002/", "host:²"):
        with pytest.raises(UsageError, match=r"--console .*: must be HOST:PORT or PORT"):
            address_of(wrong)

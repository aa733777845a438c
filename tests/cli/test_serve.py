"""`plimsoll serve` as its own process: READY, reload by signal and by port, drain, and what it says when it cannot."""

import asyncio
import re
import resource
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from plimsoll.cli.serving import allow_files
from tests.cli.served import CHAT, bearer, failing, policy_text, serving
from tests.gateway.tinyengine import engines, until


def resident_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])


def test_serve_reload_and_drain(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), httpx.AsyncClient(timeout=20) as client:
            policy = tmp_path / "policy.yaml"
            policy.write_text(policy_text(engine))
            async with serving(policy, tmp_path / "data") as served:

                async def status(key: str) -> int:
                    url = f"{served.url}/v1/chat/completions"
                    return (await client.post(url, json=CHAT, headers=bearer(key))).status_code

                assert await status("sk-acme") == 200
                assert (tmp_path / "data" / "admin.token").stat().st_mode & 0o777 == 0o600
                policy.write_text(policy_text(engine, "sk-new"))
                served.process.send_signal(signal.SIGHUP)
                await served.told("is in force")
                assert [await status("sk-acme"), await status("sk-new")] == [401, 200]

                policy.write_text(policy_text(engine).replace("rank: 0", "rank: zero, colour: red"))
                refused = await client.post(f"{served.admin}/admin/reload", headers=served.token)
                assert refused.status_code == 400
                assert len(refused.json()["error"]["faults"]) == 2
                served.process.send_signal(signal.SIGHUP)
                assert "old policy stays" in await served.told("old policy")
                assert await status("sk-new") == 200

                snapshot = (await client.get(f"{served.admin}/admin/snapshot", headers=served.token)).json()
                assert snapshot["pools"][0]["replicas"][0]["healthy"]
                page = (await client.get(f"{served.admin}/metrics")).text
                assert 'plimsoll_requests_total{tenant="acme",tier="gold",outcome="completed",reason="done"} 3' in page
                assert 'plimsoll_unattributed_refusals_total{reason="unknown_key"} 1' in page
                assert (await client.get(f"{served.admin}/readyz")).status_code == 200

                engine.gap = 0.1
                body = CHAT | {"stream": True, "max_tokens": 8}
                url = f"{served.url}/v1/chat/completions"
                stream = asyncio.create_task(client.post(url, json=body, headers=bearer("sk-new")))
                await until(lambda: engine.num_running)
                served.process.terminate()
                assert (await stream).text.endswith("data: [DONE]\n\n")
                assert await served.process.wait() == 0

    asyncio.run(scenario())


def test_a_policy_that_cannot_be_copied_is_in_force_all_the_same(tmp_path: Path) -> None:
    """As on a full disk."""

    async def scenario() -> None:
        async with engines() as (engine,), httpx.AsyncClient(timeout=20) as client:
            policy, data = tmp_path / "policy.yaml", tmp_path / "data"
            policy.write_text(policy_text(engine))
            (data / "policy.yaml.part").mkdir(parents=True)  # nothing can be written where this stands
            async with serving(policy, data) as served:
                assert "policy.yaml" in await served.told("not copied")
                policy.write_text(policy_text(engine, "sk-other"))
                done = await client.post(f"{served.admin}/admin/reload", headers=served.token)
                assert done.status_code == 200
                assert done.json()["policy_version"] in await served.told("not copied")
                answer = await client.post(f"{served.url}/v1/chat/completions", json=CHAT, headers=bearer("sk-other"))
                assert answer.status_code == 200

    asyncio.run(scenario())


def test_bad_starts_say_what_to_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            good, bad, newer = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "newer"
            good.write_text(policy_text(engine))
            bad.write_text("plimsoll: 1\nteirs: []\n")
            newer.mkdir()
            (newer / "plimsoll.json").write_text('{"schema": 99, "log": "00000000000000000000000000000000"}')
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                port = str(taken.getsockname()[1])
                starts = {
                    f"port {port} on 127.0.0.1 is in use": (str(good), "--port", port, "--admin-port", "0"),
                    "choose another with --admin-port": (str(good), "--port", "0", "--admin-port", port),
                    "upgrade Plimsoll": (str(good), "--data", str(newer)),
                    "--port 99999: must be from 0 to 65535": (str(good), "--port", "99999"),
                    "good.yaml cannot hold data": (str(good), "--data", str(good)),
                    "--ledger: must be postgresql": (str(good), "--ledger", "mysql://x"),
                    "tiers": (str(bad),),
                    "none.yaml": (str(tmp_path / "none.yaml"),),
                }
                fresh = [("--data", str(tmp_path / f"data-{i}")) for i in range(len(starts))]
                words = [
                    start if "--data" in start else (*start, *data)
                    for start, data in zip(starts.values(), fresh, strict=True)
                ]
                ends = await asyncio.gather(*(failing(*start) for start in words))
            for says, (code, errors) in zip(starts, ends, strict=True):
                assert code == 2
                assert says in errors
                assert "Traceback" not in errors

    asyncio.run(scenario())


def test_nothing_heavy_is_loaded() -> None:
    heavy = {"scipy", "duckdb", "pyarrow", "opentelemetry", "sqlalchemy", "pandas", "numpy"}

    async def scenario() -> None:
        code = "import plimsoll.cli.serve, plimsoll.cli.serving, sys; print(' '.join(sys.modules))"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe)
        output, _ = await process.communicate()
        loaded = set(output.decode().split())
        assert "plimsoll.gateway.app" in loaded
        assert not loaded & heavy

    asyncio.run(scenario())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux' /proc")
def test_idle_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            policy = tmp_path / "policy.yaml"
            policy.write_text(policy_text(engine))
            async with serving(policy, tmp_path / "data") as served:
                assert resident_kilobytes(served.process.pid) < 90 * 1024

    asyncio.run(scenario())


def test_the_limit_of_open_files_is_raised_to_what_is_allowed() -> None:
    """With the 1,024 of most shells, 500 streams would be the end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert allow_files(512) == 512
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, before[1])
        assert allow_files(300) == 512, "a limit that is high enough stays"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

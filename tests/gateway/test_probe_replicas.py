"""Probing real sockets: slow is not dead, refused is dead at once, what is not told stays unknown."""

import asyncio
import time
from contextlib import suppress

import pytest

from plimsoll.gateway.probe import MISSES, Prober, ReplicaProbe
from plimsoll.governor.events import ReplicaReport
from plimsoll.policy.policy import GatewayRules, Policy, Pool
from tests.gateway.scripted import run
from tests.gateway.tinyengine import Engine, engines, until


def probed(engine: Engine, kind: str = "vllm") -> ReplicaProbe:
    return ReplicaProbe(engine.url, kind, (), time.time)


def test_what_an_engine_tells_is_reported() -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            engine.num_running = 3
            replica = probed(engine)
            assert not replica.report().healthy
            await replica.ask()
            report = replica.report()
            assert (report.healthy, report.running, report.waiting) == (True, 3, None)
            assert (report.kv_blocks, report.block_size, report.max_context) == (1000, 16, 4096)
            assert abs(report.reported_at - time.time()) < 5

    run(scenario)


def test_refused_is_dead_at_once_and_forgets() -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            replica = probed(engine)
            await replica.ask()
            await engine.stop()
            await replica.ask()
            report = replica.report()
            assert not report.healthy
            assert report.kv_blocks is None
            assert "refused" in replica.why
            await engine.start()
            await replica.ask()
            assert replica.report().kv_blocks == 1000

    run(scenario)


def test_slow_is_not_dead_until_several_misses() -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            replica = probed(engine)
            await replica.ask()
            first = replica.report()
            engine.probe_delay = 5.0
            for _ in range(MISSES - 1):
                await replica.ask(0.05)
                assert replica.report() == first, "a late answer leaves the last numbers, with their age"
            await replica.ask(0.05)
            assert not replica.report().healthy
            engine.probe_delay = 0.0
            await replica.ask()
            assert replica.report().healthy

    run(scenario)


@pytest.mark.parametrize(("status", "healthy", "told"), [(404, True, False), (503, False, False), (200, True, True)])
def test_what_the_status_means(status: int, healthy: bool, told: bool) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            engine.metrics_status = status
            replica = probed(engine)
            await replica.ask()
            report = replica.report()
            assert report.healthy is healthy
            assert (report.running is not None) is told

    run(scenario)


def test_an_error_page_is_a_miss_not_a_death() -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            replica = probed(engine)
            await replica.ask()
            engine.metrics_status = 500
            await replica.ask()
            assert replica.report().healthy

    run(scenario)


def test_what_is_no_http_is_told() -> None:
    async def scenario() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            replica = ReplicaProbe(f"http://127.0.0.1:{port}", "openai", (), time.time)
            await replica.ask()
            assert not replica.report().healthy
            assert replica.why

    run(scenario)


def test_all_replicas_are_reported_together_and_changes_at_once() -> None:
    async def scenario() -> None:
        ticks: list[tuple[ReplicaReport, ...]] = []
        async with engines(2) as (one, two):
            prober = Prober(time.time, ticks.append)
            pool = Pool("chat", "m", "vllm", (one.url, two.url))
            policy = Policy(pools=(pool,), gateway=GatewayRules(probe_every=5.0))
            await prober.meet(policy, 2.0)
            prober.take(policy)
            prober.deliver()
            task = asyncio.create_task(prober.run())
            assert [report.healthy for report in ticks[-1]] == [True, True]
            await two.stop()
            prober.take(Policy(pools=(pool,), gateway=GatewayRules(probe_every=0.05)))
            await until(lambda: not ticks[-1][1].healthy)
            assert ticks[-1][0].healthy
            prober.take(Policy(pools=(Pool("chat", "m", "vllm", (one.url,)),), gateway=GatewayRules(probe_every=0.05)))
            await until(lambda: len(ticks[-1]) == 1)
            assert ticks[-1][0].replica == one.url
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run(scenario)

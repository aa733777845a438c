"""Whatever breaks between a request's booking and its end, on real sockets, nothing stays booked and each has one row.

Two replicas, an engine that computes prompts and a guardrail, all of which fail where an engine can fail; clients that
leave where a client can leave; streams that are hedged, hinted, queued and retried meanwhile.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from plimsoll.gateway.app import App
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Degradation, GatewayRules, Hedging, Policy, Scheduling, Timeouts, Trigger
from plimsoll.slo.outcome import Outcome
from tests.gateway.fickle import BREAKS, LEAVES, FickleClient, FickleEngine
from tests.gateway.guardpeer import Guard
from tests.gateway.liveapp import KEY, policy_for, records, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import until

ROUNDS, AT_ONCE = 10, 12
USUAL = 105  # first tokens after which it is known when one is late


def policy(replicas: list[FickleEngine], prompts: FickleEngine, guard: Guard) -> Policy:
    made = policy_for(*[engine.url for engine in replicas])
    settings = json.dumps({"url": guard.url})
    return replace(
        made,
        tiers=(replace(made.tiers[0], queue_timeout=1.0),),
        pools=(replace(made.pools[0], max_concurrency=8, prefill=(prompts.url,), prefill_from=100),),
        plugins=(Plugin("guard", settings=settings, timeout=0.3), Plugin("topic", core=False, settings=settings)),
        degradation=Degradation(Trigger("ttft", 0.05, 0.5), ("drop_plugins", "batch_of_one")),
        scheduling=Scheduling(routing="round_robin", hedging=Hedging(Fraction(1), Fraction(1, 2))),
        gateway=GatewayRules(probe_every=0.1, timeouts=Timeouts(first_byte=0.6, idle=0.5, total=2.0)),
    )


def request(dice: Random, number: int) -> bytes:
    content = "hello " * dice.choice((1, 1, 200))
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 4, "stream": number % 4 > 0}
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
        f"X-Request-Id: own-{number}\r\nContent-Length: {len(data)}\r\n"
    )
    hints = "X-Plimsoll-Early-Hints: 1\r\n" if dice.random() < 0.5 else ""
    return (head + hints + "\r\n").encode() + data


@asynccontextmanager
async def restless(replicas: list[FickleEngine], dice: Random) -> AsyncIterator[None]:
    """Now and then nobody listens at one of them."""

    async def go() -> None:
        while True:
            await asyncio.sleep(0.3)
            engine = dice.choice(replicas)
            await engine.stop()
            await asyncio.sleep(0.1)
            await engine.start()

    going = asyncio.create_task(go())
    try:
        yield
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


def booked(app: App) -> dict[str, int]:
    """All that is held for requests, by what and where."""
    told = app.governor.snapshot(app.clock())
    held = {"open in the hands": app.driver.num_open}
    for pool in told.pools:
        held |= {"waiting": pool.waiting, "in flight": pool.in_flight}
        for each in pool.replicas:
            held |= {f"requests {each.replica}": each.in_flight, f"units {each.replica}": each.reserved}
            held |= {f"by tier {each.replica}": sum(each.used.values()), f"prompts {each.replica}": each.pending_prompt}
        held |= {f"prompts {each.replica}": each.pending_prompt for each in pool.prefillers}
    held |= {f"of {tenant.tenant}": tenant.open + tenant.waiting for tenant in told.tenants}
    return {what: num for what, num in held.items() if num}


async def all_is_given_back(app: App) -> None:
    try:
        async with asyncio.timeout(10):
            await until(lambda: not booked(app))
    except TimeoutError:
        raise AssertionError(f"still held: {booked(app)}") from None


class Traffic:
    """Requests of any kind, each with a number of its own."""

    def __init__(self, port: int, dice: Random) -> None:
        self._port, self._dice = port, dice
        self.num = 0

    async def ask(self, leaves: str = "") -> None:
        self.num += 1
        client = FickleClient(self._port, leaves, self._dice.uniform(0.0, 0.2))
        await client.ask(request(self._dice, self.num))

    async def usual(self) -> None:
        """What shows how long first tokens take."""
        for _ in range(4 * USUAL // 3 // 4 + 1):
            await asyncio.gather(*[self.ask() for _ in range(4)])

    async def round(self) -> None:
        """Some at once, of whom half leave before their time."""
        leaves = [self._dice.choice(("", "", "", *LEAVES)) for _ in range(AT_ONCE)]
        await asyncio.gather(*[self.ask(how) for how in leaves])


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_breaks_is_given_back_once(tmp_path: Path, seed: int) -> None:
    dice, ways = Random(seed), cycle(BREAKS)
    *replicas, prompts = [FickleEngine(dice, ways) for _ in range(3)]

    async def scenario() -> int:
        for engine in (*replicas, prompts):
            await engine.start()
        async with Guard() as guard, running(policy(replicas, prompts, guard), tmp_path) as (app, client):
            traffic = Traffic(client.base_url.port or 0, dice)
            await traffic.usual()
            for engine in (*replicas, prompts):
                engine.steady = 0.5
            async with restless([*replicas, prompts], dice):
                for number in range(ROUNDS):
                    guard.delay = dice.choice((0.0, 0.0, 0.05, 0.5))
                    replicas[number % 2].gap = dice.choice((0.0, 0.01, 0.1))
                    await traffic.round()
                    await all_is_given_back(app)
            told = app.governor.snapshot(app.clock())
            assert told.pools[0].hedges > told.pools[0].hedges_won > 0
            assert sum(each.sent for each in told.pools[0].prefillers) > 0
        for engine in (*replicas, prompts):
            await engine.stop()
        return traffic.num

    asked = run(scenario)
    rows = records(tmp_path)
    assert Counter(row.client_request_id for row in rows) == Counter(f"own-{n}" for n in range(1, asked + 1))
    assert {row.outcome for row in rows} >= {Outcome.COMPLETED, Outcome.FAILED, Outcome.ABORTED, Outcome.REJECTED}
    assert set().union(*[engine.broke for engine in (*replicas, prompts)]) == set(BREAKS)

"""A Retry-After is true for real clients: the official SDK, unmodified, which waits as it is told and asks again.

Four kinds of overload at once, each with a tenant, a pool and an emulated replica of its own, behind one `plimsoll
serve`: too many requests a minute, too many tokens a minute, too many at once, and a full queue.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from math import comb
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, DefaultAsyncHttpxClient

from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from tests.real.parts import digest, gateway

pytestmark = pytest.mark.real
CASES = {
    "rate": ("limits: {requests_per_minute: 90}", "", 12),
    "tokens": ("limits: {tokens_per_minute: 6000}", "", 12),
    "slots": ("limits: {concurrency: 3}", "", 8),
    "queue": ("", "max_concurrency: 2", 10),
}
"""Tenant's part of the policy, pool's part, clients."""
LATE = 0.25  # s: who comes later than so did not do as told, whatever kept this machine busy
THINKING = ("slots", "queue")  # a rate does not care who asks how soon again
REASONS = {"rate": "tenant_rate", "tokens": "tenant_tokens", "slots": "tenant_concurrency", "queue": "queue_full"}


def policy(ports: dict[str, int]) -> str:
    tiers = "".join(
        f"  - {{name: {name}, rank: {rank}, queue_limit: {3 if name == 'queue' else 1000}}}\n"
        for rank, name in enumerate(CASES)
    )
    tenants = "".join(
        f'  - {{name: {name}, tier: {name}, keys: ["sha256:{digest(name)}"]{", " + limits if limits else ""}}}\n'
        for name, (limits, _, _) in CASES.items()
    )
    pools = "".join(
        f'  - {{name: {name}, model: {name}, engine: vllm, replicas: ["http://127.0.0.1:{ports[name]}"]'
        f"{', ' + rules if rules else ''}}}\n"
        for name, (_, rules, _) in CASES.items()
    )
    return f"plimsoll: 1\ntiers:\n{tiers}tenants:\n{tenants}pools:\n{pools}"


class Seen:
    """What one case's clients met, as seen on the wire."""

    def __init__(self) -> None:
        self.returns: list[bool] = []  # whether a client that had waited as told was admitted
        self.ratios: list[float] = []  # told first ÷ waited until the request that was admitted was sent
        self.reasons: set[str] = set()
        self.unpromised = 0
        self._due: dict[str, float] = {}
        self._told: dict[str, tuple[float, float]] = {}

    def answered(self, asked: str, sent_at: float, response: Any) -> None:
        returned = asked in self._told
        if returned and sent_at - self._due[asked] < LATE:
            self.returns.append(response.status_code == 200)
        if response.status_code == 200:
            if returned:
                since, seconds = self._told.pop(asked)
                self.ratios.append(seconds / (sent_at - since))
            return
        self.reasons.add(response.headers["x-plimsoll-reason"])
        told = response.headers.get("retry-after-ms")
        if told is None:
            self.unpromised += 1
        else:
            assert float(response.headers["retry-after"]) >= float(told) / 1000 - 1e-9
            self._told.setdefault(asked, (monotonic(), float(told) / 1000))
            self._due[asked] = monotonic() + float(told) / 1000


async def play(seconds: float, home: Path) -> dict[str, Seen]:
    """All clients against one gateway for so long."""
    profile = profiles.load("rtx4090-llama8b")
    emulators = {name: Emulator(profile, name, 1.5) for name in CASES}
    ports = {name: await emulator.start() for name, emulator in emulators.items()}
    seen: defaultdict[str, Seen] = defaultdict(Seen)
    running = ExitStack()
    try:
        served = await asyncio.to_thread(running.enter_context, gateway(home, policy(ports)))
        deadline = monotonic() + seconds
        await asyncio.gather(
            *[clients(served.url, name, num, deadline, seen[name]) for name, (_, _, num) in CASES.items()]
        )
    finally:
        await asyncio.to_thread(running.close)
        for emulator in emulators.values():
            await emulator.close()
    return seen


async def clients(url: str, name: str, num: int, deadline: float, seen: Seen) -> None:
    """So many of one case, on one connection pool: each asks, waits as told, asks again; the SDK does the waiting."""

    async def sent(request: Any) -> None:
        request.extensions["sent_at"] = monotonic()

    async def answered(response: Any) -> None:
        request = response.request
        seen.answered(request.headers["x-request-id"], request.extensions["sent_at"], response)

    async with DefaultAsyncHttpxClient(event_hooks={"request": [sent], "response": [answered]}) as http:
        sdk = AsyncOpenAI(base_url=f"{url}/v1", api_key=name, http_client=http, max_retries=1000)
        await asyncio.gather(*[client(sdk, name, number, deadline) for number in range(num)])


async def client(sdk: AsyncOpenAI, name: str, number: int, deadline: float) -> None:
    dice = Random(f"{name} {number}")
    await asyncio.sleep(0.15 * number)
    for num in range(1000):
        if monotonic() > deadline:
            return
        with suppress(TimeoutError, APIError):  # the last one is cut off
            async with asyncio.timeout(max(0.1, deadline + 3.0 - monotonic())):
                await sdk.chat.completions.create(
                    model=name,
                    messages=[{"role": "user", "content": "how deep is the water here, and at low tide"}],
                    max_tokens=dice.randint(10, 70),
                    extra_headers={"X-Request-Id": f"{name}-{number}-{num}"},
                )
        if name in THINKING:
            await asyncio.sleep(dice.expovariate(3.0))


def is_below(good: int, num: int, ratio: float) -> bool:
    """Whether so few good ones of `num` show, at 2.5 %, that the true ratio is below that one."""
    return sum(comb(num, k) * ratio**k * (1 - ratio) ** (num - k) for k in range(good + 1)) < 0.025


def report(seen: Mapping[str, Seen]) -> Iterator[str]:
    for name, case in seen.items():
        kept = sum(case.returns) / max(1, len(case.returns))
        told = median(case.ratios or [0.0])
        yield f"{name}: {len(case.returns)} returns, {kept:.1%} admitted, told ÷ waited {told:.2f}"


def test_clients_that_obey_are_admitted(tmp_path: Path) -> None:
    seen = asyncio.run(play(12.0, tmp_path))
    figures = "\n".join(report(seen))
    for name, case in seen.items():
        assert case.reasons <= {REASONS[name]}, figures
        assert len(case.returns) >= 5, figures
        assert not is_below(sum(case.returns), len(case.returns), 0.9), figures
        assert median(case.ratios) <= 2.0, figures


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Three minutes of it."""
    return asyncio.run(play(180.0, tmp_path_factory.mktemp("minutes")))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_for_minutes(name: str, minutes: dict[str, Seen]) -> None:
    figures = "\n".join(report(minutes))
    case = minutes[name]
    assert len(case.returns) > 50, figures
    assert sum(case.returns) / len(case.returns) >= 0.9, figures
    assert median(case.ratios) <= 2.0, figures

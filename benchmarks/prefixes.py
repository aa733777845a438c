"""How well it is foretold what engines find in their prefix caches, and what that costs.

`python -m benchmarks.prefixes [--requests N] [--elsewhere SHARE] [--at-once N]`. Conversations go through a gateway to
emulated replicas whose caches hold a part of them, and some straight to a replica, as another gateway sends them. Each
row says how many prompt tokens were expected to be cached, and how many the engine found. Once by what was sent where,
once by the engines' KV events. Then CPU time of what one long prompt costs on the event loop with exact prefixes. Needs
the extra `kv-events`.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from array import array
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace

from plimsoll.emulator.kvevents import KvPublisher
from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import wall_clock
from plimsoll.gateway.kvindex import EngineBlocks, Holdings
from plimsoll.gateway.kvpool import PoolCaches
from plimsoll.gateway.kvwire import Stored
from plimsoll.gateway.tokenids import read_tokens
from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.policy import Policy, Pool, Tenant, Tier
from plimsoll.requestlog.record import Record
from plimsoll.storage.journal import Journal

KEY = "sk-bench"
SESSIONS, BLOCKS = 12, 1500  # conversations; KV blocks of a replica: some four of them
TURN = 4_000  # bytes that a turn adds


class Replicas:
    """Emulated engines and where they are."""

    def __init__(self, num: int) -> None:
        profile = replace(profiles.load("h100-llama70b-tp4"), num_blocks=BLOCKS, model="m", max_context=16_384)
        self.publishers = [KvPublisher() for _ in range(num)]
        self.emulators = [Emulator(profile, "m", 20.0, 8, publisher) for publisher in self.publishers]

    def policy(self, exact: bool) -> Policy:
        rules = ExactPrefixes(512, 1.0, 1, tuple([each.replay_endpoint for each in self.publishers]))
        pool = Pool(
            "chat",
            "m",
            "vllm",
            tuple([f"http://127.0.0.1:{each.port}" for each in self.emulators]),
            max_context=16_384,
            kv_events=tuple([each.endpoint for each in self.publishers]),
            exact_prefixes=rules if exact else None,
        )
        tenant = Tenant("acme", "gold", keys=("sha256:" + sha256(KEY.encode()).hexdigest(),))
        return Policy(tiers=(Tier("gold", 0),), tenants=(tenant,), pools=(pool,), version="v1")


def body(session: int, turns: int) -> dict[str, Any]:
    dice = random.Random(session)
    words = [f"{dice.getrandbits(32):08x} " for _ in range(TURN * turns // 9)]
    per_turn = TURN // 9
    texts = ["".join(words[start : start + per_turn]) for start in range(0, len(words), per_turn)]
    messages = [{"role": "user", "content": text} for text in texts]
    return {"model": "m", "max_tokens": 4, "ignore_eos": True, "messages": messages}


async def run(exact: bool, requests: int, elsewhere: float, at_once: int) -> list[Record]:
    """The rows of that many requests through the gateway, with a share of the traffic beside it."""
    replicas = Replicas(3)
    for emulator in replicas.emulators:
        await emulator.start()
    rows: list[Record] = []
    dice = random.Random(1)
    turns = [1] * SESSIONS
    with tempfile.TemporaryDirectory() as directory:
        clock = wall_clock()
        app = App(Promise(replicas.policy(exact), {}), Journal.open(Path(directory), clock=clock), clock)
        app.driver.carrier.settled.append(lambda settle: rows.append(settle.record))
        port = await app.listen("127.0.0.1", 0)
        gate, urls = asyncio.Semaphore(at_once), [f"http://127.0.0.1:{each.port}" for each in replicas.emulators]
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:

            async def one(url: str, session: int) -> None:
                async with gate:
                    asked = body(session, turns[session])
                    turns[session] = turns[session] % 5 + 1
                    answer = await client.post(
                        f"{url}/v1/chat/completions", json=asked, headers={"authorization": f"Bearer {KEY}"}
                    )
                    answer.raise_for_status()

            tasks: list[asyncio.Task[None]] = []
            while len(tasks) < requests / (1.0 - elsewhere):
                url = dice.choice(urls) if dice.random() < elsewhere else f"http://127.0.0.1:{port}"
                tasks.append(asyncio.create_task(one(url, dice.randrange(SESSIONS))))
            await asyncio.gather(*tasks)
        if exact:
            print(f"  asked: { ({result: num for (_, result), num in app.finder.results.items()}) }")
        await app.close()
    for emulator in replicas.emulators:
        await emulator.close()
    return rows


def tell(name: str, rows: list[Record]) -> None:
    pairs = [(row.cached_expected or 0, row.cached_tokens or 0) for row in rows if row.cached_tokens is not None]
    equal = sum(expected == found for expected, found in pairs) / len(pairs)
    near = sum(abs(expected - found) <= 64 for expected, found in pairs) / len(pairs)
    off = sum(abs(expected - found) for expected, found in pairs) / len(pairs)
    cached = sum(found for _, found in pairs) / sum(row.prompt_tokens for row in rows)
    more = sum(expected > found for expected, found in pairs)
    print(
        f"{name}: of {len(pairs)} requests {equal:.1%} as foretold, {near:.1%} within 64 tokens ({more} foretold too "
        f"much), {off:,.0f} tokens off in the mean; {cached:.1%} of prompt tokens were cached"
    )


def best(work: Callable[[], object], times: int = 30) -> float:
    """µs of CPU, the best of many."""
    found = []
    for _ in range(times):
        began = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - began)
    return min(found) / 1000.0


def costs(num_tokens: int, num_replicas: int) -> None:
    """Of one prompt, all of which is held by every replica, in blocks of 16."""
    ids = [number * 7919 % 128_000 for number in range(num_tokens)]
    answer = json.dumps({"count": num_tokens, "max_model_len": 1, "tokens": ids, "token_strs": None}).encode()
    caches = PoolCaches(Pool("p", "m", "vllm", tuple([f"http://r{each}" for each in range(num_replicas)])), 1)
    names: list[int] = list(range(num_tokens // 16))
    event = Stored(names, None, ids[: len(names) * 16], 16)
    for followers in caches.followers.values():
        blocks = followers[0].blocks
        if blocks is not None:
            blocks.store(event)
    held = array("I", ids)
    fresh = array("I", reversed(ids))
    read, matched = best(lambda: read_tokens(answer)), best(lambda: caches.match(held, "", 0.0))
    nothing = best(lambda: caches.match(fresh, "", 0.0))
    noted = best(lambda: caches.match(fresh, "", 0.0).sent("http://r0"))
    stored = best(lambda: EngineBlocks(Holdings(), 1).store(event)) / len(names)
    print(
        f"{num_tokens} tokens, {num_replicas} replicas: answer read {read:.0f} us, all of it matched {matched:.0f}, "
        f"nothing of it {nothing:.0f}, noted where it went {noted:.0f}; a block stored (thread) {stored:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument(
        "--elsewhere", type=float, default=0.3, help="share of the traffic that does not come through it"
    )
    parser.add_argument("--at-once", type=int, default=3, help="requests that are open")
    asked = parser.parse_args()
    for exact, name in ((False, "by what was sent where"), (True, "by KV events")):
        tell(name, asyncio.run(run(exact, asked.requests, asked.elsewhere, asked.at_once)))
    for num_tokens in (2048, 8192, 32_768):
        costs(num_tokens, 4)


if __name__ == "__main__":
    main()

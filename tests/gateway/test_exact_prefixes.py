"""Prompts go where engines hold their beginnings, as these themselves tell it: emulated ones, over real sockets."""

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.emulator.asking import tokenize
from plimsoll.emulator.kvevents import KvPublisher
from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from plimsoll.gateway.app import App, Promise
from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.document import examine, parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import RowKind
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import decode_settle
from tests.gateway.liveapp import policy_for, running
from tests.gateway.tinyengine import engines, until

pytest.importorskip("zmq")
BLOCKS = 600  # of 16 tokens: one prompt of 4,000 tokens and another push out what was there
PROFILE = replace(profiles.load("h100-llama70b-tp4"), num_blocks=BLOCKS, model="m", max_context=8192)
TOPICS = ("winter", "summer", "fresh", "salt")


def chat(topic: str, turns: int = 1, tokens: int = 3000) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{topic} " * (4 * tokens // (len(topic) + 1))}]
    messages += [{"role": "user", "content": f"turn {turn} of {topic}"} for turn in range(1, turns)]
    return {"model": "m", "messages": messages, "max_tokens": 2, "ignore_eos": True}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


def rows(directory: Path) -> list[Record]:
    found = [row for row in read_rows(directory / "journal", 0) if row.kind == RowKind.SETTLE]
    return [decode_settle(row.payload).record for row in found]


class Replicas:
    """Two emulated engines that tell of their caches, and clients that ask them directly, as another gateway does."""

    def __init__(self, replay: bool) -> None:
        self.publishers = [KvPublisher() for _ in range(2)]
        self.emulators = [Emulator(PROFILE, "m", 20.0, 8, publisher) for publisher in self.publishers]
        self.replay = replay

    def policy(self, **rules: Any) -> Policy:
        urls = [f"http://127.0.0.1:{each.port}" for each in self.emulators]
        replay = tuple([each.replay_endpoint for each in self.publishers]) if self.replay else ()
        told = tuple([each.endpoint for each in self.publishers])
        policy = policy_for(*urls)
        rules = {"prompt_from": 500, "within": 5.0, "replay": replay, **rules}
        pool = replace(policy.pools[0], max_context=8192, kv_events=told, exact_prefixes=ExactPrefixes(**rules))
        return replace(policy, pools=(pool,))

    async def directly(self, number: int, body: dict[str, Any]) -> int:
        """Send it there; how much of it was cached."""
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            url = f"http://127.0.0.1:{self.emulators[number].port}/v1/chat/completions"
            usage = (await client.post(url, json=body)).json()["usage"]
            return int(usage["prompt_tokens_details"]["cached_tokens"])


@asynccontextmanager
async def replicas(*, replay: bool = True) -> AsyncIterator[Replicas]:
    both = Replicas(replay)
    for emulator in both.emulators:
        await emulator.start()
    try:
        yield both
    finally:
        for emulator in both.emulators:
            await emulator.close()


def num_blocks(app: App, number: int) -> int:
    caches = app.finder.caches["chat"]
    blocks = caches.followers[caches.replicas[number]][0].blocks
    assert blocks is not None
    return len(blocks)


def held(app: App, body: dict[str, Any], replica: str) -> int:
    """Tokens of a prompt that a replica has said to hold."""
    ids = tokenize(json.dumps(body).encode(), "m")
    return app.finder.caches["chat"].match(array("I", ids), "", 0.0).tokens(replica)


async def followed(app: App) -> None:
    caches = app.finder.caches["chat"]
    await until(lambda: all(each.whole for ranks in caches.followers.values() for each in ranks))


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text


def test_it_goes_where_another_gateway_had_it_computed_and_no_longer_once_that_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicas() as both:
            await both.directly(1, chat("winter"))  # before the gateway is there
            policy = both.policy()
            first, second = policy.pools[0].replicas
            async with running(policy, tmp_path) as (app, client):
                await followed(app)
                await until(lambda: num_blocks(app, 1) > 40)
                await ask(client, chat("winter", 2))
                for topic in TOPICS[1:]:
                    await both.directly(1, chat(topic, tokens=4000))
                await until(lambda: held(app, chat("winter"), second) == 0)
                await ask(client, chat("winter", 3))
                assert app.finder.results == {("chat", "exact"): 2}
            told = rows(tmp_path)
            assert [row.replica for row in told] == [second, first]
            assert [row.cached_from for row in told] == ["events", "events"]
            assert [row.cached_expected for row in told] == [row.cached_tokens for row in told]
            assert told[0].cached_tokens is not None
            assert told[0].cached_tokens > 2900
            assert told[1].cached_tokens == 0
            assert all(row.queued_for is not None and 0.0 < row.queued_for < 5.0 for row in told), "asking is waiting"

    run(scenario)


@pytest.mark.parametrize(("gap", "within", "result"), [(0.0, 5.0, "failed"), (0.5, 0.05, "slow")])
def test_where_no_tokens_can_be_had_prompts_go_as_others_do(
    tmp_path: Path, gap: float, within: float, result: str
) -> None:
    """An engine without /tokenize, and one that takes its time."""

    async def scenario() -> None:
        async with engines() as (engine,), replicas() as both:
            engine.gap = gap
            policy = both.policy(within=within)
            rules = replace(policy.pools[0].exact_prefixes, replay=())  # type: ignore[type-var]
            pool = replace(
                policy.pools[0], replicas=(engine.url,), kv_events=policy.pools[0].kv_events[:1], exact_prefixes=rules
            )
            async with running(replace(policy, pools=(pool,)), tmp_path) as (app, client):
                await ask(client, chat("winter"))
                await ask(client, chat("winter"))
                await ask(client, {**chat("winter"), "cache_salt": "mine"})
                assert app.finder.results == {("chat", result): 1, ("chat", "busy"): 1, ("chat", "unfit"): 1}
                assert app.finder.num_open == 0
            told = rows(tmp_path)
            assert [row.cached_from for row in told] == ["sent"] * 3
            assert [bool(row.cached_expected) for row in told] == [False, True, True]

    run(scenario)


def test_a_client_may_leave_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), replicas() as both:
            engine.gap = 30.0
            policy = both.policy(within=20.0)
            pool = replace(policy.pools[0], replicas=(engine.url,), kv_events=policy.pools[0].kv_events[:1])
            async with running(replace(policy, pools=(pool,)), tmp_path) as (app, client):
                with pytest.raises(httpx.ReadTimeout):
                    await client.post("/v1/chat/completions", json=chat("winter"), timeout=0.5)
                await until(lambda: app.finder.num_open == 0)
                await until(lambda: rows(tmp_path))
            (told,) = rows(tmp_path)
            assert (told.outcome, told.reason) == (Outcome.REJECTED, Reason.CLIENT_LEFT)

    run(scenario)


def test_an_engine_that_was_started_again_holds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicas() as both:
            await both.directly(1, chat("winter"))
            policy = both.policy()
            async with running(policy, tmp_path) as (app, client):
                await followed(app)
                await until(lambda: num_blocks(app, 1) > 40)
                old = both.emulators[1]
                before = both.publishers[1]
                port, *told_at = [
                    int(each.rpartition(":")[2]) for each in (f":{old.port}", before.endpoint, before.replay_endpoint)
                ]
                await old.close()
                both.publishers[1] = KvPublisher("127.0.0.1", *told_at)
                both.emulators[1] = Emulator(PROFILE, "m", 20.0, 8, both.publishers[1])
                await both.emulators[1].start(port=port)
                await until(lambda: num_blocks(app, 1) == 0)
                turn = 0
                while num_blocks(app, 1) < 40:  # until the subscription stands again, messages are lost
                    await both.directly(1, chat("summer", turn := turn + 1))
                await followed(app)
                await ask(client, chat("summer", turn + 1))
            (told,) = rows(tmp_path)
            assert told.replica == policy.pools[0].replicas[1]
            assert told.cached_expected == told.cached_tokens

    run(scenario)


def test_without_replay_a_gateway_that_comes_late_knows_less_than_there_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicas(replay=False) as both:
            await both.directly(1, chat("winter"))
            async with running(both.policy(), tmp_path) as (app, client):
                caches = app.finder.caches["chat"]
                deadline = 0
                while not num_blocks(app, 1):  # a subscription takes a moment
                    await both.directly(1, chat(f"summer {deadline}"))
                    deadline += 1
                await ask(client, chat("winter", 2))
                assert app.finder.results == {("chat", "partial"): 1}
                assert not caches.followers[caches.replicas[1]][0].whole
            (told,) = rows(tmp_path)
            assert told.cached_from == "sent"

    run(scenario)


def test_a_new_policy_may_turn_it_on_and_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicas() as both:
            exact = both.policy()
            plain = replace(exact, pools=(replace(exact.pools[0], exact_prefixes=None),), version="v2")
            async with running(plain, tmp_path) as (app, client):
                await ask(client, chat("winter"))
                await app.change_policy(Promise(exact, {}))
                await followed(app)
                await ask(client, chat("winter", 2))
                await app.change_policy(Promise(plain, {}))
                await ask(client, chat("winter", 3))
                assert app.finder.results == {("chat", "exact"): 1}
            assert [row.cached_from for row in rows(tmp_path)] == ["sent", "events", "sent"]

    run(scenario)


POOL = """
plimsoll: 1
tiers: [{name: gold, rank: 0}]
tenants: [{name: acme, tier: gold}]
pools: [{name: chat, model: m, engine: %s, replicas: ["http://r1"], max_concurrency: 4%s}]
"""
TOLD = ', kv_events: ["tcp://r1:5557"]'


def test_the_policy_says_when_it_is_worth_the_way() -> None:
    rules = ', exact_prefixes: {from: 4k, within: 20ms, ranks: 2, replay: ["tcp://r1:5567"]}'
    (pool,) = parse(POOL % ("vllm", TOLD + rules)).pools
    assert pool.exact_prefixes == ExactPrefixes(4096, 0.02, 2, ("tcp://r1:5567",))
    (plain,) = parse(POOL % ("vllm", TOLD + ", exact_prefixes: {}")).pools
    assert plain.exact_prefixes == ExactPrefixes()
    (warned,) = [
        each for each in examine(POOL % ("vllm", TOLD + ", exact_prefixes: {}")).warnings if "replay" in each.path
    ]
    assert "cannot be asked for" in warned.message


@pytest.mark.parametrize(
    ("engine", "rules", "path", "words"),
    [
        ("sglang", TOLD + ", exact_prefixes: {}", "exact_prefixes", "does not tell enough"),
        ("llamacpp", ", exact_prefixes: {}", "exact_prefixes", "does not tell enough"),
        ("vllm", ", exact_prefixes: {}", "exact_prefixes", "nobody tells"),
        ("vllm", TOLD + ", exact_prefixes: {within: 2s}", "exact_prefixes.within", "at most 1s"),
        ("vllm", ', kv_events: ["ipc:///run/e1"], exact_prefixes: {ranks: 2}', "exact_prefixes", "by their ports"),
        ("vllm", TOLD + ", exact_prefixes: {ranks: 0}", "exact_prefixes.ranks", "from 1 to 64"),
        ("vllm", TOLD + ', exact_prefixes: {replay: ["r1:5567"]}', "exact_prefixes.replay[0]", "no ZeroMQ endpoint"),
        (
            "vllm",
            TOLD + ', exact_prefixes: {replay: ["tcp://a:1", "tcp://b:1"]}',
            "exact_prefixes.replay",
            "2 endpoints",
        ),
        ("vllm", TOLD + ", exact_prefixes: {form: 1k}", "exact_prefixes.form", "unknown key"),
    ],
)
def test_what_cannot_be_is_told(engine: str, rules: str, path: str, words: str) -> None:
    found = [fault for fault in examine(POOL % (engine, rules)).faults if fault.path == f"pools[0].{path}"]
    assert any(words in fault.message for fault in found), found

"""An emulated engine tells what its prefix cache does, so that whoever listens knows what it would find."""

import asyncio
import random
from array import array
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.emulator.asking import tokenize
from plimsoll.emulator.kvevents import KvPublisher
from plimsoll.emulator.server import Emulator
from plimsoll.engine import profiles
from plimsoll.errors import ProfileError, UsageError
from plimsoll.gateway.kvevents import KvEvents
from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.policy import Policy, Pool

pytest.importorskip("zmq")
PROFILE = replace(profiles.load("h100-llama70b-tp4"), num_blocks=400, model="m", max_context=4096)


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - another thread's doing
        await asyncio.sleep(0.01)


def test_who_listens_knows_what_it_would_find() -> None:
    """Prompts that share beginnings push each other out; each time the engine finds as much as was foretold."""
    dice = random.Random(7)

    async def scenario() -> None:
        publisher = KvPublisher()
        emulator = Emulator(PROFILE, "m", 50.0, 8, publisher)
        await emulator.start()
        pool = Pool(
            "chat", "m", "vllm", ("http://r1",), kv_events=(publisher.endpoint,),
            exact_prefixes=ExactPrefixes(replay=(publisher.replay_endpoint,)),
        )  # fmt: skip
        listener = KvEvents(lambda replicas: None)
        listener.take(Policy(pools=(pool,)))
        caches = listener.caches["chat"]
        (follower,) = caches.followers["http://r1"]
        hits = []
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{emulator.port}", timeout=30) as client:
                await until(lambda: follower.whole)
                for _ in range(40):
                    text = "".join(dice.choice("ab") * 512 for _ in range(dice.randint(2, 14)))
                    asked: dict[str, Any] = {"prompt": text, "max_tokens": 3, "ignore_eos": True}
                    told = (await client.post("/tokenize", json={"model": "m", **asked})).json()
                    assert told["count"] == len(told["tokens"]) == len(text) // 4
                    await until(lambda: follower.due == publisher.num_published)
                    foretold = caches.match(array("I", told["tokens"]), "", 0.0).tokens("http://r1")
                    usage = (await client.post("/v1/completions", json=asked)).json()["usage"]
                    hits.append((foretold, usage["prompt_tokens_details"]["cached_tokens"]))
        finally:
            listener.close()
            await emulator.close()
        assert [foretold for foretold, _ in hits] == [found for _, found in hits]
        assert 0 < sum(found > 0 for _, found in hits) < len(hits)

    asyncio.run(scenario())


def test_tokens_are_those_behind_the_chat_template() -> None:
    chat = b'{"model":"m","messages":[{"role":"user","content":"abcd"}],"stream":true}'
    assert array("I", tokenize(chat, "m")).tobytes() == b"<|user|>abcd"
    assert tokenize(b'{"prompt":[5,6,7]}', "m") == [5, 6, 7]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"prompt": ["a", "b"]}, 400), ({"model": "other", "prompt": "a"}, 404), ({}, 400), ({"messages": []}, 400)],
)
def test_what_is_no_prompt_is_refused(body: dict[str, Any], status: int) -> None:
    async def scenario() -> None:
        emulator = Emulator(PROFILE, "m")
        await emulator.start()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{emulator.port}", timeout=30) as client:
            assert (await client.post("/tokenize", json=body)).status_code == status
        await emulator.close()

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_told() -> None:
    first = KvPublisher()
    try:
        with pytest.raises(UsageError, match="cannot publish on"):
            KvPublisher(port=int(first.endpoint.rpartition(":")[2]))
    finally:
        first.close()


def test_an_engine_of_several_parts_has_no_one_cache() -> None:
    async def scenario() -> None:
        publisher = KvPublisher()
        emulator = Emulator(replace(PROFILE, frontend=0.01), "m", publisher=publisher)
        with pytest.raises(ProfileError, match="no one prefix cache"):
            await emulator.start()
        publisher.close()

    asyncio.run(scenario())

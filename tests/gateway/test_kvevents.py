"""KV cache events: both forms that engines send, and a real publisher; an emptied cache draws nobody."""

import asyncio
import queue
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plimsoll.emulator.kvevents import KvPublisher, stored
from plimsoll.gateway.kvevents import KvEvents, sources_of
from plimsoll.gateway.kvfollow import Follower
from plimsoll.gateway.kvpool import PoolCaches
from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.document import examine, parse
from plimsoll.policy.policy import Policy, Pool
from tests.gateway.liveapp import CHAT, policy_for, running
from tests.gateway.tinyengine import engines

STORED = ["BlockStored", [b"\x01" * 32, 77], None, [1, 2, 3, 4], 4, None, "GPU", None]
REMOVED = ["BlockRemoved", [77], "GPU"]
CLEARED = ["AllBlocksCleared"]
NAMES = ("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")


def batch(*events: list[Any], maps: bool) -> bytes:
    """As older versions send it, or as newer ones do."""
    if maps:
        named = [dict(zip(NAMES, event, strict=False)) for event in events]
        return msgspec.msgpack.encode({"ts": 1.5, "events": named, "data_parallel_rank": 0})
    return msgspec.msgpack.encode([1.5, events, 0])


def test_maps_may_stand_in_an_array() -> None:
    """As SGLang sends them since its events became maps."""
    watch = Follower(None)
    assert not watch.take(0, msgspec.msgpack.encode([1.5, [{"type": "BlockRemoved", "block_hashes": [1]}], 0]))
    assert watch.take(1, msgspec.msgpack.encode([1.5, [{"type": "AllBlocksCleared"}], 0]))
    assert watch.take(2, msgspec.msgpack.encode({"ts": 1.5, "events": [CLEARED]}))


@pytest.mark.parametrize("maps", [False, True])
def test_only_a_clear_empties(maps: bool) -> None:
    watch = Follower(None)
    assert not watch.take(0, batch(STORED, REMOVED, maps=maps))
    assert watch.take(1, batch(STORED, CLEARED, STORED, maps=maps))
    assert not watch.take(2, batch(maps=maps))


def test_an_engine_that_was_started_again_is_empty() -> None:
    watch = Follower(None)
    assert not watch.take(41, batch(STORED, maps=False))
    assert not watch.take(45, batch(STORED, maps=False))  # some were lost: nothing follows from that
    assert watch.take(0, batch(STORED, maps=False))
    assert not watch.take(1, batch(STORED, maps=False))


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode([1.0, [["Else"]]]), b"\x80", b"hello"])
def test_what_is_no_batch_is_told(payload: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        Follower(None).take(0, payload)


def test_a_real_publisher_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    zmq = pytest.importorskip("zmq")
    context = zmq.Context()
    publisher = context.socket(zmq.PUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    heard: queue.Queue[tuple[str, ...]] = queue.Queue()
    listener = KvEvents(heard.put)
    url, endpoint = "http://r1", f"tcp://127.0.0.1:{port}"
    listener.take(Policy(pools=(Pool("chat", "m", "vllm", (url,), kv_events=(endpoint,)),)))
    try:
        deadline = time.monotonic() + 20.0
        for sequence in range(10_000):  # a publisher tells nothing to who is not there yet
            publisher.send_multipart((b"", sequence.to_bytes(8, "big"), batch(CLEARED, maps=sequence % 2 == 0)))
            if not heard.empty() or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        assert heard.get(timeout=5.0) == (url,)
        publisher.send_multipart((b"", (20_000).to_bytes(8, "big"), batch(STORED, maps=True)))
        publisher.send_multipart((b"", (20_001).to_bytes(8, "big"), b"\xc1"))
        while "cannot be read" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        while not heard.empty():  # messages come in order: these are of clears before
            heard.get()
        publisher.send_multipart((b"", (0).to_bytes(8, "big"), batch(STORED, maps=False)))  # a new process
        assert heard.get(timeout=5.0) == (url,)
        assert "cannot be read" in caplog.text
    finally:
        listener.close()
        publisher.close(linger=0)
        context.term()


def test_a_running_gateway_forgets_what_an_engine_held(tmp_path: Path) -> None:
    """From the publisher's socket to the index by which requests are routed."""
    zmq = pytest.importorskip("zmq")

    async def scenario() -> None:
        context = zmq.Context()
        publisher = context.socket(zmq.PUB)
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        async with engines() as (engine,):
            policy = policy_for(engine.url)
            pools = (msgspec.structs.replace(policy.pools[0], kv_events=(f"tcp://127.0.0.1:{port}",)),)
            async with running(msgspec.structs.replace(policy, pools=pools), tmp_path) as (app, client):
                long = {**CHAT, "messages": [{"role": "user", "content": "hello " * 1000}]}
                assert (await client.post("/v1/chat/completions", json=long)).status_code == 200
                prefixes = app.governor.pools()[0].prefixes
                assert len(prefixes) > 0
                async with asyncio.timeout(20):
                    while len(prefixes):
                        publisher.send_multipart((b"", bytes(8), batch(CLEARED, maps=True)))
                        await asyncio.sleep(0.02)
        publisher.close(linger=0)
        context.term()

    asyncio.run(scenario())


def test_an_endpoint_that_is_none_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("zmq")
    listener = KvEvents(lambda replicas: None)
    listener.take(Policy(pools=(Pool("chat", "m", "vllm", ("http://r1",), kv_events=("tcp://nonsense",)),)))
    listener.close()
    assert "cannot be had from tcp://nonsense" in caplog.text


POOL = """
plimsoll: 1
tiers: [{name: gold, rank: 0}]
tenants: [{name: acme, tier: gold}]
pools: [{name: chat, model: m, engine: %s, replicas: ["http://r1", "http://r2"], kv_events: [%s]}]
"""


def test_the_policy_names_an_endpoint_a_replica() -> None:
    (pool,) = parse(POOL % ("vllm", '"tcp://r1:5557", "tcp://r2:5557"')).pools
    assert pool.kv_events == ("tcp://r1:5557", "tcp://r2:5557")


@pytest.mark.parametrize(
    ("engine", "endpoints"),
    [("vllm", '"tcp://r1:5557"'), ("vllm", '"http://r1:5557", "tcp://r2:1"'), ("tgi", '"tcp://r1:1", "tcp://r2:1"')],
)
def test_what_cannot_be_listened_to_is_told(engine: str, endpoints: str) -> None:
    assert any(fault.path.startswith("pools[0].kv_events") for fault in examine(POOL % (engine, endpoints)).faults)


def test_a_long_replay_comes_whole() -> None:
    """An engine's socket drops what its queue has no room for; what was dropped is asked for again."""
    pytest.importorskip("zmq")
    publisher, num = KvPublisher(), 6000
    for number in range(num):
        publisher.publish([stored((number + 1,), 0, 1, [number] * 16, 16)])
    pool = Pool("chat", "m", "vllm", ("http://r1",), kv_events=(publisher.endpoint,))
    rules = ExactPrefixes(replay=(publisher.replay_endpoint,))
    listener = KvEvents(lambda replicas: None)
    try:
        listener.take(Policy(pools=(msgspec.structs.replace(pool, exact_prefixes=rules),)))
        (follower,) = listener.caches["chat"].followers["http://r1"]
        deadline = time.monotonic() + 60.0
        number = num
        while not (follower.whole and follower.blocks is not None and len(follower.blocks) >= num):
            assert time.monotonic() < deadline
            publisher.publish([stored((number + 1,), 0, 1, [number] * 16, 16)])  # what it replays from may still grow
            number += 1
            time.sleep(0.05)
        assert follower.num_lost == 0
    finally:
        listener.close()
        publisher.close()


def test_each_rank_publishes_at_a_port_of_its_own() -> None:
    """As vLLM counts them: rank r at the port of rank 0 and r more, for events and replay alike."""
    told, asked = ("tcp://r1:5557", "tcp://r2:5557"), ("tcp://r1:6557", "tcp://r2:6557")
    rules = ExactPrefixes(ranks=2, replay=asked)
    pool = Pool("chat", "m", "vllm", ("http://r1", "http://r2"), kv_events=told, exact_prefixes=rules)
    sources = sources_of(pool, PoolCaches(pool, 2))
    assert [(each.replica, each.endpoint, each.replay) for each in sources] == [
        ("http://r1", "tcp://r1:5557", "tcp://r1:6557"),
        ("http://r1", "tcp://r1:5558", "tcp://r1:6558"),
        ("http://r2", "tcp://r2:5557", "tcp://r2:6557"),
        ("http://r2", "tcp://r2:5558", "tcp://r2:6558"),
    ]

"""KV cache events as vLLM and SGLang send them: a batch in MessagePack, [time, [event, …], rank], or a map; with events
[name, …], or maps, by version (vllm/distributed/kv_events.py; sglang/srt/disaggregation/kv_events.py, maps in arrays).

Later members are not in all versions, and not all mean the same by them: they are looked at where they are used.
"""

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct


class Stored(Struct, array_like=True, tag="BlockStored"):
    """Blocks that follow each other are held: their names, and the tokens in them."""

    block_hashes: list[Any]  # whole numbers or bytes
    parent_block_hash: Any  # None: the first begins a prompt
    token_ids: Any = None  # a list of whole numbers; empty where the blocks were told before, of another medium
    block_size: Any = 0  # tokens
    lora_id: Any = None
    medium: Any = None
    lora_name: Any = None
    extra_keys: Any = None  # one a block: what its name covers beside tokens (adapter, images, salt); None: nothing
    group_idx: Any = None
    kv_cache_spec_kind: Any = None


class Removed(Struct, array_like=True, tag="BlockRemoved"):
    """Blocks are held no longer, on that medium."""

    block_hashes: list[Any]
    medium: Any = None
    group_idx: Any = None


class Cleared(Struct, array_like=True, tag="AllBlocksCleared"):
    """Nothing is held."""


class StoredMap(Stored, array_like=False, tag="BlockStored"):
    """The same as a map."""


class RemovedMap(Removed, array_like=False, tag="BlockRemoved"):
    """The same as a map."""


class ClearedMap(Cleared, array_like=False, tag="AllBlocksCleared"):
    """The same as a map."""


class _Arrays(Struct, array_like=True):
    ts: float
    events: list[Raw]


class _Map(Struct):
    ts: float
    events: list[Raw]


class Batch(NamedTuple):
    """What one step of the engine changed."""

    ts: float  # s, by the engine's time of day
    events: list[Stored | Removed | Cleared]


_batch_of: Final = (msgspec.msgpack.Decoder(_Arrays), msgspec.msgpack.Decoder(_Map))
_event_of: Final = (
    msgspec.msgpack.Decoder(Stored | Removed | Cleared),
    msgspec.msgpack.Decoder(StoredMap | RemovedMap | ClearedMap),
)
_MAP16, _MAP32, _FIXMAP, _FIXMAP_END = 0xDE, 0xDF, 0x80, 0x8F


def decode(payload: bytes) -> Batch:
    """The batch in a message. Raises msgspec.MsgspecError where it is of no form that is known."""
    batch = _batch_of[_is_map(payload)].decode(payload)
    return Batch(batch.ts, [_event_of[_is_map(event)].decode(event) for event in batch.events])


def _is_map(packed: bytes | Raw) -> bool:
    first = bytes(memoryview(packed)[:1])
    return first != b"" and (_FIXMAP <= first[0] <= _FIXMAP_END or first[0] in {_MAP16, _MAP32})

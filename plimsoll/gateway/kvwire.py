"""KV cache events as vLLM and SGLang send them: a batch in MessagePack, [time, [event, …], rank] with events [name, …],
or the same as maps, by version (vllm/distributed/kv_events.py). Later members are not in all versions, and not all
versions mean the same by them: they are looked at where they are used.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct


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


class Batch(Struct, array_like=True):
    """What one step of the engine changed."""

    ts: float  # s, by the engine's time of day
    events: list[Stored | Removed | Cleared]


class BatchMap(Struct):
    """The same as a map."""

    ts: float
    events: list[StoredMap | RemovedMap | ClearedMap]


_arrays: Final = msgspec.msgpack.Decoder(Batch)
_maps: Final = msgspec.msgpack.Decoder(BatchMap)
_MAP16, _MAP32, _FIXMAP, _FIXMAP_END = 0xDE, 0xDF, 0x80, 0x8F


def decode(payload: bytes) -> Batch | BatchMap:
    """The batch in a message. Raises msgspec.MsgspecError where it is of no form that is known."""
    is_map = payload[:1] != b"" and (_FIXMAP <= payload[0] <= _FIXMAP_END or payload[0] in {_MAP16, _MAP32})
    return _maps.decode(payload) if is_map else _arrays.decode(payload)

"""Messages as engines encode them, and an engine that keeps blocks of prompts and tells what it does."""

from typing import Any

import msgspec

from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.policy import Pool

SIZE = 4  # tokens a block
NAMES = {
    "BlockStored": (
        "type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
        "extra_keys", "group_idx", "kv_cache_spec_kind",
    ),
    "BlockRemoved": ("type", "block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": ("type",),
}  # fmt: skip
CLEARED = ["AllBlocksCleared"]


def batch(*events: list[Any], ts: float = 1.5, maps: bool = True) -> bytes:
    """A batch as newer versions send it, or (not `maps`) as older ones do."""
    if maps:
        named = [dict(zip(NAMES[event[0]], event, strict=False)) for event in events]
        return msgspec.msgpack.encode({"ts": ts, "events": named, "data_parallel_rank": 0})
    return msgspec.msgpack.encode([ts, events, 0])


def pool_of(*replicas: str, **rules: Any) -> Pool:
    return Pool("chat", "m", "vllm", replicas, exact_prefixes=ExactPrefixes(**rules))


class TinyCache:
    """Names blocks by a hash of its own: by `seed`, of everything before them."""

    def __init__(self, seed: int, *, as_bytes: bool = False) -> None:
        self.held: dict[tuple[int, ...], int] = {}  # beginning → copies
        self._seed = seed
        self._as_bytes = as_bytes

    def name(self, beginning: tuple[int, ...]) -> Any:
        made = hash((self._seed, beginning)) & (1 << 63) - 1
        return made.to_bytes(8, "big") * 4 if self._as_bytes else made

    def store(self, prompt: tuple[int, ...], start: int = 0, medium: str | None = "GPU", **more: Any) -> list[Any]:
        """It computed the prompt's full blocks from `start` on; the event."""
        ends = range((start + 1) * SIZE, len(prompt) + 1, SIZE)
        for end in ends:
            self.held[prompt[:end]] = self.held.get(prompt[:end], 0) + 1
        parent = self.name(prompt[: start * SIZE]) if start else None
        names = [self.name(prompt[:end]) for end in ends]
        tokens = list(prompt[start * SIZE : len(names) * SIZE + start * SIZE])
        late = [more.get(key) for key in ("lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind")]
        return ["BlockStored", names, parent, tokens, SIZE, more.get("lora_id"), medium, *late]

    def remove(self, beginning: tuple[int, ...]) -> list[Any]:
        """It gave one copy of a block away; the event."""
        self.held[beginning] -= 1
        if not self.held[beginning]:
            del self.held[beginning]
        return ["BlockRemoved", [self.name(beginning)], "GPU"]

    def clear(self) -> list[Any]:
        self.held.clear()
        return CLEARED

    def leading(self, prompt: tuple[int, ...]) -> int:
        """Tokens of a prompt that it would not compute again."""
        num = 0
        while num + SIZE < len(prompt) and prompt[: num + SIZE] in self.held:
            num += SIZE
        return num

"""Which engine holds which blocks of which prompts, exactly: from what each engine says it stored and removed.

Engines name a block by a hash of their own, whose algorithm and seed differ by version and process. Here a block is
named by a chain over token ids (and adapter) alone, which is computed for what engines store and for what clients ask.
One thread writes (`gateway/kvevents.py`), the event loop reads: each step is one operation of a dict, so a reader sees
a block as it was before or as it is after, and no lock can hold up the loop.
"""

from array import array
from collections.abc import Hashable
from typing import Any, Final

from xxhash import xxh3_64_intdigest

from plimsoll.gateway.kvwire import Removed, Stored

MOST_BLOCKS: Final = 262_144  # of one engine: 4M tokens at 16 a block, 55 MB here; what is beyond is not known
TOKEN_BYTES: Final = 4
EXPECTED_FOR: Final = 2.0  # s, up to twice that: so long a block that was sent counts as held until events say so
WHOLE_PREFIX: Final = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of layers whose blocks are held for a whole prefix; those of others (sliding windows, states) come and go."""


def root_of(adapter: str) -> int:
    """Where the chains of prompts for that LoRA adapter begin; "": of the model itself."""
    return int(xxh3_64_intdigest(adapter.encode())) if adapter else 0


def following(parent: int, tokens: memoryview | bytes) -> int:
    """The name of a block of token ids (little-endian, 4 bytes each) behind a block named `parent`."""
    return int(xxh3_64_intdigest(tokens, parent))


class Holdings:
    """Of all engines of one pool: block → bit mask of those that hold it, or are about to.

    What is expected is written by both threads. One may undo what the other does at the same instant: then a block
    counts as expected until it is forgotten, or not at all.
    """

    def __init__(self) -> None:
        self.masks: dict[int, int] = {}
        self._expected: dict[int, int] = {}  # bits of those that it was sent to lately …
        self._earlier: dict[int, int] = {}  # … and somewhat longer ago
        self._turned_at = 0.0

    def mask(self, block: int) -> int:
        """Who holds it, or will soon."""
        return self.masks.get(block, 0) | self._expected.get(block, 0) | self._earlier.get(block, 0)

    def expect(self, block: int, bit: int) -> None:
        """It is about to be computed there."""
        self._expected[block] = self._expected.get(block, 0) | bit

    def forget_expected(self, at: float) -> None:
        """What was expected for long has come, or will not."""
        if at - self._turned_at > EXPECTED_FOR:
            self._earlier = self._expected if at - self._turned_at <= 2.0 * EXPECTED_FOR else {}
            self._expected, self._turned_at = {}, at

    def add(self, block: int, bit: int) -> None:
        """That engine holds it: if it drops it, nothing is expected there any more."""
        self.masks[block] = self.masks.get(block, 0) | bit
        for sent in (self._expected, self._earlier):
            if mask := sent.get(block, 0):
                sent[block] = mask & ~bit

    def drop(self, block: int, bit: int) -> None:
        """That engine holds it no longer."""
        mask = self.masks.get(block, 0) & ~bit
        if mask:
            self.masks[block] = mask
        else:
            self.masks.pop(block, None)


class EngineBlocks:
    """What one engine holds, by its own names. `bit` is its place in its pool's masks."""

    def __init__(self, holdings: Holdings, bit: int, most: int = MOST_BLOCKS) -> None:
        self.bit = bit
        self.block_size = 0  # tokens, as it last said; 0: it has said nothing
        self.overflowed = False  # some blocks were left out
        self.num_orphans = 0  # blocks left out since it was never said what comes before them
        self._holdings = holdings
        self._most = most
        self._names: dict[Hashable, int] = {}  # its name → ours
        self._copies: dict[Hashable, int] = {}  # of blocks that it stored more than once, or on several media
        self._group: int | None = None  # of layers, the first that keeps whole prefixes; None: none was heard of

    def __len__(self) -> int:
        """Blocks."""
        return len(self._names)

    def clear(self) -> None:
        """It holds nothing, or nothing is known of it any more."""
        for block in self._names.values():
            self._holdings.drop(block, self.bit)
        self._names.clear()
        self._copies.clear()
        self.overflowed, self.num_orphans = False, 0

    def store(self, event: Stored) -> None:
        """It said so. Blocks whose place or tokens cannot be told are left out: too little is known, never too much."""
        if event.kv_cache_spec_kind is not None and event.kv_cache_spec_kind not in WHOLE_PREFIX:
            return
        if self._group is None:
            self._group = event.group_idx or 0
        if self._group != (event.group_idx or 0):
            return
        names = event.block_hashes
        tokens = _as_bytes(event.token_ids)
        size = event.block_size if isinstance(event.block_size, int) else 0
        if tokens is None or size <= 0 or len(tokens) != len(names) * size * TOKEN_BYTES:
            for name in names:  # as connectors tell of blocks that go to another medium
                self._again(name)
            return
        parent = self._parent(event)
        if parent is None:
            self.num_orphans += len(names)
            return
        self.block_size = size
        extras = event.extra_keys if isinstance(event.extra_keys, list) else None
        for place, name in enumerate(names):
            stop = (place + 1) * size * TOKEN_BYTES
            parent = following(parent, tokens[stop - size * TOKEN_BYTES : stop])
            if extras is not None and place < len(extras) and (more := _beside_adapter(extras[place], event)):
                parent = following(parent, repr(more).encode())
            self._hold(name, parent)

    def remove(self, event: Removed) -> None:
        """It said so."""
        if self._group != (event.group_idx or 0):
            return
        for name in event.block_hashes:
            copies = self._copies.get(name, 1)
            if copies > 1:
                self._copies[name] = copies - 1
            elif name in self._names:
                self._copies.pop(name, None)
                self._holdings.drop(self._names.pop(name), self.bit)

    def _parent(self, event: Stored) -> int | None:
        if event.parent_block_hash is not None:
            return self._names.get(event.parent_block_hash)
        adapter = event.lora_name or (f"#{event.lora_id}" if event.lora_id else "")  # a number is no client's name
        return root_of(str(adapter))

    def _hold(self, name: Hashable, block: int) -> None:
        if name in self._names:
            self._again(name)
        elif len(self._names) >= self._most:
            self.overflowed = True
        else:
            self._names[name] = block
            self._holdings.add(block, self.bit)

    def _again(self, name: Hashable) -> None:
        if name in self._names:
            self._copies[name] = self._copies.get(name, 1) + 1


def _as_bytes(tokens: Any) -> bytes | None:
    """Token ids as their chain takes them; None where they are none."""
    try:
        return array("I", tokens).tobytes() if tokens else None
    except (TypeError, OverflowError):
        return None


def _beside_adapter(extra: Any, event: Stored) -> list[Any]:
    """What a block's name covers beside tokens and adapter: images, a salt."""
    more = list(extra) if isinstance(extra, list) else []
    adapter = event.lora_name or event.lora_id
    return more[1:] if more and adapter and more[0] == adapter else more

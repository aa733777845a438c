"""KV kept below HBM: what a new request finds in DRAM and NVMe, how long it takes to come up, and what is given up.

Prefixes are written through: when a prompt is computed, and again when its request ends, the fastest tier gets a copy
(as vLLM's OffloadingConnector, LMCache and SGLang's HiCache do); what a tier evicts goes down to the next one. A tier
reads one request after another, and a request asks when it comes, not when it is scheduled (HiCache's prefetch).

Segmented eviction is Karedla's SLRU (IEEE Computer 27(3), 1994): an entry that was hit again moves to a protected
segment, whose overflow falls back into the probationary one, where victims are taken. Prewarming moves entries that
were hit before and have sunk since back up, most recently used first, as far as the lower tier's reads leave time: into
free room of the upper tier's protected segment, or in place of what was used longest ago there and hit less often
(TinyLFU's rule of admission: Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017).
"""

from collections import OrderedDict

from plimsoll.engine.features import Eviction, KvTier, KvTiers


class Entry:
    """KV of one prefix hash."""

    def __init__(self, hash_: int, size: float, ready_at: float) -> None:
        self.hash = hash_
        self.size = size  # bytes
        self.ready_at = ready_at  # when its copy is complete
        self.num_hits = 0  # since it was first stored


class Tier:
    """One store: its entries by recency, in one or two segments, and when its reader and writer are free."""

    def __init__(self, spec: KvTier, eviction: Eviction, protected_ratio: float) -> None:
        self.spec = spec
        self.used = 0.0
        self.reads_until = 0.0
        self._writes_until = 0.0
        self._segmented = eviction is Eviction.SEGMENTED
        self._protected_most = spec.capacity * protected_ratio
        self._protected_used = 0.0
        self.probation: OrderedDict[int, Entry] = OrderedDict()  # oldest first
        self.protected: OrderedDict[int, Entry] = OrderedDict()

    @property
    def protected_room(self) -> float:
        """Bytes that the protected segment would still take without pushing anything out of it."""
        return self._protected_most - self._protected_used

    def find(self, hash_: int) -> Entry | None:
        """The entry under a hash."""
        return self.probation.get(hash_) or self.protected.get(hash_)

    def touch(self, entry: Entry) -> None:
        """It was hit: the newest now, and protected where there are segments."""
        entry.num_hits += 1
        if not self._segmented:
            self.probation.move_to_end(entry.hash)
        elif entry.hash in self.protected:
            self.protected.move_to_end(entry.hash)
        else:
            del self.probation[entry.hash]
            self._protect(entry)

    def put(self, entry: Entry, at: float) -> list[Entry]:
        """Write it; who had to go for it, oldest first. What is larger than the tier goes straight down."""
        if entry.size > self.spec.capacity:
            return [entry]
        self._writes_until = max(at, self._writes_until) + entry.size / self.spec.write_bandwidth
        entry.ready_at = self._writes_until
        self.used += entry.size
        if self._segmented and entry.num_hits:
            self._protect(entry)
        else:
            self.probation[entry.hash] = entry
        return self._shrink()

    def take(self, entry: Entry) -> None:
        """Remove it."""
        if self.probation.pop(entry.hash, None) is None:
            del self.protected[entry.hash]
            self._protected_used -= entry.size
        self.used -= entry.size

    def read(self, size: float, at: float) -> float:
        """When `size` bytes asked for at `at` have been read."""
        self.reads_until = max(at, self.reads_until) + self.spec.latency + size / self.spec.read_bandwidth
        return self.reads_until

    def _protect(self, entry: Entry) -> None:
        self.protected[entry.hash] = entry
        self._protected_used += entry.size
        while self._protected_used > self._protected_most and len(self.protected) > 1:
            _, oldest = self.protected.popitem(last=False)
            self._protected_used -= oldest.size
            self.probation[oldest.hash] = oldest

    def _shrink(self) -> list[Entry]:
        gone = []
        while self.used > self.spec.capacity:
            segment = self.probation or self.protected
            oldest = next(iter(segment.values()))
            self.take(oldest)
            gone.append(oldest)
        return gone


class TieredKv:
    """The tiers of one replica, in order of speed. Calls come in order of time."""

    def __init__(self, spec: KvTiers) -> None:
        self.tiers = [Tier(tier, spec.eviction, spec.protected_ratio) for tier in spec.tiers]
        self.loaded_bytes = 0.0  # that requests asked for
        self.loading_time = 0.0  # s that they waited for it
        self.num_prewarmed = 0  # entries moved up ahead of need
        self._bytes = spec.bytes_per_token
        self._every = spec.prewarm_every if spec.eviction is Eviction.SEGMENTED else 0.0
        self._first: float | None = None  # moves are due every so often from here on
        self._num_ticks = 0

    def load(self, at: float, hashes: tuple[int, ...], start: int) -> tuple[int, float]:
        """Bring up what follows the first `start` hashes, which HBM has; those count as used here too.

        Returns how many hashes it then reaches, and when all is there.
        """
        self._prewarm(at)
        for hash_ in hashes[:start]:
            tier, entry = self._find(hash_)
            if entry is not None:
                self.tiers[tier].touch(entry)
        wanted: list[list[Entry]] = [[] for _ in self.tiers]
        reach = start
        while reach < len(hashes):
            tier, entry = self._find(hashes[reach])
            if entry is None:
                break
            wanted[tier].append(entry)
            reach += 1
        ready = at
        for tier, entries in enumerate(wanted):
            if entries:
                there = max([at, *(entry.ready_at for entry in entries)])  # one that is on its way is waited for
                size = sum(entry.size for entry in entries)
                ready = max(ready, self.tiers[tier].read(size, there))
                self.loaded_bytes += size
        self.loading_time += ready - at
        for tier in range(len(self.tiers)):
            for entry in wanted[tier]:
                self._used(tier, entry, ready)
        return reach, ready

    def store(self, at: float, hashes: tuple[int, ...], hash_tokens: int) -> None:
        """Copies of what HBM holds now; what is there already stays as it is."""
        self._prewarm(at)
        for hash_ in hashes:
            _, entry = self._find(hash_)
            if entry is None:
                self._put(0, Entry(hash_, hash_tokens * self._bytes, at), at)

    def _find(self, hash_: int) -> tuple[int, Entry | None]:
        for index, tier in enumerate(self.tiers):
            entry = tier.find(hash_)
            if entry is not None:
                return index, entry
        return 0, None

    def _used(self, tier: int, entry: Entry, at: float) -> None:
        """It was read for a request: touched where it is, or moved to the fastest tier on its way."""
        if tier == 0:
            self.tiers[0].touch(entry)
        elif self.tiers[tier].find(entry.hash) is entry:
            self.tiers[tier].take(entry)
            entry.num_hits += 1
            self._put(0, entry, at)

    def _put(self, index: int, entry: Entry, at: float) -> None:
        if index == len(self.tiers):
            return  # it falls out
        for gone in self.tiers[index].put(entry, at):
            self._put(index + 1, gone, at)

    def _prewarm(self, until: float) -> None:
        """The moves that were due by now, at the instants at which they were, counted from the first call on."""
        if not self._every:
            return
        if self._first is None:
            self._first = until
        while (at := self._first + (self._num_ticks + 1) * self._every) <= until:
            self._num_ticks += 1
            if not any(tier.protected for tier in self.tiers[1:]):  # nothing to move until somebody calls again
                self._num_ticks = max(self._num_ticks, int((until - self._first) / self._every) - 1)
                continue
            for index in range(1, len(self.tiers)):
                self._move_up(index, at)

    def _move_up(self, index: int, at: float) -> None:
        """Proven entries of a tier to the one above it, newest first, while reads fit into the period."""
        lower, upper = self.tiers[index], self.tiers[index - 1]
        room, free_at, chosen = upper.protected_room, max(at, lower.reads_until), []
        oldest = list(upper.protected.values())
        place = 0
        for entry in reversed(lower.protected.values()):
            done_at = free_at + lower.spec.latency + entry.size / lower.spec.read_bandwidth
            if done_at > at + self._every or entry.ready_at > at:
                break
            while room < entry.size and place < len(oldest) and oldest[place].num_hits < entry.num_hits:
                room += oldest[place].size
                place += 1
            if room < entry.size:
                continue
            room -= entry.size
            free_at = done_at
            chosen.append(entry)
        for entry in chosen:
            lower.take(entry)
            self.num_prewarmed += 1
            self._put(index - 1, entry, lower.read(entry.size, at))

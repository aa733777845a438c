"""The plain twin of `plimsoll/sim/gate.py` and `kvtiers.py`: cold starts, adapters, KV tiers; lists and exact sums."""

from dataclasses import dataclass, field
from fractions import Fraction

from plimsoll.engine.features import Eviction, KvTier, KvTiers
from plimsoll.engine.profile import EngineProfile
from tests.sim.reference import Gate, ReferenceReplica, Request


@dataclass(eq=False)
class Copy:
    """KV of one hash in some tier."""

    hash: int
    size: Fraction
    ready: Fraction
    hits: int = 0
    protected: bool = False


@dataclass(eq=False)
class Store:
    """One tier; `copies` oldest first."""

    spec: KvTier
    copies: list[Copy] = field(default_factory=list)
    reads_until: Fraction = Fraction(0)
    writes_until: Fraction = Fraction(0)

    def size(self, protected: bool) -> Fraction:
        return sum((copy.size for copy in self.copies if copy.protected or not protected), Fraction(0))

    def read(self, size: Fraction, at: Fraction) -> Fraction:
        took = Fraction(self.spec.latency) + size / Fraction(self.spec.read_bandwidth)
        self.reads_until = max(at, self.reads_until) + took
        return self.reads_until


class PlainTiers:
    """All tiers of a replica."""

    def __init__(self, spec: KvTiers, hash_tokens: int) -> None:
        self.spec = spec
        self.stores = [Store(tier) for tier in spec.tiers]
        self.size = Fraction(hash_tokens) * Fraction(spec.bytes_per_token)
        self.ticks_from: Fraction | None = None
        self.num_ticks = 0
        self.num_hits = 0
        self.num_moved_up = 0

    def find(self, hash_: int) -> tuple[Store, Copy] | None:
        for store in self.stores:
            for copy in store.copies:
                if copy.hash == hash_:
                    return store, copy
        return None

    def touch(self, store: Store, copy: Copy) -> None:
        copy.hits += 1
        store.copies.remove(copy)
        self.add(store, copy)

    def add(self, store: Store, copy: Copy) -> None:
        """As the newest of its segment; what that pushes out of the protected one is the newest of the other."""
        copy.protected = copy.hits > 0 and self.spec.eviction is Eviction.SEGMENTED
        store.copies.append(copy)
        most = Fraction(store.spec.capacity * self.spec.protected_ratio)
        while store.size(protected=True) > most and sum(c.protected for c in store.copies) > 1:
            oldest = next(c for c in store.copies if c.protected)
            oldest.protected = False
            store.copies.remove(oldest)
            store.copies.append(oldest)

    def put(self, index: int, copy: Copy, at: Fraction) -> None:
        if index == len(self.stores):
            return
        store = self.stores[index]
        if copy.size > store.spec.capacity:
            self.put(index + 1, copy, at)
            return
        store.writes_until = max(at, store.writes_until) + copy.size / Fraction(store.spec.write_bandwidth)
        copy.ready = store.writes_until
        self.add(store, copy)
        gone = []
        while store.size(protected=False) > store.spec.capacity:
            loose = [c for c in store.copies if not c.protected] or store.copies
            store.copies.remove(loose[0])
            gone.append(loose[0])
        for other in gone:
            self.put(index + 1, other, at)

    def load(self, at: Fraction, hashes: tuple[int, ...], start: int) -> tuple[int, Fraction]:
        self.tick(at)
        for hash_ in hashes[:start]:
            known = self.find(hash_)
            if known:
                self.touch(*known)
        reach, wanted = start, []
        while reach < len(hashes) and (known := self.find(hashes[reach])):
            wanted.append(known)
            reach += 1
        ready = at
        for store in self.stores:
            copies = [copy for where, copy in wanted if where is store]
            if copies:
                self.num_hits += len(copies)
                ready = max(ready, store.read(self.size * len(copies), max([at, *(copy.ready for copy in copies)])))
        for store in self.stores:
            for where, copy in wanted:
                if where is not store:
                    continue
                if store is self.stores[0]:
                    if copy in store.copies:  # else it has been pushed out by another of the same load
                        self.touch(store, copy)
                elif copy in store.copies:
                    store.copies.remove(copy)
                    copy.hits += 1
                    self.put(0, copy, ready)
        return reach, ready

    def store(self, at: Fraction, hashes: tuple[int, ...]) -> None:
        self.tick(at)
        for hash_ in hashes:
            if self.find(hash_) is None:
                self.put(0, Copy(hash_, self.size, at), at)

    def tick(self, until: Fraction) -> None:
        """Prewarming at the instants at which it is due."""
        every = Fraction(self.spec.prewarm_every)
        if not every or self.spec.eviction is Eviction.LRU:
            return
        if self.ticks_from is None:
            self.ticks_from = until
        while (at := self.ticks_from + (self.num_ticks + 1) * every) <= until:
            self.num_ticks += 1
            for index in range(1, len(self.stores)):
                self.move_up(index, at, at + every)

    def move_up(self, index: int, at: Fraction, before: Fraction) -> None:
        lower, upper = self.stores[index], self.stores[index - 1]
        room = Fraction(upper.spec.capacity * self.spec.protected_ratio) - upper.size(protected=True)
        took = Fraction(lower.spec.latency) + self.size / Fraction(lower.spec.read_bandwidth)
        free_at, chosen = max(at, lower.reads_until), []
        oldest = [c for c in upper.copies if c.protected]
        for copy in reversed([c for c in lower.copies if c.protected]):
            if free_at + took > before or copy.ready > at:
                break
            while room < copy.size and oldest and oldest[0].hits < copy.hits:
                room += oldest.pop(0).size
            if room >= copy.size:
                room -= copy.size
                free_at += took
                chosen.append(copy)
        for copy in chosen:
            lower.copies.remove(copy)
            self.num_moved_up += 1
            self.put(index - 1, copy, lower.read(copy.size, at))


class PlainGate(Gate):
    """Requests enter when the engine is warm, their adapter loaded and their KV up."""

    def __init__(self, profile: EngineProfile, hash_tokens: int) -> None:
        self.profile = profile
        self.tiers = PlainTiers(profile.kv_tiers, hash_tokens) if profile.kv_tiers else None
        self.hash_tokens = hash_tokens
        cold = profile.cold_start
        self.warm_at = Fraction(cold.seconds) if cold else Fraction(0)
        self.quiet_since = self.warm_at
        self.inside: list[Request] = []  # all that have come and not ended
        self.adapters: list[tuple[str, Fraction]] = []  # least recently used first, with when each is there
        self.loads_until = Fraction(0)
        self.users: list[Request] = []
        self.parked: list[Request] = []
        self.instants: list[Fraction] = []  # that a step's end must not come too near to

    def arrive(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        cold = self.profile.cold_start
        if cold and cold.asleep_after and not self.inside and at - self.quiet_since > cold.asleep_after:
            self.warm_at = at + Fraction(cold.seconds)
        self.inside.append(request)
        ready = max(self.warm_at, at + Fraction(self.profile.frontend))
        if ready > at:
            self.instants.append(ready)
            engine.note(ready, "prepares", request)
        else:
            self.prepare(engine, request, at)

    def prepare(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        ready = at
        if self.profile.lora and request.adapter:
            taken = self.take(request.adapter, at)
            if taken is None:
                self.parked.append(request)
                return
            ready = taken
            self.users.append(request)
        if self.tiers and request.hashes:
            start = engine.found(request)
            reach, up = self.tiers.load(at, request.hashes[: (request.prompt - 1) // self.hash_tokens], start)
            if reach > start:
                request.loaded_from, request.loaded = start * self.hash_tokens, reach * self.hash_tokens
            ready = max(ready, up)
        if ready > at:
            self.instants.append(ready)
            engine.note(ready, "enters", request)
        else:
            engine.enter(request)

    def take(self, name: str, at: Fraction) -> Fraction | None:
        assert self.profile.lora
        there = dict(self.adapters)
        if name not in there:
            if len(there) == self.profile.lora.slots:
                in_use = {user.adapter for user in self.users}
                idle = [other for other, _ in self.adapters if other not in in_use]
                if not idle:
                    return None
                del there[idle[0]]
            self.loads_until = max(at, self.loads_until) + Fraction(self.profile.lora.load_time)
            there[name] = self.loads_until
        since = there.pop(name)
        self.adapters = [*there.items(), (name, since)]
        return max(at, since)

    def follow(self, engine: ReferenceReplica, kind: str, request: Request, at: Fraction) -> None:
        if self.tiers and request.hashes:
            tokens = request.prompt if kind == "first" else request.prompt + max(0, request.output - 1)
            self.tiers.store(at, request.hashes[: tokens // self.hash_tokens])
        if kind == "finished":
            self.ended(engine, request, at)

    def ended(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        if request not in self.inside:
            return
        self.inside.remove(request)
        if not self.inside:
            self.quiet_since = max(at, self.warm_at)
        if request in self.parked:
            self.parked.remove(request)
        if request in self.users:
            self.users.remove(request)
            parked, self.parked = self.parked, []
            for other in parked:
                self.prepare(engine, other, at)

"""What the engines of one pool hold of a prompt's tokens, asked on the event loop."""

from array import array

from plimsoll.gateway.kvfollow import Follower
from plimsoll.gateway.kvindex import TOKEN_BYTES, EngineBlocks, Holdings, following, root_of
from plimsoll.policy.policy import Pool


class PoolCaches:
    """One follower an engine: each replica has as many as it has ranks, whose prompts nobody can direct."""

    def __init__(self, pool: Pool, ranks: int) -> None:
        self.replicas = pool.replicas
        self.holdings = Holdings()
        self.followers: dict[str, list[Follower]] = {}
        self._engines: list[EngineBlocks] = []
        for replica in pool.replicas:
            own = [EngineBlocks(self.holdings, 1 << (len(self._engines) + rank)) for rank in range(ranks)]
            self._engines += own
            self.followers[replica] = [Follower(each) for each in own]

    def match(self, tokens: "array[int]", adapter: str, at: float) -> "Match":
        """Who holds how much of a prompt of these token ids; of its last token an engine wants to compute at least
        one, so the block that it ends in is never a hit."""
        self.holdings.forget_expected(at)
        found = Match(self, tokens, adapter)
        for size in {each.block_size for each in self._engines} - {0}:
            found.look(size)
        return found

    def bits(self, size: int) -> int:
        """Those whose blocks are of so many tokens, or have said nothing yet."""
        return sum(each.bit for each in self._engines if each.block_size in {0, size})


class Match:
    """One prompt's."""

    def __init__(self, caches: PoolCaches, tokens: "array[int]", adapter: str) -> None:
        self._caches = caches
        self._bytes = memoryview(tokens).cast("B")
        self._num_tokens = len(tokens)
        self._adapter = adapter
        self._held: dict[int, int] = {}  # bit → tokens
        self._names: dict[int, list[int]] = {}  # block size → its blocks as far as anybody holds them

    def look(self, size: int) -> None:
        """Walk its blocks of so many tokens as far as anybody holds them."""
        holdings, step = self._caches.holdings, size * TOKEN_BYTES
        alive = self._caches.bits(size)
        names = self._names[size] = []
        name = root_of(self._adapter)
        for place in range(0, (self._num_tokens - 1) // size * step, step):
            name = following(name, self._bytes[place : place + step])
            mask = holdings.mask(name)
            if mask & alive != alive:
                self._leave(alive & ~mask, place // TOKEN_BYTES)
                alive &= mask
                if not alive:
                    return
            names.append(name)
        self._leave(alive, len(names) * size)

    def _leave(self, bits: int, tokens: int) -> None:
        while bits:
            bit = bits & -bits
            self._held[bit] = tokens
            bits ^= bit

    def tokens(self, replica: str) -> int:
        """Leading tokens that a replica holds; of its ranks, what the least of them does."""
        return min(
            [self._held.get(each.blocks.bit, 0) for each in self._caches.followers[replica] if each.blocks is not None]
        )

    def whole(self, replica: str) -> bool:
        """Whether that is all it holds of it."""
        return all(each.whole for each in self._caches.followers[replica])

    def sent(self, replica: str) -> None:
        """It goes there: what follows it shortly may count on its blocks."""
        ranks = self._caches.followers.get(replica)
        if ranks is None or len(ranks) > 1 or ranks[0].blocks is None:
            return  # which of several ranks it goes to is the engine's own affair
        bit, size = ranks[0].blocks.bit, ranks[0].blocks.block_size or next(iter(self._names), 0)
        names = self._names.get(size)
        if names is None:
            return
        for name in names[self._held.get(bit, 0) // size :]:
            self._caches.holdings.expect(name, bit)
        name = names[-1] if names else root_of(self._adapter)
        step = size * TOKEN_BYTES
        for place in range(len(names) * step, self._num_tokens // size * step, step):
            name = following(name, self._bytes[place : place + step])
            self._caches.holdings.expect(name, bit)

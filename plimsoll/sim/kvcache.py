"""KV blocks of one replica with vLLM's prefix cache, kept as extents instead of single blocks.

vLLM holds a free list of blocks, least recently used first; a freed block keeps its content, and its hash, until it is
handed out again. Blocks of one request that nobody else can share move through that list together, so here they are
one entry with a count; blocks under one prefix hash are one entry that is kept or evicted whole. With one hash a block
this is vLLM's rule exactly; with coarser hashes (Mooncake's 512 tokens) it is that rule on their grain.

Hashes are kept as they come, as objects: numbers that are only ever compared.
"""


class Extent:
    """Some blocks that live and die together; linked into the free list while nobody uses them."""

    def __init__(self, key: object, num_blocks: int, owner: int = -1) -> None:
        self.key = key  # the prefix hash under which others hit it; None: nobody else can
        self.owner = owner  # the preempted job that left it behind, while it can be found; -1: none
        self.num_blocks = num_blocks
        self.refs = 1
        self.older: Extent | None = None
        self.newer: Extent | None = None


class KvCache:
    """The block pool of one replica. All counts are blocks."""

    def __init__(self, num_blocks: int, caching: bool) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks  # unused ones, those with reusable content among them
        self.caching = caching
        self._cached: dict[object, Extent] = {}
        self._own: dict[int, Extent] = {}  # what preempted jobs left behind, by job
        self._oldest: Extent | None = None
        self._newest: Extent | None = None
        if caching:
            self._append(Extent(None, num_blocks))

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1; reusable content nobody uses counts as free, as in vLLM."""
        return 1.0 - self.num_free / self.num_blocks

    def match(self, hashes: tuple[object, ...], limit: int) -> list[Extent]:
        """The cached extents of the longest known prefix among the first `limit` hashes; nothing is taken yet."""
        found: list[Extent] = []
        for index in range(min(limit, len(hashes))):
            extent = self._cached.get(hashes[index])
            if extent is None:
                break
            found.append(extent)
        return found

    def left_behind(self, job_id: int) -> int:
        """Blocks of its own that a preempted job would find again."""
        extent = self._own.get(job_id)
        return extent.num_blocks if extent is not None else 0

    def take(self, extents: list[Extent]) -> None:
        """Use matched extents: they can no longer be evicted."""
        for extent in extents:
            if extent.refs == 0:
                self._unlink(extent)
                self.num_free -= extent.num_blocks
            extent.refs += 1

    def take_own(self, job_id: int) -> int:
        """Use what a preempted job left behind; returns the number of blocks."""
        extent = self._own.pop(job_id, None)
        if extent is None:
            return 0
        self._unlink(extent)
        self.num_free -= extent.num_blocks
        return extent.num_blocks

    def allocate(self, num: int) -> None:
        """Take `num` free blocks, evicting the least recently used content. The caller has checked `num_free`."""
        self.num_free -= num
        if not self.caching:
            return
        while num > 0:
            oldest = self._oldest
            if oldest is None:
                raise RuntimeError("more blocks were taken than are free")
            if oldest.key is not None:  # kept or evicted whole: what is left of it is plain space
                del self._cached[oldest.key]
                oldest.key = None
            if oldest.num_blocks > num:
                oldest.num_blocks -= num
                return
            num -= oldest.num_blocks
            self._unlink(oldest)
            if oldest.owner >= 0:
                del self._own[oldest.owner]

    def publish(self, key: object, num_blocks: int) -> Extent:
        """Let others hit blocks of a job under a hash; a copy that nobody hits where the hash is there already."""
        if key in self._cached:
            return Extent(None, num_blocks)
        extent = Extent(key, num_blocks)
        self._cached[key] = extent
        return extent

    def free(self, extents: list[Extent], num_private: int) -> None:
        """Give blocks back. The tail of a prompt is evicted before its head."""
        self.num_free += num_private
        if not self.caching:
            return
        if num_private > 0:
            self._append(Extent(None, num_private))
        for index in range(len(extents) - 1, -1, -1):
            extent = extents[index]
            extent.refs -= 1
            if extent.refs == 0:
                self.num_free += extent.num_blocks
                self._append(extent)

    def leave(self, job_id: int, num_blocks: int) -> None:
        """Give back computed blocks of a job that was preempted, who finds what is left of them when it resumes."""
        self.num_free += num_blocks
        if not self.caching or num_blocks == 0:
            return
        extent = Extent(None, num_blocks, job_id)
        self._own[job_id] = extent
        self._append(extent)

    def forget(self, job_id: int) -> None:
        """A preempted job was cancelled: what it left is plain space."""
        extent = self._own.pop(job_id, None)
        if extent is not None:
            extent.owner = -1

    def _append(self, extent: Extent) -> None:
        newest = self._newest
        extent.older, extent.newer = newest, None
        if newest is None:
            self._oldest = extent
        else:
            newest.newer = extent
        self._newest = extent

    def _unlink(self, extent: Extent) -> None:
        older, newer = extent.older, extent.newer
        if older is None:
            self._oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self._newest = older
        else:
            newer.older = older
        extent.older = extent.newer = None

"""KV blocks of one replica with vLLM's prefix cache, kept as runs instead of single blocks.

vLLM holds a free list of blocks, least recently used first; a freed block keeps its content, and its hash, until it is
handed out again. Here what moves through that list together is one entry: blocks that nobody can share are a number,
and successive prefix hashes that the same jobs use are one run, which loses hashes from its end, as their blocks stand
in the list, and is split where a prompt goes on otherwise. Blocks under one hash are kept or evicted whole. With one
hash a block this is vLLM's rule exactly; with coarser hashes (Mooncake's 512 tokens) it is that rule on their grain.
`tests/sim/blockcache.py` is the same hash by hash; a test holds them together.

Hashes are chained: who shares one with another prompt shares all before it, at the same places. So a run is found by
its first hash alone, and how far two prompts agree by bisection. They are kept as they come, as objects: numbers that
are only ever compared.
"""

from plimsoll.engine.blocks import agreement


class Extent:
    """Some blocks that live and die together; linked into the free list while nobody uses them.

    A run of prefix hashes is `hashes[start:end]`, whoever's prompt they were first; its blocks are `unit` a hash, and
    in the free list a few of an evicted hash may be left over. Not `shared`: nobody else can hit it.
    """

    def __init__(self, num_blocks: int, owner: int = -1) -> None:
        self.num_blocks = num_blocks
        self.owner = owner  # the preempted job that left it behind, while it can be found; -1: none
        self.shared = False
        self.loose = False  # goes on after a copy, so that it may outlive what comes before it
        self.hashes: tuple[object, ...] = ()
        self.start = self.end = self.unit = 0
        self.refs = 0
        self.rest: Extent | None = None  # what was split off its end while jobs used it, which hold both
        self.older: Extent | None = None
        self.newer: Extent | None = None


class KvCache:
    """The block pool of one replica. All counts are blocks, where they are not said to be hashes."""

    def __init__(self, num_blocks: int, caching: bool) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks  # unused ones, those with reusable content among them
        self.caching = caching
        self.told: list[tuple[bool, tuple[object, ...], int, int]] | None = None
        """What others can hit (True) or no longer: hashes from and up to a place. None: nobody listens."""
        self._cached: dict[object, Extent] = {}  # by their first hash
        self._num_loose = 0
        self._own: dict[int, Extent] = {}  # what preempted jobs left behind, by job
        self._oldest: Extent | None = None
        self._newest: Extent | None = None
        if caching:
            self._append(Extent(num_blocks))

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1; reusable content nobody uses counts as free, as in vLLM."""
        return 1.0 - self.num_free / self.num_blocks

    def match(self, hashes: tuple[object, ...], limit: int) -> list[Extent]:
        """The cached runs of the longest known prefix among the first `limit` hashes; nothing is taken yet."""
        found: list[Extent] = []
        place, stop = 0, min(limit, len(hashes))
        while place < stop:
            extent = self._cached.get(hashes[place])
            if extent is None or extent.start != place:
                break
            place = agreement(extent.hashes, hashes, place + 1, min(stop, extent.end))
            found.append(extent)
            if place < extent.end:
                self._split(extent, place)
        return found

    def left_behind(self, job_id: int) -> int:
        """Blocks of its own that a preempted job would find again."""
        extent = self._own.get(job_id)
        return extent.num_blocks if extent is not None else 0

    def take(self, extents: list[Extent]) -> None:
        """Use matched runs: they can no longer be evicted."""
        for extent in extents:
            if extent.refs == 0:
                whole = (extent.end - extent.start) * extent.unit
                if extent.num_blocks > whole:  # left over of a hash that was evicted: that stays
                    self._insert_before(Extent(extent.num_blocks - whole), extent)
                    extent.num_blocks = whole
                self._unlink(extent)
                self.num_free -= whole
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
            left = oldest.num_blocks - num
            if oldest.shared:
                self._shorten(oldest, left)
            if left > 0:
                oldest.num_blocks = left
                return
            num = -left
            self._unlink(oldest)
            if oldest.owner >= 0:
                del self._own[oldest.owner]

    def publish(self, hashes: tuple[object, ...], start: int, stop: int, unit: int, held: list[Extent]) -> None:
        """Let others hit blocks of a job under its hashes from `start` to `stop`, `unit` blocks each.

        `held` are its extents up to `start`, and then up to `stop`: runs, and copies that nobody hits of what is
        cached already.
        """
        last = held[-1] if held else None
        while start < stop:
            known = self._holding(hashes, start, last)
            if known is None:
                end = stop if self._num_loose == 0 else self._unknown_up_to(hashes, start + 1, stop)
            else:
                end = agreement(known.hashes, hashes, start + 1, min(stop, known.end))
            if known is None and self.told is not None:
                self.told.append((True, hashes, start, end))
            if last is not None and last.end == start and last.unit == unit and _goes_on(last, hashes, known is None):
                last.end = end
                last.num_blocks += (end - start) * unit
                last.rest = None
            else:
                after_copy = last is not None and not last.shared
                last = Extent((end - start) * unit)
                last.hashes, last.start, last.end, last.unit = hashes, start, end, unit
                last.refs = 1
                if known is None:
                    last.shared, last.loose = True, after_copy
                    self._num_loose += after_copy
                    self._cached[hashes[start]] = last
                held.append(last)
            start = end

    def free(self, extents: list[Extent], stop: int, num_private: int) -> None:
        """Give back `num_private` blocks and the extents of a job's first `stop` hashes: a prompt's tail is evicted
        before its head."""
        self.num_free += num_private
        if not self.caching:
            return
        if num_private > 0:
            self._append_plain(num_private)
        for index in range(len(extents) - 1, -1, -1):
            extent = extents[index]
            if extent.end < stop:
                self._give_back_parts(extent, stop)
            else:
                self._give_back(extent)
            stop = extent.start

    def leave(self, job_id: int, num_blocks: int) -> None:
        """Give back computed blocks of a job that was preempted, who finds what is left of them when it resumes."""
        self.num_free += num_blocks
        if not self.caching or num_blocks == 0:
            return
        extent = Extent(num_blocks, job_id)
        self._own[job_id] = extent
        self._append(extent)

    def forget(self, job_id: int) -> None:
        """A preempted job was cancelled: what it left is plain space."""
        extent = self._own.pop(job_id, None)
        if extent is not None:
            extent.owner = -1

    # Runs.

    def _holding(self, hashes: tuple[object, ...], place: int, last: Extent | None) -> Extent | None:
        """The run that the hash at a place is in; `last` is what a job holds up to there."""
        found = self._cached.get(hashes[place])
        if found is not None or last is None or last.shared:  # after a run it could only begin one
            return found
        first = place
        while found is None and first > 0:
            first -= 1
            found = self._cached.get(hashes[first])
        if found is None or found.end <= place or found.hashes[place] != hashes[place]:
            return None
        return found

    def _unknown_up_to(self, hashes: tuple[object, ...], place: int, stop: int) -> int:
        """Up to where a prompt's hashes are unknown, those before the place being so.

        Who uses a run uses what comes before it, and gives it back first: so only what was made after a copy can be
        cached where the hash before is not.
        """
        while place < stop and hashes[place] not in self._cached:
            place += 1
        return place

    def _split(self, extent: Extent, place: int) -> None:
        """Make two runs of one; its head keeps its name."""
        rest = Extent(extent.num_blocks - (place - extent.start) * extent.unit)
        rest.hashes, rest.start, rest.end, rest.unit = extent.hashes, place, extent.end, extent.unit
        rest.shared, rest.refs = True, extent.refs
        extent.num_blocks -= rest.num_blocks
        extent.end = place
        self._cached[extent.hashes[place]] = rest
        if extent.refs:
            rest.rest, extent.rest = extent.rest, rest
        else:
            self._insert_before(rest, extent)

    def _shorten(self, extent: Extent, left: int) -> None:
        """Evict hashes from the end of a run until so many blocks hold what is left; below 1 all of it."""
        whole = left // extent.unit if left > 0 else 0
        if self.told is not None and extent.start + whole < extent.end:
            self.told.append((False, extent.hashes, extent.start + whole, extent.end))
        if whole > 0:
            extent.end = min(extent.end, extent.start + whole)
            return
        del self._cached[extent.hashes[extent.start]]
        self._num_loose -= extent.loose
        extent.shared, extent.loose, extent.hashes = False, False, ()

    def _give_back(self, extent: Extent) -> None:
        extent.refs -= 1
        if extent.refs > 0:
            return
        self.num_free += extent.num_blocks
        if extent.shared:
            extent.rest = None
            self._append(extent)
        else:
            self._append_plain(extent.num_blocks)

    def _give_back_parts(self, extent: Extent, stop: int) -> None:
        """The same for one that was split since a job took it up to `stop`."""
        parts = [extent]
        while extent.end < stop and extent.rest is not None:
            extent = extent.rest
            parts.append(extent)
        for index in range(len(parts) - 1, -1, -1):
            self._give_back(parts[index])

    # The free list.

    def _append_plain(self, num_blocks: int) -> None:
        newest = self._newest
        if newest is not None and not newest.shared and newest.owner < 0:
            newest.num_blocks += num_blocks
        else:
            self._append(Extent(num_blocks))

    def _append(self, extent: Extent) -> None:
        newest = self._newest
        extent.older, extent.newer = newest, None
        if newest is None:
            self._oldest = extent
        else:
            newest.newer = extent
        self._newest = extent

    def _insert_before(self, extent: Extent, newer: Extent) -> None:
        older = newer.older
        extent.older, extent.newer = older, newer
        newer.older = extent
        if older is None:
            self._oldest = extent
        else:
            older.newer = extent

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


def reach(extents: list[Extent]) -> int:
    """How many hashes of a prompt its matched runs hold."""
    return extents[-1].end if extents else 0


def _goes_on(last: Extent, hashes: tuple[object, ...], fresh: bool) -> bool:
    """Whether the last extent of a job can take in what follows it: nobody else uses it."""
    return last.shared == fresh and last.refs == 1 and last.hashes is hashes

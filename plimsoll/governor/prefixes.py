"""Which replica holds which prompt prefix, approximately: from what was sent there, forgetting the oldest.

Hashes are chained (equal at i means equal up to the end of block i), so a search ends at the first unknown one. They
are kept as they come, as objects: 64-bit numbers that are only ever compared.
"""


class Holders:
    """Which replicas hold how much of one prompt's prefix: runs of blocks that the same replicas hold."""

    def __init__(self) -> None:
        self.masks: list[int] = []  # of each run …
        self.ends: list[int] = []  # … and the block behind its last
        self.num = 0  # blocks that anybody holds

    def held(self, bit: int) -> int:
        """Leading blocks held by that replica."""
        num = 0
        for run, mask in enumerate(self.masks):
            if not mask & bit:
                break
            num = self.ends[run]
        return num


class PrefixIndex:
    """Prefix hash → bit mask of replicas. Two generations make it least-recently-used within a factor of two: when
    the young one is full it becomes the old one, and the old one is forgotten."""

    def __init__(self, max_hashes: int) -> None:
        self._max = max(1, max_hashes // 2)
        self._young: dict[object, int] = {}
        self._old: dict[object, int] = {}

    def set_size(self, max_hashes: int) -> None:
        """Remember about so many hashes."""
        self._max = max(1, max_hashes // 2)

    def __len__(self) -> int:
        """Entries that are remembered."""
        return len(self._young) + len(self._old)

    def holders(self, hashes: tuple[object, ...]) -> Holders:
        """Who holds its blocks, up to the first that nobody holds."""
        found = Holders()
        young, old = self._young, self._old
        last = 0
        num = 0
        for block in hashes:
            mask = young.get(block, 0)
            if mask == 0:
                mask = old.get(block, 0)
                if mask == 0:
                    break
                young[block] = mask
            if mask != last:
                if num:
                    found.ends.append(num)
                found.masks.append(mask)
                last = mask
            num += 1
        if num:
            found.ends.append(num)
        found.num = num
        return found

    def sent(self, hashes: tuple[object, ...], known: Holders, bit: int) -> None:
        """The prompt goes to that replica, which will hold all of it; `known` is the answer of `holders`."""
        young = self._young
        start = 0
        for run, mask in enumerate(known.masks):
            end = known.ends[run]
            if not mask & bit:
                both = mask | bit
                for num in range(start, end):
                    young[hashes[num]] = both
            start = end
        for num in range(known.num, len(hashes)):
            young[hashes[num]] = bit
        if len(young) > self._max:
            self._old = young
            self._young = {}

    def forget(self, bit: int) -> None:
        """That replica lost its cache (it is down or gone)."""
        self._young = {block: mask & ~bit for block, mask in self._young.items() if mask & ~bit}
        self._old = {block: mask & ~bit for block, mask in self._old.items() if mask & ~bit}

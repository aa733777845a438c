"""Which replica holds which prompt prefix, approximately: from what was sent there, forgetting the oldest.

Hashes are chained (equal at i means equal up to the end of block i), so a search ends at the first unknown one. They
are kept as they come, as objects: 64-bit numbers that are only ever compared.
"""


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

    def holders(self, hashes: tuple[object, ...]) -> list[int]:
        """For each block the mask of the replicas that hold it; ends before the first that nobody holds."""
        masks: list[int] = []
        young, old = self._young, self._old
        for block in hashes:
            mask = young.get(block, 0)
            if mask == 0:
                mask = old.get(block, 0)
                if mask == 0:
                    break
                young[block] = mask
            masks.append(mask)
        return masks

    def sent(self, hashes: tuple[object, ...], masks: list[int], bit: int) -> None:
        """The prompt goes to that replica, which will hold all of it; `masks` is the answer of `holders`."""
        young = self._young
        num_known = len(masks)
        for num, block in enumerate(hashes):
            if num >= num_known:
                young[block] = bit
            elif not masks[num] & bit:
                young[block] = masks[num] | bit
        if len(young) > self._max:
            self._old = young
            self._young = {}

    def forget(self, bit: int) -> None:
        """That replica lost its cache (it is down or gone)."""
        self._young = {block: mask & ~bit for block, mask in self._young.items() if mask & ~bit}
        self._old = {block: mask & ~bit for block, mask in self._old.items() if mask & ~bit}


class Holders:
    """The answer of `holders`, narrowed: which replicas hold how many leading blocks, as few steps as there are."""

    def __init__(self, masks: list[int]) -> None:
        self.first = masks[0] if masks else 0  # replicas that hold anything of it
        self._steps: list[int] = []  # masks that get narrower …
        self._ends: list[int] = []  # … and up to how many blocks each holds
        alive = self.first
        for num, mask in enumerate(masks):
            narrowed = alive & mask
            if narrowed != alive:
                self._steps.append(alive)
                self._ends.append(num)
                alive = narrowed
        self._steps.append(alive)
        self._ends.append(len(masks))

    def held(self, bit: int) -> int:
        """Leading blocks held by that replica."""
        num = 0
        for step, mask in enumerate(self._steps):
            if not mask & bit:
                break
            num = self._ends[step]
        return num


def held_blocks(masks: list[int], bit: int) -> int:
    """Leading blocks held by that replica, from the answer of `holders`."""
    num = 0
    for mask in masks:
        if not mask & bit:
            break
        num += 1
    return num

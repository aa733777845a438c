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


def held_blocks(masks: list[int], bit: int) -> int:
    """Leading blocks held by that replica, from the answer of `holders`."""
    num = 0
    for mask in masks:
        if not mask & bit:
            break
        num += 1
    return num

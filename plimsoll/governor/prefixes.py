"""Which replica holds which prompt prefix, approximately: from what was sent there, forgetting the oldest."""


class PrefixIndex:
    """Prefix hash → bit mask of replicas. Two generations make it least-recently-used within a factor of two: when
    the young one is full it becomes the old one, and the old one is forgotten."""

    def __init__(self, max_hashes: int) -> None:
        self._max = max(1, max_hashes // 2)
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def set_size(self, max_hashes: int) -> None:
        """Remember about so many hashes."""
        self._max = max(1, max_hashes // 2)

    def holders(self, hashes: tuple[int, ...], replicas: int) -> list[int]:
        """For each i the mask of those of `replicas` that hold the first i + 1 blocks; ends where none does."""
        masks: list[int] = []
        for block in hashes:
            found = self._young.get(block, 0) | self._old.get(block, 0)
            replicas &= found
            if replicas == 0:
                break
            masks.append(replicas)
        return masks

    def sent(self, hashes: tuple[int, ...], bit: int) -> int:
        """The prompt goes to that replica, which will hold all of it; returns how many leading blocks it held."""
        num_held = 0
        held = True
        young = self._young
        for block in hashes:
            mask = young.get(block)
            if mask is None:
                mask = self._old.get(block, 0)
            elif mask & bit:
                num_held += held
                continue
            held = held and mask & bit != 0
            num_held += held
            young[block] = mask | bit
        if len(young) > self._max:
            self._old = young
            self._young = {}
        return num_held

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

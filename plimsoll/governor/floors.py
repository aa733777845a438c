"""What one replica holds for each lane (tier queue) in one kind of room: KV blocks, or slots for concurrent requests.

Where an engine has both, a lane's floor is held in both: many small requests of one tier can fill the slots long
before the blocks, and one of another tier would find its blocks free and no slot to use them.
"""


class Floors:
    """Floors and use by lane; `idle` is what the lanes leave unused of theirs, in all."""

    def __init__(self) -> None:
        self.floors: list[int] = []
        self.used: list[int] = []
        self.idle = 0

    def hold(self, floors: list[int], used: list[int]) -> None:
        """New floors, and what is used of them."""
        self.floors = floors
        self.used = used
        self.idle = sum([max(0, floor - taken) for floor, taken in zip(floors, used, strict=True)])

    def own(self, lane: int) -> int:
        """What the lane may still take of its own floor; negative where it is beyond it."""
        return self.floors[lane] - self.used[lane]

    def use(self, lane: int, num: int) -> None:
        """So much more is used by the lane; negative gives back."""
        floor = self.floors[lane]
        before = self.used[lane]
        after = before + num
        self.used[lane] = after
        if before < floor or after < floor:
            self.idle += max(0, floor - after) - max(0, floor - before)

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
        self.releases: dict[int, int] = {}  # by the time bucket in which they are predicted back

    def hold(self, floors: list[int], used: list[int]) -> None:
        """New floors, and what is used of them; predictions stay."""
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

    # --- when it comes back ----------------------------------------------------------------------------------------

    def expect_release(self, bucket: int, num: int) -> None:
        """So much is predicted back in that time bucket; negative takes a prediction away."""
        expected = self.releases.get(bucket, 0) + num
        if expected:
            self.releases[bucket] = expected
        else:
            self.releases.pop(bucket, None)

    def released_between(self, first: int, last: int) -> int:
        """What is predicted back in the time buckets from `first` to `last`."""
        releases = self.releases
        if not releases or last < first:
            return 0
        num = 0
        for bucket in range(first, last + 1):
            num += releases.get(bucket, 0)
        return num

    def back_by(self, lacking: int) -> int | None:
        """The time bucket by which so much is predicted back; None: not so much is predicted."""
        if lacking <= 0:
            return 0
        for bucket in sorted(self.releases):
            lacking -= self.releases[bucket]
            if lacking <= 0:
                return bucket
        return None

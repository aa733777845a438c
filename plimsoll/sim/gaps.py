"""The token gaps of one request that was preempted, counted on their own."""

from typing import Final

from plimsoll.slo.timing import POSITION_ENDS, bucket_of

NEAR: Final[int] = POSITION_ENDS[0]
MIDDLE: Final[int] = POSITION_ENDS[1]


class Gaps:
    """Gaps of one request, by position class; kept only for those that were preempted."""

    def __init__(self, num_thresholds: int) -> None:
        self.largest = 0.0
        self.bad = [0] * num_thresholds
        self.buckets: list[dict[int, int]] = [{}, {}, {}]

    def add(self, tokens: int, gap: float, thresholds: list[float]) -> None:
        """The gap that ended with output token number `tokens`."""
        buckets = self.buckets[class_of(tokens)]
        bucket = bucket_of(gap)
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.largest = max(self.largest, gap)
        for index, threshold in enumerate(thresholds):
            if gap > threshold:
                self.bad[index] += 1

    def add_all(self, position: int, counts: dict[int, int]) -> None:
        """Many gaps of one class, by bucket."""
        buckets = self.buckets[position]
        for bucket, num in counts.items():
            buckets[bucket] = buckets.get(bucket, 0) + num


def class_of(token: int) -> int:
    """Position class of an output token, the first being 1."""
    if token <= NEAR:
        return 0
    return 1 if token <= MIDDLE else 2

"""What is counted at each settlement, by tenant and tier: cheap to count, and cheap to tell where little has moved.

Times are kept in log buckets of 2^(1/32), as in the request log, and shown at every half octave.
"""

from itertools import accumulate
from typing import Final

from plimsoll.slo.timing import BUCKETS_PER_OCTAVE, bucket_of
from plimsoll.slo.verdict import Judgement, Verdict

_EXCLUDED: Final = Judgement.EXCLUDED
_CENSORED: Final = Judgement.CENSORED
STEP: Final = BUCKETS_PER_OCTAVE // 2
LOWEST: Final = -10 * BUCKETS_PER_OCTAVE  # 2^-10 s, about 1 ms
HIGHEST: Final = 9 * BUCKETS_PER_OCTAVE  # 512 s
BOUNDS: Final = tuple(f"{2 ** (index / BUCKETS_PER_OCTAVE):.10g}" for index in range(LOWEST, HIGHEST + 1, STEP))
_NUM_BOUNDS: Final = len(BOUNDS)
_BELOW: Final = LOWEST - STEP + 1  # the lowest bucket that the first bound does not hold, less one step


def edge_of(index: int) -> float:
    """Upper edge of a log bucket, s."""
    edge: float = 2.0 ** (index / BUCKETS_PER_OCTAVE)
    return edge


class Histogram:
    """Times in s of one kind, one tenant, one tier.

    A settlement counts into `fresh`, which a page takes up before it reads: sums by bound then cost what moved since
    the page before, however many buckets a long life has filled.
    """

    __slots__ = ("_by_bound", "buckets", "fresh", "moved", "num_taken", "num_zero", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}  # index i: (2^((i-1)/32), 2^(i/32)]; without what is fresh
        self.fresh: dict[int, int] = {}
        self.moved: dict[int, int] = {}  # what was fresh when it was taken up last
        self.num_taken = 0  # times that it was
        self.num_zero = 0
        self.total = 0.0
        self._by_bound = [0] * (_NUM_BOUNDS + 1)  # values at most a bound and above the one before; above the last

    def add(self, seconds: float) -> None:
        """One value."""
        self.total += seconds
        if seconds <= 0:
            self.num_zero += 1
            return
        index = bucket_of(seconds)
        self.fresh[index] = self.fresh.get(index, 0) + 1

    def merge(self, buckets: dict[int, int], num_zero: int) -> None:
        """Values counted elsewhere, in the same buckets. Their sum is for `take_up` to tell from the buckets' edges."""
        self.num_zero += num_zero
        mine = self.fresh
        for index, num in buckets.items():
            mine[index] = mine.get(index, 0) + num

    def take_up(self, *, merged: bool = False) -> None:
        """What is fresh becomes part of the rest; `merged` values' sum is at most 2.2 % too large."""
        self.moved, self.fresh = self.fresh, {}
        self.num_taken += 1
        buckets, by_bound = self.buckets, self._by_bound
        for index, num in self.moved.items():
            buckets[index] = buckets.get(index, 0) + num
            place = (index - _BELOW) // STEP  # the first bound at or above the bucket's upper edge
            if place < 0:
                place = 0
            elif place > _NUM_BOUNDS:
                place = _NUM_BOUNDS
            by_bound[place] += num
        if merged:
            self.total += sum([num * edge_of(index) for index, num in self.moved.items()])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, or only what is fresh."""
        return not self.buckets and not self.num_zero

    @property
    def num(self) -> int:
        """How many values, without what is fresh."""
        return sum(self._by_bound) + self.num_zero

    def cumulated(self) -> list[int]:
        """Counts up to each of `BOUNDS`, and of all; without what is fresh."""
        counts = list(accumulate(self._by_bound, initial=self.num_zero))
        del counts[0]
        return counts


VERDICTS: Final = ("bad", "censored", "excluded", "good")


class Verdicts:
    """What one objective said: requests, for token objectives tokens; what was not judged in requests."""

    __slots__ = ("bad", "censored", "excluded", "good")

    def __init__(self) -> None:
        self.good = self.bad = self.censored = self.excluded = 0

    def add(self, verdict: Verdict) -> None:
        """One request's."""
        judgement = verdict.judgement
        if judgement is _EXCLUDED:
            self.excluded += 1
        elif judgement is _CENSORED:
            self.censored += 1
        self.good += verdict.num_good
        self.bad += verdict.num_bad


class Owner:
    """What is counted of one tenant in one tier; `version` grows with whatever a page would show."""

    __slots__ = (
        "cached_tokens",
        "e2e",
        "endings",
        "itl",
        "output_tokens",
        "plugins",
        "prompt_tokens",
        "queued",
        "ttft",
        "verdicts",
        "version",
    )

    def __init__(self) -> None:
        self.endings: dict[tuple[str, str], int] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.ttft, self.itl, self.e2e, self.queued = Histogram(), Histogram(), Histogram(), Histogram()
        self.plugins = Histogram()
        self.prompt_tokens = self.output_tokens = self.cached_tokens = 0
        self.version = 0

    def objective(self, name: str) -> Verdicts:
        """What was said for that objective; from its first mention on there are zeros, so that rates see the first."""
        found = self.verdicts.get(name)
        if found is None:
            found = self.verdicts[name] = Verdicts()
            self.version += 1
        return found

    def take_up(self) -> None:
        """See `Histogram`: of all."""
        self.ttft.take_up()
        self.itl.take_up(merged=True)
        self.e2e.take_up()
        self.queued.take_up()
        self.plugins.take_up()

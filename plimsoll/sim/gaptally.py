"""Token gaps counted once for all who decode in the same steps, whatever their number.

In a step every decoding sequence waits as long as every other, so the gaps of a request are the durations of the steps
in which it decoded. A replica counts each step once, in the buckets and against the thresholds of `slo/timing`; what a
request saw is the count when it ends less the count when it began, also where it passed into another position class.
That is what makes the cost of a request independent of its length and of its neighbours. Equal to a `TokenClock` fed
with the runs of `steplog.py` (a test holds them together).
"""

from math import ceil, inf, log
from typing import Final, cast

from plimsoll.sim import bound
from plimsoll.sim.gaps import MIDDLE, NEAR, Gaps, class_of
from plimsoll.sim.job import DECODE, Job
from plimsoll.sim.steplog import PRUNE_AT, StepLog
from plimsoll.slo.measured import ItlSketch, Timing, TokenRun
from plimsoll.slo.timing import bucket_of, end_of_bucket, num_above

_EMPTY: Final = ItlSketch()
_NOTHING: Final = (_EMPTY, _EMPTY, _EMPTY)
_NO_BAD: Final[tuple[int, ...]] = ()
_UNMARKED: Final[list[list[object]]] = [[]]  # of jobs that decode where no buckets are counted
_LOWEST: Final = -512  # 15 µs
_HIGHEST: Final = 64  # 4 s
_PER_E: Final = 46.16624130844683  # 32 / ln 2
_SURE: Final = 1e-9  # of a bucket: far more than rounding makes
_FEW: Final = 64  # so many buckets cost little to copy


class GapTally(StepLog):
    """The steps of one replica, counted; `thresholds` are all that any tier's ITL objectives know.

    Without `sketches` only gaps above thresholds and the longest are known, for those who look at nothing else.
    """

    def __init__(self, thresholds: list[float], sketches: bool = True) -> None:
        super().__init__()
        self.thresholds = thresholds
        self._sketched = sketches
        self._lowest = min(thresholds, default=inf)
        self._bad = [0] * len(
            thresholds
        )  # gaps above each threshold; replaced, never changed, so that it can be shared
        # Gaps of each bucket that was met; as objects, so that what did not change between two snapshots is told by
        # identity, and buckets need not be made into objects anew.
        self._counts: list[object] = []
        self._buckets: list[object] = []  # which bucket each of them counts
        self._dense = [-1] * (_HIGHEST - _LOWEST)  # the other way, for usual buckets …
        self._places: dict[int, int] = {}  # … and all others
        self._peak_steps: list[int] = []  # last steps of runs that none later exceeds …
        self._peaks: list[float] = []  # … and their largest gaps, falling
        self._splits: list[tuple[int, int, Job]] = []  # step, order, job: where one passes into the next class

    @property
    def is_long(self) -> bool:
        """Whether it is time to prune."""
        return len(self._peaks) >= self._prune_at

    def prune(self, before: int) -> None:
        """Nobody will ask for steps up to `before` any more."""
        keep = bound.BISECT_RIGHT(self._peak_steps, before)
        del self._peak_steps[:keep]
        del self._peaks[:keep]
        self._prune_at = max(PRUNE_AT, 2 * len(self._peaks))

    def add(self, first: int, start_at: float, gap: float, growth: float, num: int, *, extends: bool) -> None:
        """`num` steps from number `first` on have ended; durations `gap`, `gap + growth` …"""
        largest = gap + growth * (num - 1) if growth > 0.0 else gap
        if self._sketched or largest > self._lowest:
            self._count_all(first, gap, growth, num)
        peaks, steps = self._peaks, self._peak_steps
        if not peaks or peaks[-1] > largest:
            peaks.append(largest)
            steps.append(first + num - 1)
            return
        while len(peaks) > 1 and peaks[-2] <= largest:
            peaks.pop()
            steps.pop()
        peaks[-1], steps[-1] = largest, first + num - 1  # in its place: a list that empties gives its memory back

    def _count_all(self, first: int, gap: float, growth: float, num: int) -> None:
        """Count steps, and note what was counted where jobs pass into another class."""
        begin, splits = 0, self._splits
        while splits and splits[0][0] < first + num:
            step, order, job = bound.POP(splits)
            if job.state != DECODE or job.order != order:
                continue
            self._count(gap, growth, begin, step - first + 1)
            begin = step - first + 1
            job.marks.append(self._counts.copy())
        self._count(gap, growth, begin, num)

    def rest(self) -> None:
        """Nobody is here: nothing that was counted will be asked for."""
        self._peak_steps, self._peaks, self._splits = [], [], []
        if len(self._counts) > _FEW:
            self._counts, self._places, self._buckets = [], {}, []
            self._dense = [-1] * (_HIGHEST - _LOWEST)

    def begin(self, job: Job) -> None:
        """A job decodes from the next step on; `since`, `generated` and `order` are set."""
        job.bad_before = self._bad
        if not self._sketched:
            job.marks = _UNMARKED
            return
        job.marks = [self._counts.copy()]
        done = job.generated
        job.position = class_of(done + 1)
        if done < NEAR < job.output_tokens:
            bound.PUSH(self._splits, (job.since + NEAR - done, job.order, job))
        if done < MIDDLE < job.output_tokens:
            bound.PUSH(self._splits, (job.since + MIDDLE - done, job.order, job))

    def interrupted(self, job: Job, upto: int) -> None:
        """A decoding job was preempted."""
        gaps = self._gaps_of(job)
        self._sum(job, gaps)
        job.marks = []

    def resumed(self, job: Job, gap: float) -> None:
        """Its next token came, `gap` s after the one before; it is counted in `generated`."""
        self._gaps_of(job).add(job.generated, gap, self.thresholds)

    def finished(self, job: Job) -> None:
        """Its last token came: note what its client saw before the count goes on."""
        if job.output_tokens:
            job.timing = self.timing(job, job.output_tokens, job.last_token_at)

    def runs(self, after: int, upto: int, into: list[TokenRun]) -> None:
        """Not known here: steps are counted, not kept."""
        raise NotImplementedError("a tally tells timings, not runs")

    def timing(self, job: Job, tokens: int, last_token_at: float) -> Timing:
        """What a client saw of a job's `tokens` (> 0) output tokens up to the last step that ended."""
        if job.gaps is not None:
            return self._timing_of_preempted(job, job.gaps, tokens, last_token_at)
        marks, chosen = job.marks, job.thresholds
        largest, bad, sketches = 0.0, _NO_BAD, _NOTHING
        if chosen:
            before = job.bad_before if marks else self._bad
            bad = tuple([self._bad[index] - before[index] for index in chosen])
        if marks:
            largest = self._largest_after(job.since)
            sketches = self._sketches(marks) if self._sketched else bound.UNCOUNTED
        return bound.TIMING(job.first_token_at, last_token_at, tokens, largest, sketches, bad, 0.0, tokens - 1)

    def _sketches(self, marks: list[list[object]]) -> tuple[ItlSketch, ItlSketch, ItlSketch]:
        """Of one that was never preempted, so that it began in the first class."""
        counts, num = self._counts, len(marks)
        near = bound.ITL_SKETCH(0, self._between(marks[0], marks[1] if num > 1 else counts))
        if num == 1:
            return near, _EMPTY, _EMPTY
        middle = bound.ITL_SKETCH(0, self._between(marks[1], marks[2] if num > 2 else counts))
        return near, middle, _EMPTY if num == 2 else bound.ITL_SKETCH(0, self._between(marks[2], counts))

    def _timing_of_preempted(self, job: Job, gaps: Gaps, tokens: int, last_token_at: float) -> Timing:
        total = Gaps(len(self._bad))
        total.largest, total.bad = gaps.largest, gaps.bad.copy()
        total.buckets = [gaps.buckets[0].copy(), gaps.buckets[1].copy(), gaps.buckets[2].copy()]
        self._sum(job, total)
        sketches = bound.UNCOUNTED
        if self._sketched:
            near, middle, far = total.buckets
            sketches = (bound.ITL_SKETCH(0, near), bound.ITL_SKETCH(0, middle), bound.ITL_SKETCH(0, far))
        bad = tuple([total.bad[index] for index in job.thresholds])
        return bound.TIMING(job.first_token_at, last_token_at, tokens, total.largest, sketches, bad, 0.0, tokens - 1)

    def _gaps_of(self, job: Job) -> Gaps:
        gaps = job.gaps
        if gaps is None:
            gaps = job.gaps = Gaps(len(self._bad))
        return gaps

    def _sum(self, job: Job, into: Gaps) -> None:
        """Add what a job saw since it decodes."""
        marks = job.marks
        if not marks:
            return
        for number in range(len(marks)):
            until = marks[number + 1] if number + 1 < len(marks) else self._counts
            into.add_all(job.position + number, self._between(marks[number], until))
        for index, num in enumerate(self._bad):
            into.bad[index] += num - job.bad_before[index]
        into.largest = max(into.largest, self._largest_after(job.since))

    def _between(self, before: list[object], after: list[object]) -> dict[int, int]:
        """Counts by bucket of the steps between two snapshots."""
        found: dict[object, object] = {}
        for place, old in enumerate(before):  # `after` may have met more of them
            count = after[place]
            if count is not old:  # snapshots share what did not change
                found[self._buckets[place]] = cast("int", count) - cast("int", old)
        for place in range(len(before), len(after)):
            found[self._buckets[place]] = after[place]
        return cast("dict[int, int]", found)

    def _largest_after(self, step: int) -> float:
        """The longest step after that one; 0.0 where none has ended."""
        index = bound.BISECT_RIGHT(self._peak_steps, step)
        return self._peaks[index] if index < len(self._peaks) else 0.0

    # Counting.

    def _count(self, first: float, growth: float, begin: int, end: int) -> None:
        """Gaps `first + j × growth` for j from `begin` to `end − 1`."""
        if begin >= end:
            return
        at = begin
        gap = first + begin * growth
        last = first + (end - 1) * growth
        if gap > self._lowest or last > self._lowest:
            self._bad = [
                num + num_above(first, growth, begin, end, self.thresholds[index])
                for index, num in enumerate(self._bad)
            ]
        if not self._sketched:
            return
        bucket, last_bucket = _bucket_of(gap), _bucket_of(last) if end > begin + 1 else 0
        while at < end:
            stop = end if end == begin + 1 or bucket == last_bucket else end_of_bucket(first, growth, at, end, bucket)
            place = self._place_of(bucket)
            self._counts[place] = cast("int", self._counts[place]) + stop - at
            at = stop
            if at < end:
                bucket = _bucket_of(first + at * growth)

    def _place_of(self, bucket: int) -> int:
        """Where a bucket is counted."""
        dense = _LOWEST <= bucket < _HIGHEST
        place = self._dense[bucket - _LOWEST] if dense else self._places.get(bucket, -1)
        if place < 0:
            place = len(self._counts)
            self._counts.append(0)
            self._buckets.append(bucket)
            if dense:
                self._dense[bucket - _LOWEST] = place
            else:
                self._places[bucket] = place
        return place


def _bucket_of(gap: float) -> int:
    """As `slo/timing` says; where it is sure by the natural logarithm, for which compiled code need not call Python."""
    exact = log(gap) * _PER_E
    bucket = ceil(exact)
    if _SURE < bucket - exact < 1.0 - _SURE:
        return bucket
    return bucket_of(gap)


def all_thresholds(by_tier: list[tuple[float, ...]]) -> list[float]:
    """Every threshold of any tier, once, in order."""
    return sorted({threshold for thresholds in by_tier for threshold in thresholds})

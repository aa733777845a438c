"""Token instants of one request, counted in the hands: the same object live and simulated.

Called once per streamed event, so every line of `TokenClock.tokens` is paid millions of times a minute.
"""

from math import ceil, floor, log2
from typing import Final

from plimsoll.slo.measured import ItlSketch, Timing, TokenRun

__all__ = ["BUCKETS_PER_OCTAVE", "POSITION_ENDS", "ItlSketch", "Timing", "TokenClock", "TokenRun", "bucket_of"]

BUCKETS_PER_OCTAVE: Final = 32
"""gamma = 2^(1/32): Prometheus native histograms of schema 5, OTel exponential histograms of scale 5."""

POSITION_ENDS: Final = (128, 1024)
"""Last token position of the first two classes; the third has no end."""

_NO_END: Final = 1 << 62


def bucket_of(value: float) -> int:
    """The log bucket of a value > 0: the smallest i with value <= gamma^i (Prometheus's index; OTel's is one less)."""
    return ceil(log2(value) * 32.0)


class TokenClock:
    """Counts one request's output tokens and the gaps between them, in seconds on the caller's clock.

    A gap above a threshold is bad; k tokens read at one instant are one gap and k − 1 zeros; a clock that steps
    back counts as no gap. Time during which the client held us back is taken off the gap it caused.
    """

    def __init__(self, itl_thresholds: tuple[float, ...] = ()) -> None:
        self.num_tokens: int = 0
        self.first_token_at: float = 0.0
        self.last_token_at: float = 0.0
        self.client_stall: float = 0.0
        self.itl_max: float = 0.0
        self._thresholds: tuple[float, ...] = itl_thresholds
        self._lowest: float = min(itl_thresholds) if itl_thresholds else float("inf")
        self._bad: list[int] = [0] * len(itl_thresholds)
        self._pending_stall: float = 0.0
        self._stall_before: float = 0.0
        self._stall_between: float = 0.0
        self._zeros: list[int] = [0, 0, 0]
        self._all: list[dict[int, int]] = [{}, {}, {}]
        self._class: int = 0
        self._class_end: int = POSITION_ENDS[0]
        self._buckets: dict[int, int] = self._all[0]

    def tokens(self, at: float, num: int) -> None:
        """`num` output tokens (> 0) were read at one instant."""
        if self.num_tokens == 0:
            self.first_token_at = at
            self.num_tokens = 1
        else:
            gap = at - self.last_token_at
            if self._pending_stall != 0.0:
                gap -= self._pending_stall
                self._stall_between += self._pending_stall
                self._pending_stall = 0.0
            self.add_gap(gap)
        self.last_token_at = at
        if num > 1:
            self._add_zeros(num - 1)

    def add_gap(self, gap: float) -> None:
        """One further token came `gap` s after the one before; the instants are the caller's to keep."""
        self.num_tokens += 1
        if self.num_tokens > self._class_end:
            self._next_class()
        if gap <= 0.0:
            self._zeros[self._class] += 1
            return
        index = ceil(log2(gap) * 32.0)
        buckets = self._buckets
        buckets[index] = buckets.get(index, 0) + 1
        if gap > self.itl_max:  # noqa: PLR1730 - max() costs twice as much, and this is paid per token
            self.itl_max = gap
        if gap > self._lowest:
            self._add_bad(gap, 1)

    def run(self, run: TokenRun) -> None:
        """A jump: `run.num` tokens with gaps in arithmetic progression, in time that grows with the buckets touched.

        Equal to `add_gap(first_gap + j × increment)` for each j. Where no token came before, the first gap's end
        is the first token.
        """
        done = 0
        if run.num > 0 and self.num_tokens == 0:
            self.first_token_at = run.start_at + run.first_gap
            self.num_tokens = 1
            done = 1
        while done < run.num:
            if self.num_tokens >= self._class_end:
                self._next_class()
            end = min(run.num, done + self._class_end - self.num_tokens)
            self._add_span(run.first_gap, run.increment, done, end)
            self.num_tokens += end - done
            done = end
        if run.num > 0:
            sum_of_steps = run.num * (run.num - 1) / 2.0
            self.last_token_at = run.start_at + run.num * run.first_gap + run.increment * sum_of_steps

    def stall(self, seconds: float) -> None:
        """The client held us back for that long since the last token."""
        self.client_stall += seconds
        if self.num_tokens:
            self._pending_stall += seconds
        else:
            self._stall_before += seconds

    def finish(self, output_tokens: int | None) -> Timing:
        """What was measured. `output_tokens` is usage's count: a surplus over what was seen came with no gap.

        Without any token seen (an answer that was not streamed) the count is taken and no gaps are made up.
        """
        if output_tokens is not None and 0 < self.num_tokens < output_tokens:
            self._add_zeros(output_tokens - self.num_tokens)
        near, middle, far = self._all
        zeros = self._zeros
        return Timing(
            self.first_token_at,
            self.last_token_at,
            self.num_tokens if output_tokens is None else output_tokens,
            self.itl_max,
            (ItlSketch(zeros[0], near), ItlSketch(zeros[1], middle), ItlSketch(zeros[2], far)),
            tuple(self._bad),
            self.client_stall,
            self.num_tokens - 1 if self.num_tokens > 0 else 0,
            self._stall_before,
            self._stall_between,
        )

    def _add_zeros(self, num: int) -> None:
        while num > 0:
            if self.num_tokens >= self._class_end:
                self._next_class()
            here = min(num, self._class_end - self.num_tokens)
            self._zeros[self._class] += here
            self.num_tokens += here
            num -= here

    def _next_class(self) -> None:
        self._class += 1
        self._class_end = POSITION_ENDS[self._class] if self._class < len(POSITION_ENDS) else _NO_END
        self._buckets = self._all[self._class]

    def _add_bad(self, gap: float, num: int) -> None:
        for i, threshold in enumerate(self._thresholds):
            if gap > threshold:
                self._bad[i] += num

    def _add_span(self, first: float, step: float, begin: int, end: int) -> None:
        """Gaps begin … end − 1 of a run, all in one position class, bucket by bucket."""
        at = begin
        while at < end:
            gap = first + at * step
            if gap <= 0.0:
                stop = _end_of_zeros(first, step, at, end)
                self._zeros[self._class] += stop - at
            else:
                index = ceil(log2(gap) * 32.0)
                stop = end_of_bucket(first, step, at, end, index)
                self._buckets[index] = self._buckets.get(index, 0) + stop - at
                self.itl_max = max(self.itl_max, gap, first + (stop - 1) * step)
            at = stop
        for i, threshold in enumerate(self._thresholds):
            self._bad[i] += num_above(first, step, begin, end, threshold)


def end_of_bucket(first: float, step: float, at: int, end: int, index: int) -> int:
    """The first j > at whose gap lies in another bucket. The division finds it, the bucket function decides."""
    if step == 0.0:
        return end
    edge: float = 2.0 ** (index / 32.0) if step > 0.0 else 2.0 ** ((index - 1) / 32.0)
    j = _clamp((edge - first) / step, at + 1, end)
    while j < end and _same_bucket(first + j * step, index):
        j += 1
    while j - 1 > at and not _same_bucket(first + (j - 1) * step, index):
        j -= 1
    return j


def _same_bucket(gap: float, index: int) -> bool:
    return gap > 0.0 and ceil(log2(gap) * 32.0) == index


def _end_of_zeros(first: float, step: float, at: int, end: int) -> int:
    if step <= 0.0:
        return end
    j = _clamp(-first / step, at + 1, end)
    while j < end and first + j * step <= 0.0:
        j += 1
    while j - 1 > at and first + (j - 1) * step > 0.0:
        j -= 1
    return j


def num_above(first: float, step: float, begin: int, end: int, threshold: float) -> int:
    """How many of the gaps begin … end − 1 exceed the threshold."""
    if step == 0.0:
        return end - begin if first > threshold else 0
    j = _clamp((threshold - first) / step, begin, end)
    rising = step > 0.0
    # j becomes the first index on the far side of the threshold in the direction of the run
    while j < end and (first + j * step > threshold) != rising:
        j += 1
    while j > begin and (first + (j - 1) * step > threshold) == rising:
        j -= 1
    return end - j if rising else j - begin


def _clamp(quotient: float, low: int, high: int) -> int:
    if quotient <= low:
        return low
    if quotient >= high:
        return high
    return floor(quotient)

"""The steps of a busy replica in run-length form, so that a job's token gaps can be told when it ends.

`gaptally.py` keeps them otherwise, for those who do not ask for runs: it overrides all that is here.
"""

from bisect import bisect_right
from typing import Final

from plimsoll.sim.job import Job
from plimsoll.slo.measured import Timing, TokenRun
from plimsoll.slo.timing import TokenClock

PRUNE_AT: Final = 4096  # entries


class StepLog:
    """Runs of steps: number of the first, instant at which it began, its duration, growth a step, how many."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._start: list[float] = []
        self._gap: list[float] = []
        self._growth: list[float] = []
        self._num: list[int] = []
        self._prune_at = PRUNE_AT

    def add(self, first: int, start_at: float, gap: float, growth: float, num: int, *, extends: bool) -> None:
        """`num` steps from number `first` on have ended, which follow all those told before.

        `extends` says that they go on with the last run, its batch being unchanged.
        """
        if extends:
            self._num[-1] += num
            return
        self._first.append(first)
        self._start.append(start_at)
        self._gap.append(gap)
        self._growth.append(growth)
        self._num.append(num)

    def begin(self, job: Job) -> None:
        """A job decodes from the next step on; its `since`, `generated` and `order` are set."""

    def interrupted(self, job: Job, upto: int) -> None:
        """A decoding job was preempted after step `upto`; its `since` still stands."""
        self.runs(job.since, upto, job.earlier)

    def resumed(self, job: Job, gap: float) -> None:
        """Its next token came, `gap` s after the one before; it is counted in `generated`."""
        job.earlier.append(TokenRun(job.last_token_at, gap, 0.0, 1))

    def finished(self, job: Job) -> None:
        """Its last token came with the step that has just ended."""

    def rest(self) -> None:
        """Nobody is here."""

    def timing(self, job: Job, tokens: int, last_token_at: float) -> Timing:
        """What a client saw of a job's `tokens` (> 0) output tokens, up to the last step that ended."""
        clock = TokenClock()
        clock.tokens(job.first_token_at, 1)
        runs = list(job.earlier)
        if job.since and tokens > job.generated:
            self.runs(job.since, job.since + tokens - job.generated, runs)
        for run in runs:
            clock.run(run)
        return clock.finish(tokens)

    def runs(self, after: int, upto: int, into: list[TokenRun]) -> None:
        """Append the runs of steps (after, upto] to `into`."""
        number = after + 1
        index = bisect_right(self._first, number) - 1
        while number <= upto:
            first, gap, growth = self._first[index], self._gap[index], self._growth[index]
            skipped = number - first
            num = min(first + self._num[index] - 1, upto) - number + 1
            start = self._start[index]
            if skipped:
                start += skipped * gap + growth * (skipped * (skipped - 1) / 2)
            into.append(TokenRun(start, gap + growth * skipped, growth, num))
            number += num
            index += 1

    @property
    def is_long(self) -> bool:
        """Whether it is time to prune."""
        return len(self._first) >= self._prune_at

    def prune(self, before: int) -> None:
        """Forget runs that ended before step `before`."""
        keep = max(0, bisect_right(self._first, before) - 1)
        for column in (self._first, self._start, self._gap, self._growth, self._num):
            del column[:keep]
        self._prune_at = max(PRUNE_AT, 2 * len(self._first))  # a long job holds the log: do not ask at every step

"""The steps of a busy replica in run-length form, so that a job's token gaps can be told when it ends."""

from bisect import bisect_right

from plimsoll.slo.timing import TokenRun

_PRUNE_AT = 4096  # entries


class StepLog:
    """Runs of steps: number of the first, instant at which it began, its duration, growth a step, how many."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._start: list[float] = []
        self._gap: list[float] = []
        self._growth: list[float] = []
        self._num: list[int] = []
        self._prune_at = _PRUNE_AT

    def add(self, first: int, start_at: float, gap: float, growth: float, num: int) -> None:
        """`num` steps from number `first` on, which follow all those told before."""
        self._first.append(first)
        self._start.append(start_at)
        self._gap.append(gap)
        self._growth.append(growth)
        self._num.append(num)

    def extend(self, num: int) -> None:
        """`num` more steps of the last run: its batch went on unchanged."""
        self._num[-1] += num

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
        self._prune_at = max(_PRUNE_AT, 2 * len(self._first))  # a long job holds the log: do not ask at every step

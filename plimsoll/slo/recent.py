"""What was judged lately, kept by the minute as running sums, so that any window is the difference of two.

Beside good and bad, sums of squares over requests are kept: they say how much the tokens of one request resemble each
other, without keeping the requests.
"""

from bisect import bisect_right
from math import ceil, floor
from typing import Final, NamedTuple

MINUTE: Final = 60


class Counts(NamedTuple):
    """Sums over requests with a verdict, of bad events `b` and judged events `n` of each."""

    num_bad: int = 0
    num_judged: int = 0
    num_bad_requests: int = 0  # with b > 0
    num_requests: int = 0
    bad_squared: int = 0  # Σ b²
    crossed: int = 0  # Σ b n
    judged_squared: int = 0  # Σ n²

    def with_request(self, num_bad: int, num_judged: int) -> "Counts":
        """These and one more request."""
        return Counts(
            self.num_bad + num_bad,
            self.num_judged + num_judged,
            self.num_bad_requests + (num_bad > 0),
            self.num_requests + 1,
            self.bad_squared + num_bad * num_bad,
            self.crossed + num_bad * num_judged,
            self.judged_squared + num_judged * num_judged,
        )

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def less(self, other: "Counts") -> "Counts":
        """These without the other's, which are among them."""
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def as_independent(self) -> tuple[int, int]:
        """(bad, judged) of so many independent events as the bad ratio is known by; rounded so that less is sure.

        The variance of a ratio over requests drawn whole, which a request-clustered bootstrap converges to, is that
        of so many independent events (Korn and Graubard, 1998). For requests that are one event each nothing changes.
        """
        if self.judged_squared == self.num_judged:
            return self.num_bad, self.num_judged
        if self.num_requests == 1 or self.num_bad in {0, self.num_judged}:
            return self.num_bad_requests, self.num_requests
        ratio = self.num_bad / self.num_judged
        spread = self.bad_squared - 2 * ratio * self.crossed + ratio * ratio * self.judged_squared
        spread *= self.num_requests / (self.num_requests - 1)
        chance = self.num_judged * ratio * (1 - ratio)
        num = self.num_judged * chance / max(spread, chance)
        return floor(num * ratio), ceil(num)


NOTHING: Final = Counts()


class Recent:
    """One objective of one tenant over its longest window, by the minute in which requests ended."""

    def __init__(self, keep: float) -> None:
        """`keep` in s: nothing older will be asked for."""
        self._keep = int(keep // MINUTE) + 2
        self._minutes: list[int] = []
        self._sums: list[Counts] = []  # by the end of each of these minutes, from the beginning

    def add(self, at: float, counts: Counts) -> None:
        """What ended at `at` (UTC epoch s). What comes late counts for the minute that is open."""
        minute = int(at // MINUTE)
        if not self._minutes or minute > self._minutes[-1]:
            self._minutes.append(minute)
            self._sums.append((self._sums[-1] if self._sums else NOTHING).plus(counts))
            if self._minutes[0] < minute - 2 * self._keep:
                self._forget(minute - self._keep)
        else:
            self._sums[-1] = self._sums[-1].plus(counts)

    def window(self, until: float, seconds: float) -> Counts:
        """What ended in the `seconds` before `until`, to the minute."""
        end = int(until // MINUTE)
        return self._until(end).less(self._until(end - ceil(seconds / MINUTE)))

    def _until(self, minute: int) -> Counts:
        """By the end of that minute; before the first there is nothing."""
        place = bisect_right(self._minutes, minute)
        return self._sums[place - 1] if place else NOTHING

    def _forget(self, before: int) -> None:
        """The last minute before is kept: it is what later sums start from."""
        place = max(0, bisect_right(self._minutes, before) - 1)
        del self._minutes[:place], self._sums[:place]

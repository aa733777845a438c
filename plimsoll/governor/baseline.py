"""What is usual for a request like this: medians over seven days, before that the engine profile's word.

Like means: same pool (one Baseline each), same prompt-length class (powers of two), cache hit or miss.
"""

from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import unloaded_tpot, unloaded_ttft
from plimsoll.governor.estimates import Histogram

AT_LEAST: Final = 100
DAY: Final = 86_400.0
DAYS: Final = 7

OBSERVED: Final = "median"
PREDICTED: Final = "profile"
UNKNOWN: Final = ""


class Usual:
    """The medians of one class of requests."""

    def __init__(self) -> None:
        self.ttft = Histogram(AT_LEAST, num_windows=DAYS)
        self.tpot = Histogram(AT_LEAST, num_windows=DAYS)
        self.median_ttft = self.ttft.follow(1, 2)
        self.median_tpot = self.tpot.follow(1, 2)
        self.day = 0.0
        self.predicted_ttft = 0.0  # s, 0: not asked yet
        self.predicted_tpot = 0.0

    def at_day(self, day: float) -> None:
        """Forget what is older than seven days."""
        if self.day == 0.0:
            self.day = day
        while self.day < day and self.ttft.num + self.tpot.num > 0:
            self.ttft.roll()
            self.tpot.roll()
            self.day += 1.0
        self.day = max(self.day, day)


class Baseline:
    """The classes of one pool."""

    def __init__(self, profile: EngineProfile | None) -> None:
        self.profile = profile
        self._classes: dict[int, Usual] = {}

    def add(self, at: float, prompt_tokens: int, cached_tokens: int, ttft: float, tpot: float) -> None:
        """A request was served: its own times in s; a tpot of 0 is not known."""
        usual = self._class(at, prompt_tokens, cached_tokens)
        usual.ttft.add(ttft)
        if tpot > 0.0:
            usual.tpot.add(tpot)

    def of(self, at: float, prompt_tokens: int, cached_tokens: int) -> tuple[float | None, float | None, str]:
        """Usual TTFT and TPOT in s (None: not known), and where they are from: `median`, `profile` or nothing."""
        usual = self._class(at, prompt_tokens, cached_tokens)
        ttft = usual.median_ttft.middle()
        if ttft is not None:
            tpot = usual.median_tpot.middle()
            return ttft, self._predicted(usual, prompt_tokens, cached_tokens)[1] if tpot is None else tpot, OBSERVED
        if self.profile is None:
            return None, None, UNKNOWN
        ttft, tpot = self._predicted(usual, prompt_tokens, cached_tokens)
        return ttft, tpot, PREDICTED

    def unloaded_ttft(self, prompt_tokens: int) -> float | None:
        """What an idle replica would need to the first token; None where there is no profile."""
        return None if self.profile is None else unloaded_ttft(self.profile, prompt_tokens)

    def _predicted(self, usual: Usual, prompt_tokens: int, cached_tokens: int) -> tuple[float | None, float | None]:
        if self.profile is None:
            return None, None
        if usual.predicted_ttft == 0.0:  # once a class: the first of its members speaks for it
            usual.predicted_ttft = unloaded_ttft(self.profile, prompt_tokens, cached_tokens)
            usual.predicted_tpot = unloaded_tpot(self.profile, max(1, prompt_tokens))
        return usual.predicted_ttft, usual.predicted_tpot

    def _class(self, at: float, prompt_tokens: int, cached_tokens: int) -> Usual:
        key = 2 * prompt_tokens.bit_length() + (cached_tokens > 0)
        usual = self._classes.get(key)
        if usual is None:
            usual = self._classes[key] = Usual()
        day = at // DAY
        if usual.day != day:
            usual.at_day(day)
        return usual

"""How long prompts take to be computed, where nobody sees a first token: an answer in one piece has none.

Without this a lower tier could pile up such prompts inside an engine, and the highest tier would stand behind them.
"""

from typing import Final

from plimsoll.governor.estimates import Histogram

AT_LEAST: Final = 20
SAMPLED: Final = 7  # one in eight first tokens is learnt from: the pace of an engine changes slowly


class PromptPace:
    """Seconds a prompt token by the best that is known: what streams showed (median, with what was ahead of them), else
    the engine profile, else how fast whole answers came at best (first decile: a bound on what their prompts took).
    Before any of it None: such a prompt then counts until its request ends."""

    def __init__(self) -> None:
        self.profile_time = 0.0  # s; 0: no profile
        self._streamed = Histogram(AT_LEAST, 1000)
        self._median = self._streamed.follow(1, 2)
        self._whole = Histogram(AT_LEAST, 1000)
        self._fastest = self._whole.follow(1, 10)

    def token_time(self) -> float | None:
        """Seconds a prompt token."""
        seen = self._median.middle()
        if seen is not None:
            return seen
        return self.profile_time if self.profile_time > 0.0 else self._fastest.upper()

    def streamed(self, seconds: float, tokens: int) -> None:
        """So long after its dispatch a first token came; `tokens` is its prompt and what was to be computed before."""
        self._streamed.add(seconds / max(1, tokens))

    def came_whole(self, seconds: float, tokens: int) -> None:
        """So long after its dispatch a whole answer came."""
        self._whole.add(seconds / max(1, tokens))

"""What a request would meet on a replica: time to its first token and between tokens, corrected by what came.

The step-time model of the engine's profile says what an ideal engine needs for the work that we know of; each
pool's factors, running means of actual ÷ predicted, carry what the model does not know, and each replica's own what
sets it apart from the others. Each prediction is held against what came, and the error is shown.

What came is known late, an answer's time a token only when it ends, and by then many more predictions have been made.
So each carries the pace that it was made at: that times actual ÷ predicted is the pace that was right, and the factors
are running means of it. Multiplying them by actual ÷ predicted alone would correct one error as often as there are
predictions under way, and they would swing.
"""

from math import exp, log
from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.estimates import Histogram
from plimsoll.governor.stepclock import StepClock, step_of

SMOOTHING: Final = 32.0  # first tokens that a pool's factor remembers
ANSWERS: Final = 128.0  # … and answers, whose time a token hangs on who comes while they last
OWN: Final = 4.0  # times as many a replica's own: what sets it apart must show for long, or noise would decide
LATELY: Final = 12.0  # … and its slowness
LEAST: Final = 0.1  # of one ratio: a single stall may not turn everything over
MOST: Final = 10.0
AT_LEAST: Final = 20  # predictions before their error is told …
WINDOW: Final = 500  # … of the last three windows of so many


class Common:
    """Factors of a whole pool: what its replicas have shown is the best guess of one that nobody has tried lately."""

    def __init__(self) -> None:
        self.ttft_factor = 1.0
        self.itl_factor = 1.0
        self.num = 0  # first tokens seen
        self.num_answers = 0


class Errors:
    """How far predictions were off: |predicted − actual| ÷ actual, and the mean of predicted ÷ actual − 1."""

    def __init__(self) -> None:
        self._num = 0
        self._bias = 0.0
        self._seen = Histogram(AT_LEAST, WINDOW)
        self._median = self._seen.follow(1, 2)
        self._high = self._seen.follow(9, 10)

    def add(self, predicted: float, actual: float) -> None:
        """What was predicted and what came, both above 0."""
        self._num += 1
        self._seen.add(abs(predicted - actual) / actual)
        self._bias += (predicted / actual - 1.0 - self._bias) * max(1.0 / WINDOW, 1.0 / self._num)

    def told(self) -> tuple[float | None, float | None, float | None]:
        """Median and 90 % quantile of the error, and the bias (positive: too pessimistic); None: too few were seen."""
        median, high = self._median.middle(), self._high.middle()
        return median, high, None if median is None else self._bias


class Predictor:
    """One replica's: its factors come on top of its pool's."""

    def __init__(self, profile: EngineProfile, steps: StepTime, common: Common) -> None:
        self._common = common
        self._steps = steps
        self._step_tokens = profile.max_batched_tokens
        self._frontend = profile.frontend
        self.clock = StepClock(steps, profile.max_batched_tokens)
        self._pair_time = steps.mixed(1, 1, 0, 0, 1e6, 0.0) / 1e6 - steps.mixed(1, 1, 0, 0, 0.0, 0.0) / 1e6
        self.ttft_factor = 1.0
        self.itl_factor = 1.0
        self.num = 0  # first tokens seen
        self.slowness = 0.0  # lately: log of what came ÷ what its pool's factors alone predict
        self.ttft_errors = Errors()
        self.tpot_errors = Errors()

    def ttft(self, prompt_tokens: int, sequences: int, context: int) -> float:
        """Seconds to the first token: half of the step that runs, then as many as it takes to compute so many prompt
        tokens, its own last, beside so many sequences that decode over so many tokens of context."""
        seconds = 0.5 * self._steps.decode(sequences, context) if sequences else 0.0
        return self._frontend + self.ttft_pace() * (seconds + self._computing(prompt_tokens, sequences, context))

    def ttft_now(self, prompt_tokens: int, pending: int, sequences: int, context: int, at: float) -> float:
        """The same for a prompt of its own so long that is sent now, by where the engine is in its steps: `pending`
        prompt tokens before it have shown no first token yet."""
        pace = self.ttft_pace()
        wait, queued = self.clock.wait(pending, sequences, context, pace, at)
        seconds = self._computing(queued + prompt_tokens, sequences, context)
        if prompt_tokens > self._step_tokens:  # later chunks look back on the earlier ones
            seconds += self._pair_time * prompt_tokens * (prompt_tokens - self._step_tokens) / 2.0
        return self._frontend + wait + pace * seconds

    def itl(self, sequences: int, context: int) -> float:
        """Seconds a token in a batch of so many sequences over so many tokens of context."""
        return self.itl_pace() * self._steps.decode(sequences, context)

    def ttft_pace(self) -> float:
        """What times to a first token are multiplied by."""
        return self.ttft_factor * self._common.ttft_factor

    def itl_pace(self) -> float:
        """What times between tokens are multiplied by."""
        return self.itl_factor * self._common.itl_factor

    def first_token(self, predicted: float, actual: float, pace: float) -> None:
        """It came `actual` s after dispatch, and was predicted at that pace."""
        if predicted <= 0.0 or actual <= 0.0:
            return
        common = self._common
        self.num += 1
        self.ttft_errors.add(predicted, actual)
        right = log(_bounded(actual / predicted)) + log(pace)  # so that too long and too short weigh alike
        self.slowness += (right - log(common.ttft_factor) - self.slowness) / LATELY
        off = right - log(self.ttft_pace())
        self.ttft_factor *= exp(off / (OWN * SMOOTHING))
        common.num += 1
        common.ttft_factor *= exp(off * max(1.0 / SMOOTHING, 1.0 / common.num))

    def tokens(self, predicted: float, actual: float, pace: float) -> None:
        """Its tokens came every `actual` s in the mean, and were predicted at that pace."""
        if predicted <= 0.0 or actual <= 0.0:
            return
        common = self._common
        self.tpot_errors.add(predicted, actual)
        off = log(_bounded(actual / predicted)) + log(pace / self.itl_pace())
        self.itl_factor *= exp(off / (OWN * ANSWERS))
        common.num_answers += 1
        common.itl_factor *= exp(off * max(1.0 / ANSWERS, 1.0 / common.num_answers))

    def _computing(self, tokens: int, sequences: int, context: int) -> float:
        """Seconds of the steps that compute so many prompt tokens; those that decode take their part of each step."""
        num_full, rest = divmod(tokens, max(1, self._step_tokens - sequences))
        seconds = num_full * step_of(self._steps, self._step_tokens - sequences, sequences, context) if num_full else 0
        return seconds + step_of(self._steps, rest, sequences, context) if rest else float(seconds)


def _bounded(ratio: float) -> float:
    return min(max(ratio, LEAST), MOST)

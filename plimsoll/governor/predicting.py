"""What a request would meet on a replica: time to its first token and between tokens, corrected by what came.

The step-time model of the engine's profile says what an ideal engine needs for the work that we know of; each
pool's factors, running means of actual ÷ predicted, carry what the model does not know, and each replica's own what
sets it apart from the others. Each prediction is held against what came, and the error is shown.
"""

from math import exp, log
from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.estimates import Histogram
from plimsoll.governor.stepclock import StepClock, step_of

SMOOTHING: Final = 32.0  # requests that a pool's factor remembers
OWN: Final = 128.0  # … and a replica's own: what sets it apart must show for long, or noise would decide where to go
LATELY: Final = 12.0  # … and its slowness
LEAST: Final = 0.1  # of one ratio: a single stall may not turn everything over
MOST: Final = 10.0
AT_LEAST: Final = 20  # predictions before their error is told


class Common:
    """Factors of a whole pool: what its replicas have shown is the best guess of one that nobody has tried lately."""

    def __init__(self) -> None:
        self.ttft_factor = 1.0
        self.itl_factor = 1.0
        self.num = 0


class Predictor:
    """One replica's: its factors come on top of its pool's."""

    def __init__(self, profile: EngineProfile, steps: StepTime, common: Common) -> None:
        self._common = common
        self._steps = steps
        self._step_tokens = profile.max_batched_tokens
        self.clock = StepClock(steps, profile.max_batched_tokens)
        self._pair_time = steps.mixed(1, 1, 0, 0, 1e6, 0.0) / 1e6 - steps.mixed(1, 1, 0, 0, 0.0, 0.0) / 1e6
        self.ttft_factor = 1.0
        self.itl_factor = 1.0
        self.num = 0  # first tokens seen
        self.slowness = 0.0  # lately: log of what came ÷ what its pool's factors alone predict
        self.bias = 0.0  # running mean of predicted ÷ actual − 1: positive is pessimism
        self._errors = Histogram(AT_LEAST, 500)
        self._median_error = self._errors.follow(1, 2)
        self._high_error = self._errors.follow(9, 10)

    def ttft(self, prompt_tokens: int, sequences: int, context: int) -> float:
        """Seconds to the first token: half of the step that runs, then as many as it takes to compute so many prompt
        tokens, its own last, beside so many sequences that decode over so many tokens of context."""
        seconds = 0.5 * self._steps.decode(sequences, context) if sequences else 0.0
        return self._pace() * (seconds + self._computing(prompt_tokens, sequences, context))

    def ttft_now(self, prompt_tokens: int, pending: int, sequences: int, context: int, at: float) -> float:
        """The same for a prompt of its own so long that is sent now, by where the engine is in its steps: `pending`
        prompt tokens before it have shown no first token yet."""
        pace = self._pace()
        wait, queued = self.clock.wait(pending, sequences, context, pace, at)
        seconds = self._computing(queued + prompt_tokens, sequences, context)
        if prompt_tokens > self._step_tokens:  # later chunks look back on the earlier ones
            seconds += self._pair_time * prompt_tokens * (prompt_tokens - self._step_tokens) / 2.0
        return wait + pace * seconds

    def itl(self, sequences: int, context: int) -> float:
        """Seconds a token in a batch of so many sequences over so many tokens of context."""
        return self.itl_factor * self._common.itl_factor * self._steps.decode(sequences, context)

    def first_token(self, predicted: float, actual: float) -> None:
        """It came `actual` s after dispatch."""
        if predicted <= 0.0 or actual <= 0.0:
            return
        self.num += 1
        self._errors.add(abs(predicted - actual) / actual)
        self.bias += (predicted / actual - 1.0 - self.bias) * max(1.0 / SMOOTHING, 1.0 / self.num)
        self.slowness += (log(_bounded(actual * self.ttft_factor / predicted)) - self.slowness) / LATELY
        off = log(_bounded(actual / predicted))  # so that too long and too short weigh alike
        self.ttft_factor *= exp(off / OWN)
        self._common.num += 1
        self._common.ttft_factor *= exp(off * max(1.0 / SMOOTHING, 1.0 / self._common.num))

    def tokens(self, predicted: float, actual: float) -> None:
        """Its tokens came every `actual` s in the mean."""
        if predicted > 0.0 and actual > 0.0:
            off = log(_bounded(actual / predicted))
            self.itl_factor *= exp(off / OWN)
            self._common.itl_factor *= exp(off / SMOOTHING)

    def _pace(self) -> float:
        return self.ttft_factor * self._common.ttft_factor

    def _computing(self, tokens: int, sequences: int, context: int) -> float:
        """Seconds of the steps that compute so many prompt tokens; those that decode take their part of each step."""
        num_full, rest = divmod(tokens, max(1, self._step_tokens - sequences))
        seconds = num_full * step_of(self._steps, self._step_tokens - sequences, sequences, context) if num_full else 0
        return seconds + step_of(self._steps, rest, sequences, context) if rest else float(seconds)

    def errors(self) -> tuple[float, float] | None:
        """Median and 90 % quantile of |predicted − actual| ÷ actual of TTFT; None: too few seen."""
        median, high = self._median_error.middle(), self._high_error.middle()
        return None if median is None or high is None else (median, high)


def _bounded(ratio: float) -> float:
    return min(max(ratio, LEAST), MOST)

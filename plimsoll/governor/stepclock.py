"""Where an engine is in its steps, as far as a gateway can know: it computes the prompts that wait, a step's worth at a
time, and all that a step completes show their first token at the instant at which it ends. So each first token tells
when a step ended and the next one began; in between, steps are extrapolated.
"""

from typing import Final

from plimsoll.engine.steptime import StepTime

NEVER: Final = -1.0
KNOWN_FOR: Final = 8.0  # steps after which nobody knows any more where in a step the engine is


class StepClock:
    """One replica's. Instants in s; `pace` is what the model's steps are multiplied by, as was learnt."""

    def __init__(self, steps: StepTime, step_tokens: int) -> None:
        self._steps = steps
        self._step_tokens = step_tokens
        self._began_at = NEVER  # of the step that runs
        self._ends_at = NEVER
        self._told_at = NEVER  # the last first token
        self._queued = 0  # prompt tokens in no step yet

    def wait(self, pending: int, sequences: int, context: int, pace: float, at: float) -> tuple[float, int]:
        """Seconds until the next step begins, and the prompt tokens that stand before whoever comes now.

        `pending` are the prompt tokens that the replica was sent and that have shown no first token.
        """
        if pending == 0:
            self._queued = 0
            self._began_at = at
            self._ends_at = at + (self._decoding(self._steps.decode(sequences, context), at) if sequences else 0.0)
            return self._ends_at - at, 0
        self._queued = min(self._queued, pending)
        room = max(1, self._step_tokens - sequences)
        while self._ends_at <= at and self._queued:
            tokens = min(self._queued, room)
            self._queued -= tokens
            self._began_at = self._ends_at
            self._ends_at += pace * step_of(self._steps, tokens, sequences, context)
        return max(0.0, self._ends_at - at), self._queued

    def sent(self, tokens: int) -> None:
        """So many more prompt tokens wait there; after `wait` of that instant."""
        self._queued += tokens

    def ended(self, at: float) -> None:
        """A first token came: a step ended, be it the one that was taken to run or, if that had hardly begun, the one
        before it, so that this one begins only now."""
        if at == self._told_at:
            return
        self._told_at = at
        if self._ends_at <= self._began_at:
            return
        if self._ends_at - at > at - self._began_at:
            self._ends_at += at - self._began_at
            self._began_at = at
        else:
            self._ends_at = at

    def _decoding(self, step: float, at: float) -> float:
        """Seconds until a step ends that only decodes: by the last end that was told, if that is not long ago."""
        since = at - self._told_at
        return step - since % step if since < KNOWN_FOR * step else 0.5 * step


def step_of(steps: StepTime, tokens: int, sequences: int, context: int) -> float:
    """Seconds of a step that computes so many prompt tokens beside what decodes."""
    return steps.mixed(tokens, 1, sequences, context, tokens * tokens / 2.0, 0.0)

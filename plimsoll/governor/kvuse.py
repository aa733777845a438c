"""How much of what is booked requests really hold, and how far a replica may be oversubscribed for that.

A request books room for its whole output and fills it token by token: what stands booked is never all in use at once.
While a choice with a prompt of p tokens makes L tokens it holds p + t of them at token t, so weighed by how long they
stay, requests that came one after another hold (p L + L² / 2) / L of what they booked. Their number on a replica is
large, so what they hold in all is normal about the sum of the means; the limit is where it reaches capacity with the
probability that the policy states. Requests that all came at once age together: their common peak bounds the mean
from below, so that outputs of one length, which never grow apart, are not oversubscribed.

Compare: effective bandwidth (Kelly, "Notes on effective bandwidths", 1996); the past-future scheduler, which asks the
same inside an engine (https://arxiv.org/abs/2507.10150).
"""

from collections import deque
from math import sqrt
from typing import Final

from plimsoll.governor.lifecycle import REJECTED
from plimsoll.governor.request import Request

ENOUGH: Final = 200  # requests that must have ended before anything is believed
MEMORY: Final = 4096.0  # requests, the mean age of what counts
MOST_HELD_BACK: Final = 16_384  # requests that wait for one before them to end; one that hangs does not count then
_GROWTH: Final = 1.0 + 1.0 / MEMORY
_RENEW: Final = 1e6
_AGES: Final = [0, *[int(16.0 * 2.0 ** (step / 2.0)) for step in range(27)]]  # tokens, up to 131,072


class KvUse:
    """Of one pool, in tokens of KV. Requests count in the order in which they were sent: those that end first are the
    short ones. A later request weighs more, instead of all earlier ones less."""

    def __init__(self) -> None:
        self.num = 0
        self._sent: deque[Request] = deque()  # not counted yet; the first one still runs
        self._weight = 1.0
        # weighed sums over requests
        self._time = 0.0  # tokens made, which stand for how long they stayed; and × that:
        self._booked = 0.0
        self._used = 0.0
        self._squares = 0.0  # of use, of both, of what is booked
        self._products = 0.0
        self._booked_squares = 0.0
        self._at_once = 0.0  # booked, each once; and so
        self._held = [0.0] * len(_AGES)  # by all that live so many tokens, up to the next age

    def sent(self, request: Request) -> None:
        """It books by what is known of its tenant's outputs; it will count once it and all before it have ended."""
        self._sent.append(request)
        if len(self._sent) > MOST_HELD_BACK:
            self._sent.popleft()

    def catch_up(self, block_size: int) -> None:
        """Count who has ended meanwhile; who made no tokens, or was cut off, does not count."""
        sent = self._sent
        while sent and sent[0].state >= REJECTED:
            request = sent.popleft()
            made = request.made
            if made > 0:
                booked = block_size * request.booked_until(made) / made
                self.ended(request.prompt_tokens, made, request.num_choices, booked)

    def ended(self, prompt: int, output: int, num_choices: int, booked: float) -> None:
        """One more: its prompt, the output of one choice, and what it had booked in the mean while it made that."""
        self.num += 1
        self._weight *= _GROWTH
        if self._weight > _RENEW:
            self._renew()
        weight, length = self._weight, float(output)
        held = num_choices * (prompt + 0.5 * length)
        squares = prompt * prompt + prompt * length + length * length / 3.0
        time = weight * length
        self._time += time
        self._booked += time * booked
        self._used += time * held
        self._squares += time * squares * num_choices * num_choices
        self._products += time * held * booked
        self._booked_squares += time * booked * booked
        self._at_once += weight * booked
        for index, age in enumerate(_AGES):
            if age > output:
                break
            upto = min(output, _AGES[index + 1]) if index + 1 < len(_AGES) else output
            self._held[index] += weight * num_choices * (prompt + upto)

    def ratio(self, capacity: float, deviations: float) -> float:
        """By how much reservations on an engine of that capacity may exceed it; 0 where too little is known.

        `deviations` are standard deviations of the normal: 2.33 for a probability of 1 %.
        """
        if self.num < ENOUGH or self._booked <= 0.0:
            return 0.0
        used = self._used / self._booked  # of what is booked, by time
        booked = self._booked / self._time
        spread = self._squares - 2.0 * used * self._products + used * used * self._booked_squares
        deviation = sqrt(max(0.0, spread / self._time))
        together = max(self._held) / self._at_once
        mean = booked * max(used, together)
        slack = deviations * deviation
        root = (sqrt(slack * slack + 4.0 * mean * capacity) - slack) / (2.0 * mean)  # of how many may run
        return max(0.0, root * root * booked / capacity - 1.0)

    def _renew(self) -> None:
        factor = 1.0 / self._weight
        self._weight = 1.0
        self._time *= factor
        self._booked *= factor
        self._used *= factor
        self._squares *= factor
        self._products *= factor
        self._booked_squares *= factor
        self._at_once *= factor
        self._held = [value * factor for value in self._held]

"""How much kinds of requests matter to their tenant: weights by cause, which fade while the pool is under pressure.

Classes divide a tenant's own turns and nobody else's, so that calling everything urgent gains a tenant nothing.
"""

from math import exp, inf
from typing import Final

from plimsoll.policy.schedulingrules import RequestClass

LN2: Final = 0.6931471805599453


class Classes:
    """The policy's classes; number 0 is whatever no class names: weight 1, which does not fade."""

    def __init__(self, classes: tuple[RequestClass, ...]) -> None:
        self.num = len(classes) + 1
        self._by_cause: dict[str, int] = {}
        self._weights = [1.0]
        self._half_lives = [inf]
        self._sheddable = [False]
        for number, each in enumerate(classes, start=1):
            self._weights.append(float(each.weight))
            self._half_lives.append(each.decay)
            self._sheddable.append(each.sheddable)
            for cause in each.causes:
                self._by_cause.setdefault(cause, number)

    def of(self, cause: str) -> int:
        """The number of the cause's class."""
        return self._by_cause.get(cause, 0)

    def sheddable(self, number: int) -> bool:
        """Whether its requests leave the queue first."""
        return self._sheddable[number]

    def weight(self, number: int, pressed: float) -> float:
        """Its weight after so many seconds of pressure, down to a thousandth: a class may fade, not starve."""
        half_life = self._half_lives[number]
        if half_life == inf or pressed <= 0.0:
            return self._weights[number]
        return self._weights[number] * exp(-LN2 * min(pressed / half_life, 10.0))

"""Counts that vary more than chance lets them: a negative binomial, by the normal score of its gamma mixture.

A count of mean M whose rate itself varies with relative variance V (standard deviation ÷ mean, squared) is close to a
gamma of shape k = 1 ÷ (1 ÷ M + V), and the cube root of a gamma is close to normal (Wilson and Hilferty, 1931):
z = 3√k ((y ÷ M)^⅓ − 1 + 1 ÷ 9k). Both ways are in closed form, for a count of 2 as for one of two million.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_NEXT_TO_NOTHING: Final = 1e-9


def score(count: Floats, mean: Floats, variance: float) -> Floats:
    """Normal scores of counts, half an event up since they are whole; `variance` is relative, means are > 0."""
    shape = 1 / (1 / mean + variance)
    return np.asarray(3 * np.sqrt(shape) * (np.cbrt((count + 0.5) / mean) - 1 + 1 / (9 * shape)))


def count_at(score_: Floats, mean: Floats, variance: Floats) -> Floats:
    """The count of that normal score, ≥ 0: the inverse of `score`. Of a mean of 0 it is 0."""
    mean = np.maximum(mean, _NEXT_TO_NOTHING)
    shape = 1 / (1 / mean + variance)
    root = 1 - 1 / (9 * shape) + score_ / (3 * np.sqrt(shape))
    return np.asarray(np.maximum(0.0, mean * np.maximum(root, 0.0) ** 3 - 0.5))

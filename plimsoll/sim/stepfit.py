"""Fits step-time coefficients to timings of single steps: non-negative least squares on relative errors.

A timing says what was in a step and how long it took. Steps without prefill give the decode coefficients a, f, g; those
with prefill the mixed ones a, e, f, g, pw. What the timings do not vary stays 0 and is told.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.errors import ProfileError

_FEWEST: Final = 8  # timings of a kind


class StepTiming(Struct, frozen=True):
    """One step: prompt tokens computed, sequences that decoded, KV tokens of these, prefill attention work, s."""

    prefill_tokens: int
    num_seqs: int
    context_tokens: int
    work: float
    seconds: float


class Part(Struct, frozen=True):
    """The fit of one kind of step: relative errors of its timings, and what could not be told from them."""

    kind: str
    num: int
    median_error: float
    p90_error: float
    worst_error: float
    untold: tuple[str, ...]


class StepFit(Struct, frozen=True):
    """A fitted profile and its residuals."""

    profile: EngineProfile
    parts: tuple[Part, ...]


def fit_steps(timings: Sequence[StepTiming], base: EngineProfile) -> StepFit:
    """The profile like `base` with the step times of `timings`. Raises ProfileError where they say too little."""
    decode = [each for each in timings if each.prefill_tokens == 0]
    mixed = [each for each in timings if each.prefill_tokens > 0]
    if len(decode) < _FEWEST or len(mixed) < _FEWEST:
        raise ProfileError(
            f"{len(decode)} timings of decode steps and {len(mixed)} of steps with prefill: at least {_FEWEST} of each"
        )
    plain, first = _part("decode", decode, ("a", "f", "g"))
    both, second = _part("mixed", mixed, ("a", "e", "f", "g", "pw"))
    profile = msgspec.structs.replace(
        base,
        decode=plain,
        mixed=both,
        host_factor=1.0,
        host_per_sequence=0.0,
        fitted_max_tokens=max(each.prefill_tokens + each.num_seqs for each in timings),
        fitted_max_context=max(each.context_tokens + each.prefill_tokens for each in timings),
    )
    return StepFit(profile, (first, second))


def _part(kind: str, timings: Sequence[StepTiming], names: tuple[str, ...]) -> tuple[StepCoefficients, Part]:
    columns = {
        "a": [1.0 for _ in timings],
        "e": [float(each.prefill_tokens + each.num_seqs) for each in timings],
        "f": [float(each.num_seqs) for each in timings],
        "g": [float(each.context_tokens) for each in timings],
        "pw": [each.work for each in timings],
    }
    told = [name for name in names if name == "a" or min(columns[name]) < max(columns[name])]
    seconds = np.array([each.seconds for each in timings])
    matrix = np.array([columns[name] for name in told]).T
    found = dict(zip(told, nonnegative(matrix / seconds[:, None], np.ones(len(seconds))).tolist(), strict=True))
    if found["a"] <= 0.0:
        raise ProfileError(f"{kind} steps: the timings give no cost of a step that does nothing; are they in s?")
    errors = np.abs(matrix @ np.array([found[name] for name in told]) / seconds - 1.0)
    median, p90, worst = (float(value) for value in np.quantile(errors, [0.5, 0.9, 1.0]))
    part = Part(kind, len(timings), median, p90, worst, tuple(name for name in names if name not in told))
    return StepCoefficients(**found), part


def nonnegative(matrix: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x ≥ 0 with the least |matrix · x − wanted|² (Lawson and Hanson's active set, Solving Least Squares 1974)."""
    scale = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(scale > 0, scale, 1.0)
    num = scaled.shape[1]
    x, passive = np.zeros(num), np.zeros(num, dtype=bool)
    for _ in range(10 * num):
        gradient = scaled.T @ (wanted - scaled @ x)
        gradient[passive] = -np.inf
        if passive.all() or gradient.max() <= 1e-10 * len(wanted):
            break
        passive[int(np.argmax(gradient))] = True
        x = _settled(scaled, wanted, x, passive)
    return np.asarray(x / np.where(scale > 0, scale, 1.0))


def _settled(
    matrix: NDArray[np.float64], wanted: NDArray[np.float64], x: NDArray[np.float64], passive: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The best of those that may move; whoever would turn negative stays at 0 from then on."""
    while True:
        best = np.zeros(len(x))
        best[passive] = np.linalg.lstsq(matrix[:, passive], wanted, rcond=None)[0]
        below = passive & (best <= 0)
        if not below.any():
            return best
        part = np.min(x[below] / np.maximum(x[below] - best[below], 1e-300))
        x = x + part * (best - x)
        passive &= x > 1e-14
        x[~passive] = 0.0

"""Token gaps of cut streams, with the truth known: bias of the P99 as it is seen, and as it is corrected.

`python -m benchmarks.cutstreams [SEEDS]`. Answers are log-normal in length; gaps grow with position, as context does.
Streams are cut at a constant rate a token, independently of their gaps; the last case is cut by slow gaps themselves,
which no correction by position can mend.
"""

import sys
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from plimsoll.slo.cutstreams import CutStreams
from plimsoll.slo.timing import POSITION_ENDS

STREAMS = 4000
CASES = (
    ("few cut", 1 / 8000, 0.0),
    ("a third cut", 1 / 1000, 0.0),
    ("most cut", 1 / 250, 0.0),
    ("cut by slow gaps", 0.0, 0.02),
)
"""Name, rate of cutting a token, chance that a gap above 60 ms makes the client leave."""


def gaps_of(random: np.random.Generator, length: int) -> NDArray[np.float64]:
    """The gaps of one answer: 15 ms at first, 30 ms at position 1,500."""
    position = np.arange(2, length + 1)
    return 0.015 * (1.0 + position / 1500.0) * np.exp(random.normal(0.0, 0.35, length - 1))


def one(seed: int, rate: float, patience: float) -> tuple[float, float, float, float]:
    """(bias seen, bias corrected, share of streams cut, share of streams whose end was never seen)."""
    random = np.random.default_rng(seed)
    truth, streams = [], []
    for length in (np.exp(random.normal(5.6, 0.9, STREAMS)).astype(int) + 2).tolist():
        gaps = gaps_of(random, length)
        came = length if rate == 0.0 else min(length, 1 + int(random.geometric(rate)))
        if patience:
            left = np.flatnonzero((gaps > 0.06) & (random.random(gaps.size) < patience))
            came = min(came, int(left[0]) + 2) if left.size else came
        truth.append(gaps)
        streams.append((came, came < length, gaps[: came - 1]))
    cut = CutStreams(Counter((came, early) for came, early, _ in streams))
    seen, weights = [], []
    for came, _, gaps in streams:
        parts = np.split(gaps, [end - 1 for end in POSITION_ENDS])
        weights.append(np.repeat(cut.weights(came), [part.size for part in parts]))
        seen.append(gaps)
    true = float(np.quantile(np.concatenate(truth), 0.99))
    values, weight = np.concatenate(seen), np.concatenate(weights)
    order = np.argsort(values)
    share = np.cumsum(weight[order])
    corrected = float(values[order][np.searchsorted(share, 0.99 * share[-1])])
    return (
        float(np.quantile(values, 0.99)) / true - 1.0,
        corrected / true - 1.0,
        cut.num_cut / cut.num,
        cut.unseen_ratio,
    )


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"P99 of token gaps, {STREAMS:,} streams, {seeds} seeds: mean bias (worst)")
    for name, rate, patience in CASES:
        rows = np.array([one(seed, rate, patience) for seed in range(seeds)])
        worst = np.abs(rows).max(axis=0)
        mean = rows.mean(axis=0)
        print(
            f"{name:18s} {mean[2]:5.1%} cut  as seen {mean[0]:+6.1%} ({worst[0]:.1%})  "
            f"corrected {mean[1]:+6.1%} ({worst[1]:.1%})  ends never seen {mean[3]:.1%}"
        )


if __name__ == "__main__":
    main()

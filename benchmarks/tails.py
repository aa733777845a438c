"""Whether tails may be believed: bias under censoring, coverage and width of intervals, against known truth.

`python -m benchmarks.tails [censoring|coverage] [RUNS]`. Values are made here, so that the truth is known: waits cut by
clients' patience and by timeouts, token gaps of streams that were cut, independent samples, and the waiting times of a
queue (M/M/1 at 70 % of its capacity, 20,000 requests a window, by Lindley's recursion). Everything below goes through
the code that reports use.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from plimsoll.analytics.independence import design_effect
from plimsoll.analytics.latencyfigures import latency_figure, token_figure
from plimsoll.analytics.tally import Latency
from plimsoll.slo.censoring import SurvivalCurve
from plimsoll.slo.quantiles import Sketch

LEVELS = (0.5, 0.95, 0.99)
NUM = 20_000
NUM_BLOCKS = 30
UTILISATION = 0.7
Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


# --- censoring -------------------------------------------------------------------------------------------------------


def _waits(rng: np.random.Generator, num: int) -> Floats:
    """Times to the first token with a heavy tail, s."""
    return rng.lognormal(-0.7, 0.9, num)


def _scenarios() -> Iterator[tuple[str, Callable[[np.random.Generator, Floats], Floats]]]:
    """Names, and what cuts each wait: the wait that its client would bear at most."""
    yield "nobody leaves", lambda rng, waits: np.full(waits.size, np.inf)
    yield "patience 20 s (mean)", lambda rng, waits: rng.exponential(20.0, waits.size)
    yield "patience 5 s (mean)", lambda rng, waits: rng.exponential(5.0, waits.size)
    yield "timeout 10 s", lambda rng, waits: np.full(waits.size, 10.0)
    yield "timeout 3 s (p99 beyond)", lambda rng, waits: np.full(waits.size, 3.0)
    yield "20 % at half of their wait", lambda rng, waits: np.where(rng.random(waits.size) < 0.2, waits / 2, np.inf)
    yield "the slowest leave sooner", lambda rng, waits: rng.exponential(8.0 / np.sqrt(waits))
    yield "the slowest stay longer", lambda rng, waits: rng.exponential(4.0 * np.sqrt(waits))


def censoring(runs: int) -> None:
    truth = float(np.quantile(_waits(np.random.default_rng(0), 4_000_000), 0.99))
    print(f"p99 of requests under censoring ({runs} runs of {NUM:,}; truth {truth:.2f} s). Bias in % of the truth:")
    print(f"{'what cuts':28} {'cut off':>8} {'estimate':>18} {'face value':>11} {'left out':>9} {'bounds hold':>12}")
    for name, patience in _scenarios():
        rows = [_one(rng, patience(rng, waits), waits, truth) for rng, waits in _draws(runs)]
        cut, bias, face, dropped, holds, above = (np.array([row[i] for row in rows], float) for i in range(6))
        known = ~np.isnan(bias)
        told = f"{bias[known].mean():+.1f} %" if known.any() else f"above {np.nanmean(above):.2f} s"
        print(
            f"{name:28} {cut.mean():8.1%} {told:>18} {face.mean():+10.1f}% {dropped.mean():+8.1f}% {holds.mean():12.0%}"
        )


def _draws(runs: int) -> Iterator[tuple[np.random.Generator, Floats]]:
    for run in range(runs):
        rng = np.random.default_rng((run, 7))
        yield rng, _waits(rng, NUM)


def _one(
    rng: np.random.Generator, bear: Floats, waits: Floats, truth: float
) -> tuple[float, float, float, float, float, float]:
    seen = waits <= bear
    value = np.minimum(waits, bear)
    found = SurvivalCurve(value, seen).quantile(0.99)
    low, high = found.naive_low or 0.0, found.naive_high
    sample = float(np.quantile(waits, 0.99, method="inverted_cdf"))
    holds = low <= sample and (high is None or sample <= high)

    def off(estimate: float | None) -> float:
        return float("nan") if estimate is None else 100.0 * (estimate / truth - 1.0)

    above = float("nan") if found.above is None else found.above
    return (
        float((~seen).mean()), off(found.value), off(float(np.quantile(value, 0.99))),
        off(float(np.quantile(value[seen], 0.99))), float(holds), above,
    )  # fmt: skip


def tokens(runs: int) -> None:
    """Gaps between tokens of streams that were cut: those that came are known; cutting by length biases nothing but
    what was never made, and a report by position says which tokens a figure is of."""
    print(
        f"\np99 of token gaps of cut streams ({runs} runs of 2,000 streams), bias in % of the truth at that position:"
    )
    print(f"{'what cuts':34} {'all tokens':>11} {'tokens 1-64':>12} {'tokens 65-512':>14} {'513 and more':>13}")
    for name, keep in (
        ("nobody", lambda rng, gaps: gaps.shape[1]),
        ("clients leave at random", lambda rng, gaps: 1 + int(rng.exponential(300))),
        ("clients leave when it is slow", lambda rng, gaps: 1 + int(rng.exponential(300.0 * 0.03 / gaps.mean()))),
    ):
        rows = [_gaps(np.random.default_rng((run, 9)), keep) for run in range(runs)]
        print(f"{name:34}" + "".join(f"{np.nanmean([row[i] for row in rows]):+12.1f}%" for i in range(4)))


def _gaps(rng: np.random.Generator, keep: Callable[[np.random.Generator, Floats], int]) -> list[float]:
    """Streams of 800 tokens; later positions are slower; a stream has a pace of its own."""
    num, length = 2_000, 800
    slope = 1.0 + np.arange(length) / 800.0
    gaps = 0.02 * rng.lognormal(0.0, 0.3, (num, 1)) * rng.lognormal(0.0, 0.4, (num, length)) * slope
    kept = np.array([min(length, keep(rng, gaps[row : row + 1])) for row in range(num)])
    there = np.arange(length)[None, :] < kept[:, None]
    found = []
    for start, end in ((0, length), (0, 64), (64, 512), (512, length)):
        part, known = gaps[:, start:end], gaps[:, start:end][there[:, start:end]]
        sketch = Sketch()
        sketch.add_many(known)
        figure = next(each for each in token_figure("itl", sketch).quantiles if each.quantile == 0.99)
        truth = float(np.quantile(part, 0.99))
        found.append(float("nan") if figure.value is None else 100.0 * (figure.value / truth - 1.0))
    return found


# --- coverage --------------------------------------------------------------------------------------------------------


def _lindley(rng: np.random.Generator, num: int) -> Floats:
    """Times in an M/M/1 queue at 70 %, s of a mean service of 1; it runs for 2,000 requests before it is looked at."""
    more = num + 2_000
    steps = rng.exponential(1.0, more) - rng.exponential(1.0 / UTILISATION, more)
    sums = np.concatenate(([0.0], np.cumsum(steps)[:-1]))
    waits = sums - np.minimum.accumulate(sums)
    return (waits + rng.exponential(1.0, more))[-num:]


def coverage(runs: int) -> None:
    print("\ncoverage and width of 95 % intervals (width: median of (high − low) ÷ truth)")
    print(f"{'values':26} {'n':>7}" + "".join(f"{f'p{100 * q:g}':>9}{'width':>7}{'known':>7}" for q in LEVELS))
    lognormal: Draw = lambda rng, num: rng.lognormal(0.0, 1.0, num)  # noqa: E731 - a distribution in a line
    for num in (400, 2_000, 20_000):
        truths = [float(np.exp(_normal(q))) for q in LEVELS]
        _print_row("independent, log-normal", num, _covered(lognormal, num, runs, truths, is_queue=False))
    truths = [-np.log(1.0 - q) / (1.0 - UTILISATION) for q in LEVELS]  # time in the system is exponential
    _print_row("queue, as independent", NUM, _covered(_lindley, NUM, runs, truths, is_queue=False))
    _print_row("queue, with design effect", NUM, _covered(_lindley, NUM, runs, truths, is_queue=True))


def _normal(q: float) -> float:
    return {0.5: 0.0, 0.95: 1.6448536269514722, 0.99: 2.3263478740408408}[q]


def _print_row(name: str, num: int, figures: list[tuple[float, float, float]]) -> None:
    cells = "".join(f"{covered:9.1%}{width:7.2f}{known:7.0%}" for covered, width, known in figures)
    print(f"{name:26} {num:7,}{cells}", flush=True)


def _covered(
    draw: Draw, num: int, runs: int, truths: list[float], *, is_queue: bool
) -> list[tuple[float, float, float]]:
    hits = np.zeros((runs, len(LEVELS)))
    widths = np.full((runs, len(LEVELS)), np.nan)
    for run in range(runs):
        values = draw(np.random.default_rng((run, num)), num)
        latency = Latency()
        latency.seen.add_many(values)
        effects = _effects(values, latency.seen) if is_queue else None
        figures = {each.quantile: each for each in latency_figure("ttft", latency, effects).quantiles}
        for index, (q, truth) in enumerate(zip(LEVELS, truths, strict=True)):
            low, high = figures[q].low, figures[q].high
            if low is not None and high is not None:
                widths[run, index] = (high - low) / truth
                hits[run, index] = low <= truth <= high
    known = ~np.isnan(widths)
    return [
        (float(hits[known[:, i], i].mean()) if known[:, i].any() else float("nan"),
         float(np.nanmedian(widths[:, i])) if known[:, i].any() else float("nan"), float(known[:, i].mean()))
        for i in range(len(LEVELS))
    ]  # fmt: skip


def _effects(values: Floats, sketch: Sketch) -> dict[float, float]:
    """As reports measure them: over thirty blocks of time, at each quantile."""
    blocks = np.array_split(values, NUM_BLOCKS)
    found = {}
    for q in LEVELS:
        edge = sketch.quantile(q) or 0.0
        effect = design_effect([(len(block), int((block > edge).sum())) for block in blocks])
        if effect is not None:
            found[q] = effect
    return found


def main() -> None:
    words = sys.argv[1:]
    runs = int(next((word for word in words if word.isdigit()), "100"))
    if "coverage" not in words:
        censoring(runs)
        tokens(max(3, runs // 10))
    if "censoring" not in words:
        coverage(runs)


if __name__ == "__main__":
    main()

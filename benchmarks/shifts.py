"""How often a change is seen where there is none, and where there is one: change points of tails under a changing mix.

`python -m benchmarks.shifts [SEEDS]`. Latencies are those of a queue (neighbours are alike), times what prompts of that
length take; the mix of lengths changes half-way. "naive" looks at latencies as they are, "like with like" at latencies
over the median of like requests. The last rows have a real change: a share of requests becomes ten times as slow.
"""

import sys

import numpy as np

from plimsoll.diagnosis.shift import changes, slow_for_its_kind
from plimsoll.diagnosis.visits import Floats

NUM = 2000


def window(seed: int, utilisation: float, mix: float, fault: float) -> tuple[Floats, Floats, Floats]:
    """(arrivals, latencies, medians of like requests); from the middle on prompts are `mix` times as long."""
    random = np.random.default_rng(seed)
    at = np.cumsum(random.exponential(1.0, NUM))
    service, late = random.exponential(utilisation, NUM), 0.0
    waited = np.zeros(NUM)
    for i in range(NUM):
        late = max(late, at[i]) + service[i]
        waited[i] = late - at[i]
    usual = np.where(np.arange(NUM) < NUM // 2, 1.0, mix)
    latency = usual * (0.2 + waited)
    latency[NUM // 2 :][random.random(NUM - NUM // 2) < fault] *= 10.0
    return at, latency, usual


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"windows of {NUM:,} requests, {seeds} of each: share in which a change was seen")
    for name, utilisation, mix, fault in (
        ("nothing changes", 0.3, 1.0, 0.0),
        ("nothing changes, busier", 0.7, 1.0, 0.0),
        ("prompts 3 times as long", 0.3, 3.0, 0.0),
        ("prompts 3 times as long, busier", 0.7, 3.0, 0.0),
        ("1 in 20 is 10 times as slow", 0.3, 1.0, 0.05),
        ("1 in 10 is 10 times as slow", 0.3, 1.0, 0.1),
        ("the same, and longer prompts", 0.3, 3.0, 0.1),
    ):
        naive = like = 0
        for seed in range(seeds):
            at, latency, usual = window(seed, utilisation, mix, fault)
            naive += bool(changes(at, latency > np.quantile(latency, 0.9)))
            like += bool(changes(at, slow_for_its_kind(latency, usual, 0.1)))
        print(f"{name:34s} naive {naive / seeds:6.1%}   like with like {like / seeds:6.1%}")


if __name__ == "__main__":
    main()

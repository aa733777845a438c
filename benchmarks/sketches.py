"""What sketches cost: values a second inserted in bulk, µs a merge, µs a quantile with its interval (CPU time).

`python -m benchmarks.sketches [MILLIONS]`. Values are log-normal (sigma 0.7, as latencies are); two
sketches of 200,000 are merged.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from plimsoll.slo.quantiles import Sketch


def best(repeat: int, run: Callable[[], object]) -> float:
    """CPU seconds of the fastest of so many runs."""
    took = []
    for _ in range(repeat):
        began = time.process_time()
        run()
        took.append(time.process_time() - began)
    return min(took)


def merged(one: Sketch, other: Sketch, times: int) -> None:
    """One takes the other in, so many times."""
    for _ in range(times):
        one.merge(other)


def main() -> None:
    num = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 8_000_000
    values = np.exp(np.random.default_rng(1).normal(-1.0, 0.7, num))
    seconds = best(5, lambda: Sketch().add_many(values))
    print(f"bulk insert: {num / seconds / 1e6:.1f} M values/s ({num:,} values, {seconds / num * 1e9:.1f} ns each)")
    one, other = Sketch(), Sketch()
    one.add_many(values[:200_000])
    other.add_many(values[-200_000:])
    times = 2000
    seconds = best(5, lambda: merged(one, other, times))
    print(f"merge: {seconds / times * 1e6:.2f} us ({len(other.buckets)} buckets into {len(one.buckets)})")
    seconds = best(5, lambda: [one.estimate(0.99) for _ in range(200)])
    print(f"p99 with its interval: {seconds / 200 * 1e6:.1f} us")


if __name__ == "__main__":
    main()

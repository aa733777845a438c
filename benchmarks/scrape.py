"""What a scrape of /metrics costs: CPU ms by number of tenants, by format, by what moved since the scrape before.

`python -m benchmarks.scrape [TENANTS …] [--history 20] [--between 3]`: each tenant has had HISTORY requests; before a
scrape of `all` BETWEEN more of every tenant ended, before one of `tenth` of every tenth, before one of `none` nothing.
`first` is a gateway's first scrape. Of several the median, and the longest that any of them held the loop at once.
"""

import argparse
import random
import time
from statistics import median

from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.telemetry.exposition import Exposition, Page
from plimsoll.telemetry.prometheus import Metrics
from plimsoll.telemetry.protobufpage import ProtobufPage
from tests.storage.rows import record

REPEATS = 9
MOVED = {"all": 1, "tenth": 10, "none": 0}  # every how many tenants


def settled(metrics: Metrics, tenants: range, num: int, dice: random.Random) -> None:
    """That many more requests of each of them ended."""
    base = record(1)
    for number in [*tenants] * num:
        ttft, e2e, queued = (dice.lognormvariate(mean, 1) for mean in (-1, 1, -3))
        told = replace(base, tenant=f"tenant-{number:04}", ttft=ttft, e2e=e2e, queued_for=queued)
        metrics.settled(Settle(told, ()))


def scraped(metrics: Metrics, make: type[Page] | type[ProtobufPage]) -> tuple[float, int, float]:
    """CPU ms of a page, its bytes, the longest that it holds the loop at once, ms."""
    page: Exposition = make()
    longest, begun = 0.0, time.process_time()
    before = begun
    for _ in metrics.write(page):
        longest, before = max(longest, time.process_time() - before), time.process_time()
    size = sum(map(len, page.pieces()))
    ended = time.process_time()
    return 1000 * (ended - begun), size, 1000 * max(longest, ended - before)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tenants", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--history", type=int, default=20)
    parser.add_argument("--between", type=int, default=3)
    given = parser.parse_args()
    print("tenants  format    moved  CPU ms  least     MB  longest hold ms")
    for num in given.tenants:
        for name, make in (("text", Page), ("protobuf", ProtobufPage)):
            metrics, dice = Metrics(), random.Random(1)
            settled(metrics, range(num), given.history, dice)
            told = {"first": [scraped(metrics, make)]}
            for moved, every in MOVED.items():
                for _ in range(REPEATS):
                    settled(metrics, range(0, num, every) if every else range(0), given.between, dice)
                    told.setdefault(moved, []).append(scraped(metrics, make))
            for moved, found in told.items():
                spent, sizes, holds = zip(*found, strict=True)
                costs = f"{median(spent):7.1f} {min(spent):6.1f} {sizes[-1] / 1e6:6.2f}"
                print(f"{num:7}  {name:9} {moved:6}{costs} {max(holds):8.1f}")


if __name__ == "__main__":
    main()

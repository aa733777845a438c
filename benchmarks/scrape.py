"""What a scrape of /metrics costs: CPU milliseconds by number of tenants, text and protobuf, all tenants just active.

`python -m benchmarks.scrape [TENANTS …]`
"""

import random
import sys
import time

from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.telemetry.exposition import Exposition, Page
from plimsoll.telemetry.prometheus import Metrics
from plimsoll.telemetry.protobufpage import ProtobufPage
from tests.storage.rows import record

REQUESTS = 20  # of each tenant
REPEATS = 7


def filled(num_tenants: int) -> Metrics:
    """Metrics of that many tenants."""
    metrics, dice, base = Metrics(), random.Random(1), record(1)
    for number in range(num_tenants * REQUESTS):
        ttft, e2e, queued = (dice.lognormvariate(mean, 1) for mean in (-1, 1, -3))
        told = replace(base, tenant=f"tenant-{number % num_tenants:04}", ttft=ttft, e2e=e2e, queued_for=queued)
        metrics.settled(Settle(told, ()))
    return metrics


def cost(metrics: Metrics, make: type[Page] | type[ProtobufPage]) -> tuple[float, int, float]:
    """CPU ms of a page (least of several), its bytes, the longest that it holds the loop at once, ms."""
    least, size, longest = float("inf"), 0, 0.0
    for _ in range(REPEATS):
        page: Exposition = make()
        begun = before = time.process_time()
        for _ in metrics.write(page):
            longest, before = max(longest, time.process_time() - before), time.process_time()
        size = len(page.encode())
        longest = max(longest, time.process_time() - before)
        least = min(least, time.process_time() - begun)
    return 1000 * least, size, 1000 * longest


def main() -> None:
    """Print a table."""
    print("tenants  format      CPU ms     MB  longest hold ms")
    for num in [int(each) for each in sys.argv[1:]] or [10, 100, 1000]:
        metrics = filled(num)
        for name, make in (("text", Page), ("protobuf", ProtobufPage)):
            spent, size, longest = cost(metrics, make)
            print(f"{num:7}  {name:9} {spent:8.1f} {size / 1e6:6.2f} {longest:8.1f}")


if __name__ == "__main__":
    main()

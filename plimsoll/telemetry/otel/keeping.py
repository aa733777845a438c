"""Tail sampling: which requests' traces are kept, decided when all is known of them.

Kept is whatever broke an objective, was charged to somebody, did not simply complete, or was slower than 95 % of its
tenant's requests of late; of the rest a share, chosen by trace id, so that all services keep the same ones
(OpenTelemetry's consistent sampling: the last 56 bits are compared with a threshold).
"""

from typing import Final

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.timing import bucket_of

SLOW: Final = 0.95
BROKEN: Final = 0.05  # of an objective's events: a single late token of hundreds is no reason
LEARN: Final = 100  # requests before anybody is called slow
REMEMBERED: Final = 2000  # requests after which older ones count half
MOST_TENANTS: Final = 2000


class Usual:
    """How long a tenant's requests take: counts in log buckets of which old ones fade."""

    __slots__ = ("counts", "num")

    def __init__(self) -> None:
        self.counts: dict[int, float] = {}
        self.num = 0.0

    def is_slow(self, seconds: float) -> bool:
        """Whether that is beyond what 95 % took before; then it is counted, too."""
        bucket = bucket_of(max(seconds, 1e-6))
        slow = self.num >= LEARN and sum(num for at, num in self.counts.items() if at < bucket) >= SLOW * self.num
        self.counts[bucket] = self.counts.get(bucket, 0.0) + 1
        self.num += 1
        if self.num >= REMEMBERED:
            self.counts = {at: num / 2 for at, num in self.counts.items() if num > 1 / 16}
            self.num = sum(self.counts.values())
        return slow


class Keeping:
    """Decides for one row after another."""

    def __init__(self, share: float) -> None:
        """`share`, 0 to 1, of the requests that nothing happened to."""
        self._threshold = round((1 - share) * (1 << 56))
        self._usual: dict[str, Usual] = {}

    def why(self, trace_id: bytes, record: Record) -> str:
        """Why its trace is kept; "" where it is not."""
        slow = self._is_slow(record)  # asked of everybody: it learns
        if any(verdict.num_bad > BROKEN * (verdict.num_good + verdict.num_bad) for verdict in record.verdicts):
            return "charged" if record.charge is not None else "broken"
        if record.outcome is not Outcome.COMPLETED or record.degraded:
            return record.outcome.value if not record.degraded else "degraded"
        if slow:
            return "slow"
        return "sampled" if int.from_bytes(trace_id[-7:], "big") >= self._threshold else ""

    def _is_slow(self, record: Record) -> bool:
        if record.e2e is None:
            return False
        tenant = record.tenant if record.tenant in self._usual or len(self._usual) < MOST_TENANTS else ""
        return self._usual.setdefault(tenant, Usual()).is_slow(record.e2e)

"""What Prometheus sees: counted cheaply at each settlement, written as text only when somebody scrapes.

Labels are bounded: tenants and tiers are the policy's, outcomes and reasons are enums. Times are kept in log buckets of
2^(1/32), as in the request log, and shown at every half octave. Exact attainment comes from verdicts, not from buckets.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import Snapshot
from plimsoll.policy.policy import Policy
from plimsoll.slo.timing import BUCKETS_PER_OCTAVE, bucket_of
from plimsoll.slo.verdict import Judgement, Verdict
from plimsoll.telemetry.exposition import Distribution, Exposition

_EXCLUDED: Final = Judgement.EXCLUDED
_CENSORED: Final = Judgement.CENSORED
STEP: Final = BUCKETS_PER_OCTAVE // 2
LOWEST: Final = -10 * BUCKETS_PER_OCTAVE  # 2^-10 s, about 1 ms
HIGHEST: Final = 9 * BUCKETS_PER_OCTAVE  # 512 s
BOUNDS: Final = tuple(f"{2 ** (index / BUCKETS_PER_OCTAVE):.10g}" for index in range(LOWEST, HIGHEST + 1, STEP))
_NUM_BOUNDS: Final = len(BOUNDS)
MAX_OWNERS: Final = 2000  # (tenant, tier) pairs; more are summed as "other"


def edge_of(index: int) -> float:
    """Upper edge of a log bucket, s."""
    edge: float = 2.0 ** (index / BUCKETS_PER_OCTAVE)
    return edge


class Histogram:
    """Times in s of one kind, one tenant, one tier."""

    __slots__ = ("buckets", "num_zero", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.num_zero = 0
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One value."""
        self.total += seconds
        if seconds <= 0:
            self.num_zero += 1
            return
        index = bucket_of(seconds)
        self.buckets[index] = self.buckets.get(index, 0) + 1

    def merge(self, buckets: dict[int, int], num_zero: int) -> None:
        """Values counted elsewhere, in the same buckets; their sum is taken from the buckets' upper edges."""
        self.num_zero += num_zero
        mine = self.buckets
        for index, num in buckets.items():
            mine[index] = mine.get(index, 0) + num

    def cumulated(self) -> tuple[list[int], int]:
        """Counts up to each of `BOUNDS`, and the count of all."""
        counts = [0] * (_NUM_BOUNDS + 1)
        counts[0] = self.num_zero
        for index, num in self.buckets.items():
            place = (index - LOWEST + STEP - 1) // STEP  # the first bound at or above the bucket's upper edge
            counts[0 if place < 0 else min(place, _NUM_BOUNDS)] += num
        cumulated = list(accumulate(counts))
        return cumulated[:-1], cumulated[-1]

    def sum_from_buckets(self) -> float:
        """For merged values: the sum, at most 2.2 % too large."""
        return sum([num * edge_of(index) for index, num in self.buckets.items()])


VERDICTS: Final = ("bad", "censored", "excluded", "good")


class Verdicts:
    """What one objective said: requests, for token objectives tokens; what was not judged in requests."""

    __slots__ = ("bad", "censored", "excluded", "good")

    def __init__(self) -> None:
        self.good = self.bad = self.censored = self.excluded = 0

    def add(self, verdict: Verdict) -> None:
        """One request's."""
        judgement = verdict.judgement
        if judgement is _EXCLUDED:
            self.excluded += 1
        elif judgement is _CENSORED:
            self.censored += 1
        self.good += verdict.num_good
        self.bad += verdict.num_bad


class Owner:
    """What is counted of one tenant in one tier."""

    __slots__ = (
        "cached_tokens",
        "e2e",
        "endings",
        "itl",
        "output_tokens",
        "plugins",
        "prompt_tokens",
        "queued",
        "ttft",
        "verdicts",
    )

    def __init__(self) -> None:
        self.endings: dict[tuple[str, str], int] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.ttft, self.itl, self.e2e, self.queued = Histogram(), Histogram(), Histogram(), Histogram()
        self.plugins = Histogram()
        self.prompt_tokens = self.output_tokens = self.cached_tokens = 0

    def objective(self, name: str) -> Verdicts:
        """What was said for that objective; from its first mention on there are zeros, so that rates see the first."""
        return self.verdicts.setdefault(name, Verdicts())


class Metrics:
    """Counts settlements; `page` writes what there is."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], Owner] = {}
        self._plugins: dict[str, int] = {}  # "guard:allow" → how often; names are the policy's

    def settled(self, settle: Settle) -> None:
        """One request ended. Called for each, so nothing is formatted here."""
        record = settle.record
        owner = self._owners.get((record.tenant, record.tier)) or self._owner((record.tenant, record.tier))
        endings = owner.endings
        ending = (record.outcome, record.reason)
        endings[ending] = endings.get(ending, 0) + 1
        for verdict in record.verdicts:
            counts = owner.verdicts.get(verdict.objective) or owner.objective(verdict.objective)
            counts.add(verdict)
        if record.queued_for is not None:
            owner.queued.add(record.queued_for)
        if record.plugin_time is not None:
            owner.plugins.add(record.plugin_time)
            for said in record.plugins.split(",") if record.plugins else ():
                self._plugins[said] = self._plugins.get(said, 0) + 1
        if record.dispatched_at is None:
            return
        owner.prompt_tokens += record.prompt_tokens
        owner.output_tokens += record.output_tokens
        owner.cached_tokens += record.cached_tokens or 0
        if record.ttft is not None:
            owner.ttft.add(record.ttft)
        if record.e2e is not None:
            owner.e2e.add(record.e2e)
        if record.itl_sketches is not None:
            for sketch in record.itl_sketches:
                owner.itl.merge(sketch.buckets, sketch.num_zero)

    def take(self, policy: Policy) -> None:
        """Begin at zero what this policy's tenants will be judged by."""
        for tenant in policy.tenants:
            for name in dict.fromkeys((tenant.tier, *tenant.tiers)):
                owner = self._owner((tenant.name, name))
                for objective in policy.tier(name).objectives:
                    owner.objective(objective.name)

    def _owner(self, key: tuple[str, str]) -> Owner:
        if key not in self._owners and len(self._owners) >= MAX_OWNERS:
            key = ("other", "other")
        return self._owners.setdefault(key, Owner())

    def write(self, page: Exposition) -> Iterator[None]:
        """All that was counted. Yields now and then: a page of many tenants must not hold up whoever is served."""
        owners = sorted(self._owners.items())
        page.family("plimsoll_requests_total", "counter", "Requests that ended, by how and why.")
        for (tenant, tier), owner in owners:
            for (outcome, reason), num in sorted(owner.endings.items()):
                page.sample(num, tenant=tenant, tier=tier, outcome=str(outcome), reason=str(reason))
            yield
        page.family("plimsoll_verdicts_total", "counter", "What each objective said: requests, of itl tokens.")
        for (tenant, tier), owner in owners:
            for objective, counts in sorted(owner.verdicts.items()):
                for verdict in VERDICTS:
                    num = getattr(counts, verdict)
                    page.sample(num, tenant=tenant, tier=tier, objective=objective, verdict=verdict)
            yield
        page.family("plimsoll_plugin_answers_total", "counter", "What plugins said of requests.")
        for said, num in sorted(self._plugins.items()):
            plugin, _, answer = said.rpartition(":")
            page.sample(num, plugin=plugin, answer=answer)
        for name, text, read in TOKENS:
            page.family(f"plimsoll_{name}_tokens_total", "counter", text)
            for (tenant, tier), owner in owners:
                page.sample(read(owner), tenant=tenant, tier=tier)
            yield
        for name, text, read_histogram in TIMES:
            page.family(f"plimsoll_{name}_seconds", "histogram", text)
            for (tenant, tier), owner in owners:
                _write_histogram(page, read_histogram(owner), tenant=tenant, tier=tier, merged=name == "itl")
                yield


TOKENS: Final[tuple[tuple[str, str, Callable[[Owner], int]], ...]] = (
    ("prompt", "Prompt tokens of dispatched requests.", lambda owner: owner.prompt_tokens),
    ("output", "Output tokens.", lambda owner: owner.output_tokens),
    ("cached", "Prompt tokens that engines said were cached.", lambda owner: owner.cached_tokens),
)
TIMES: Final[tuple[tuple[str, str, Callable[[Owner], Histogram]], ...]] = (
    ("ttft", "Arrival to first token.", lambda owner: owner.ttft),
    ("itl", "Gaps between successive output tokens.", lambda owner: owner.itl),
    ("e2e", "Arrival to last token.", lambda owner: owner.e2e),
    ("queued", "Time in the queue.", lambda owner: owner.queued),
    ("plugins", "Time that plugins took.", lambda owner: owner.plugins),
)


def _write_histogram(page: Exposition, histogram: Histogram, *, tenant: str, tier: str, merged: bool) -> None:
    cumulated, num = histogram.cumulated()
    if not num:
        return
    total = histogram.sum_from_buckets() if merged else histogram.total
    told = Distribution(cumulated, num, total, histogram.buckets, histogram.num_zero)
    page.histogram(BOUNDS, told, tenant=tenant, tier=tier)


def write_snapshot(page: Exposition, snapshot: Snapshot) -> None:
    """The governor's state now: pools, replicas, queues. What is not known has no sample."""
    page.family("plimsoll_pool_saturation_ratio", "gauge", "How full a pool is; 1 holds.")
    for pool in snapshot.pools:
        page.optional(pool.saturation, pool=pool.pool, model=pool.model)
    for name, text, read in REPLICA:
        page.family(f"plimsoll_replica_{name}", "gauge", text)
        for pool in snapshot.pools:
            for replica in pool.replicas:
                page.optional(getattr(replica, read), pool=pool.pool, replica=replica.replica)
    page.family("plimsoll_waiting_requests", "gauge", "Requests in the queue.")
    for queue in snapshot.queues:
        page.sample(queue.waiting, pool=queue.pool, tier=queue.tier, tenant=queue.tenant)
    page.family("plimsoll_degradation_level", "gauge", "Steps of the degradation ladder that hold.")
    page.sample(snapshot.degradation_level)
    page.family("plimsoll_hedges_total", "counter", "Second replicas asked for a late first token.")
    for pool in snapshot.pools:
        page.sample(pool.hedges, pool=pool.pool)
    page.family("plimsoll_hedges_won_total", "counter", "Second replicas that showed the first token.")
    for pool in snapshot.pools:
        page.sample(pool.hedges_won, pool=pool.pool)
    page.family("plimsoll_rule_faults_total", "counter", "Times that a rule of another package failed.")
    for rule in snapshot.rules:
        page.sample(rule.num_faults, kind=rule.kind, rule=rule.name)
    page.family("plimsoll_policy_info", "gauge", "The policy in force.")
    page.sample(1, version=snapshot.policy_version)


REPLICA: Final = (
    ("up", "Whether it answers its probes.", "healthy"),
    ("in_flight_requests", "Requests that we have there.", "in_flight"),
    ("reserved_units", "Blocks or slots reserved by us.", "reserved"),
    ("capacity_units", "Blocks or slots it has.", "capacity"),
    ("running_requests", "Requests it says it runs.", "running"),
    ("queued_requests", "Requests it says wait in it.", "waiting"),
    ("kv_usage_ratio", "Share of its KV cache in use.", "kv_usage"),
    ("report_age_seconds", "Age of what it said.", "report_age"),
    ("ttft_error_median_ratio", "Median of |predicted - actual| / actual TTFT there.", "ttft_error_median"),
    ("ttft_error_p90_ratio", "90 % quantile of the same.", "ttft_error_p90"),
    ("ttft_bias_ratio", "Mean of predicted / actual - 1; above 0 is too pessimistic.", "ttft_bias"),
    ("ejections", "Times it was taken out as an outlier.", "ejected"),
)


def write_counts(page: Exposition, name: str, text: str, counts: Iterable[tuple[str, float]], label: str) -> None:
    """A family with one label, counted elsewhere."""
    page.family(name, "counter", text)
    for value, num in counts:
        page.sample(num, **{label: value})

"""What Prometheus sees: counted cheaply at each settlement, written only when somebody scrapes.

Labels are bounded: tenants and tiers are the policy's, outcomes and reasons are enums. Exact attainment comes from
verdicts, not from buckets.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from plimsoll.governor.decisions import Settle
from plimsoll.governor.snapshot import PoolState, Snapshot
from plimsoll.policy.policy import Policy
from plimsoll.telemetry.exposition import Exposition
from plimsoll.telemetry.owners import Owner
from plimsoll.telemetry.written import FAMILIES, Written

MAX_OWNERS: Final = 2000  # (tenant, tier) pairs; more are summed as "other"
AT_ONCE: Final = 8  # of them are written before others get their turn: half a millisecond


class Metrics:
    """Counts settlements; `write` fills a page with what there is."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], Owner] = {}
        self._sorted: list[tuple[tuple[str, str], Owner]] = []
        self._plugins: dict[str, int] = {}  # "guard:allow" → how often; names are the policy's
        self._written: dict[str, dict[tuple[str, str], Written]] = {}  # by content type

    def settled(self, settle: Settle) -> None:
        """One request ended. Called for each, so nothing is formatted here."""
        record = settle.record
        owner = self._owners.get((record.tenant, record.tier)) or self._owner((record.tenant, record.tier))
        owner.version += 1
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
        """All that was counted. Yields twice a ms: a page of many tenants must not hold up whoever is served."""
        written = self._written.setdefault(page.content_type, {})
        samples: list[list[bytes]] = []
        work = 0
        if len(self._sorted) != len(self._owners):
            self._sorted = sorted(self._owners.items())  # a millisecond
        for key, owner in [*self._sorted]:
            each = written.get(key)
            if each is None:
                each = written[key] = Written(owner, *key, page)
                work += AT_ONCE // 2 - 1  # the first time costs four times as much
            work += not each.is_current
            samples.append(each.of(page))
            if work >= AT_ONCE:
                work = 0
                yield
        for place, (name, kind, text) in enumerate(FAMILIES):
            page.family(name, kind, text)
            page.add([each[place] for each in samples])
            yield
        page.family("plimsoll_plugin_answers_total", "counter", "What plugins said of requests.")
        for said, num in sorted(self._plugins.items()):
            plugin, _, answer = said.rpartition(":")
            page.sample(num, plugin=plugin, answer=answer)


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
    _write_sizes(page, [pool for pool in snapshot.pools if pool.adaptive is not None])
    page.family("plimsoll_rule_faults_total", "counter", "Times that a rule of another package failed.")
    for rule in snapshot.rules:
        page.sample(rule.num_faults, kind=rule.kind, rule=rule.name)
    page.family("plimsoll_policy_info", "gauge", "The policy in force.")
    page.sample(1, version=snapshot.policy_version)


def _write_sizes(page: Exposition, pools: list[PoolState]) -> None:
    """Of pools that share their replicas with another."""
    if not pools:
        return
    page.family("plimsoll_pool_replicas", "gauge", "Replicas that serve a pool now, of pools that share them.")
    for pool in pools:
        if pool.adaptive is not None:
            page.sample(pool.adaptive.serving, pool=pool.pool)
            page.sample(pool.adaptive.serving_other, pool=pool.adaptive.other)
    page.family("plimsoll_pool_work_replicas", "gauge", "What such a pool has to do, in replicas: a running mean.")
    for pool in pools:
        if pool.adaptive is not None:
            page.sample(pool.adaptive.work, pool=pool.pool)
            page.sample(pool.adaptive.work_other, pool=pool.adaptive.other)
    page.family("plimsoll_pool_moves_total", "counter", "Replicas that went from one of the two pools to the other.")
    for pool in pools:
        if pool.adaptive is not None:
            page.sample(pool.adaptive.moves, pool=pool.pool)


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
    ("tpot_error_median_ratio", "As of TTFT, of the time a token after the first.", "tpot_error_median"),
    ("tpot_error_p90_ratio", "90 % quantile of the same.", "tpot_error_p90"),
    ("tpot_bias_ratio", "Mean of predicted / actual - 1; above 0 is too pessimistic.", "tpot_bias"),
    ("stall_ratio", "Share of its token gaps above 500 ms in the last week.", "stall_ratio"),
    ("ejections", "Times it was taken out as an outlier.", "ejected"),
)


def write_counts(page: Exposition, name: str, text: str, counts: Iterable[tuple[str, float]], label: str) -> None:
    """A family with one label, counted elsewhere."""
    page.family(name, "counter", text)
    for value, num in counts:
        page.sample(num, **{label: value})

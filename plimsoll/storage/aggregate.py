"""Gathers a large request log for a report: DuckDB adds up, only counts by bucket come to Python.

The same as `analytics.gathering.gather` record by record, in memory that grows with groups and not with requests. Only
groups of at most 1,024 values bring the values themselves, since their quantiles are exact.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import duckdb

from plimsoll.analytics.gathering import EVERYTHING, MAX_CAUSES, OTHER_CAUSES, BudgetKey, Gathered, Window, zone_of
from plimsoll.analytics.tally import NOT_ON_WORD, VOUCHED, Judged, Tally, promises_of
from plimsoll.policy.policy import Policy
from plimsoll.slo.budget import period_bounds, period_of
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Charge, Judgement
from plimsoll.storage.chosen import WAITED, quoted, within
from plimsoll.storage.resemblance import design_effects
from plimsoll.storage.sketches import latency_sketches

_OWNERS: Final = {"tenant": "tenant, tier", "cause": "cause"}
"""The two groupings that are gathered; tiers and all are sums of tenants."""


def aggregate(
    connection: duckdb.DuckDBPyConnection,
    policy: Policy,
    window: Window = EVERYTHING,
    versions: Mapping[str, Policy] | None = None,
) -> Gathered:
    """What a report of that window is compiled from; the connection has the view `requests` (`storage/query.py`)."""
    return _Aggregation(connection, policy, window, dict(versions or {}) | {policy.version: policy}).gathered()


class _Aggregation:
    """One pass of queries over a view of the chosen requests."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, policy: Policy, window: Window, versions: dict[str, Policy]
    ) -> None:
        self.connection = connection
        self.policy = policy
        self.window = window
        self.promises = {version: promises_of(each) for version, each in versions.items()}
        self.result = Gathered()

    def gathered(self) -> Gathered:
        self._choose()
        for kind, keys in _OWNERS.items():
            self._counts(kind, keys)
            self._goodput(kind, keys)
            self._verdicts(kind, keys)
            self._latencies(kind, keys)
        self._itl()
        self._budgets()
        self._whole_log()
        self.result.design_effects = design_effects(self.connection, self.result)
        return self.result

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query).fetchall()

    def _choose(self) -> None:
        """The view `chosen`: the window's requests, with rare causes under one name and what each waited."""
        self.connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE common_causes AS
            SELECT cause FROM requests WHERE {within(self.window)}
            GROUP BY cause ORDER BY count(*) DESC, cause LIMIT {MAX_CAUSES}"""
        )
        self.connection.execute(
            f"""CREATE OR REPLACE TEMP VIEW chosen AS
            SELECT requests.* REPLACE (
                    CASE WHEN requests.cause IN (FROM common_causes) THEN requests.cause
                         ELSE {quoted(OTHER_CAUSES)} END AS cause),
                {WAITED}
            FROM requests WHERE {within(self.window)}"""
        )

    def _tally(self, kind: str, group: tuple[Any, ...]) -> Tally:
        if kind == "tenant":
            return self.result.tally_of(group[0], group[1])
        return self.result.causes.setdefault(group[0], Tally())

    def _counts(self, kind: str, keys: str) -> None:
        width = keys.count(",") + 1
        for row in self._rows(
            f"""SELECT {keys}, outcome, reason, count(*), sum(prompt_tokens), sum(output_tokens), sum(cached_tokens),
                count_if(degraded <> ''), count_if(attempts > 1), min(arrived_at), max(finished_at)
            FROM chosen GROUP BY ALL"""
        ):
            tally = self._tally(kind, row[:width])
            outcome, reason, num, prompt, output, cached, degraded, retried, arrival, finish = row[width:]
            ending = (Outcome(outcome), Reason(reason))
            tally.endings[ending] = tally.endings.get(ending, 0) + num
            tally.num += num
            tally.prompt_tokens += int(prompt)
            tally.output_tokens += int(output)
            if cached is not None:
                tally.cached_tokens = (tally.cached_tokens or 0) + int(cached)
            tally.num_degraded += degraded
            tally.num_retried += retried
            tally.seen_between(arrival, finish)

    def _goodput(self, kind: str, keys: str) -> None:
        """As `tally.met`: a token objective is met by a request whose share of bad tokens its target allows."""
        width = keys.count(",") + 1
        unmet = f"len(list_filter(verdicts, lambda v: v.num_bad > 0 AND NOT ({self._allowed()})))"
        judged = "len(list_filter(verdicts, lambda v: v.num_good + v.num_bad > 0)) > 0"
        good = "len(list_filter(verdicts, lambda v: v.num_good > 0)) > 0"
        for row in self._rows(
            f"""SELECT {keys}, count_if({judged}),
                count_if(outcome = '{Outcome.COMPLETED.value}' AND {unmet} = 0 AND {good})
            FROM chosen GROUP BY ALL"""
        ):
            tally = self._tally(kind, row[:width])
            tally.num_judged += row[width]
            tally.num_met += row[width + 1]

    def _allowed(self) -> str:
        """Whether a verdict `v` of a token objective is within its target, in whole numbers."""
        targets: dict[tuple[str, str, int, int], list[str]] = {}
        for version, promises in self.promises.items():
            for (tier, name), objective in promises.items():
                if objective.counts_tokens:
                    ratio = objective.target
                    targets.setdefault((tier, name, ratio.numerator, ratio.denominator), []).append(version)
        known = ", ".join(quoted(version) for version in self.promises)
        parts = ["false"]
        for (tier, name, good, of), versions in targets.items():
            listed = ", ".join(quoted(version) for version in versions)
            own = f"policy_version IN ({listed})"
            if self.policy.version in versions:  # a version that nobody knows is judged by the latest
                own = f"({own} OR policy_version NOT IN ({known}))"
            parts.append(
                f"(tier = {quoted(tier)} AND v.objective = {quoted(name)} AND {own}"
                f" AND v.num_bad * {of}::HUGEINT <= (v.num_good + v.num_bad) * {of - good}::HUGEINT)"
            )
        return " OR ".join(parts)

    def _verdicts(self, kind: str, keys: str) -> None:
        width = keys.count(",") + 1
        for row in self._rows(
            f"""SELECT {keys}, v.objective, v.judgement, v.charge, count(*), sum(v.num_good), sum(v.num_bad),
                count_if(v.num_good + v.num_bad > 0), sum(CASE WHEN word THEN v.num_bad ELSE 0 END)
            FROM (SELECT {keys}, upstream_time IS NOT NULL AND upstream_trust NOT IN {VOUCHED} AS word,
                unnest(verdicts) AS v FROM chosen) GROUP BY {keys}, v.objective, v.judgement, v.charge"""
        ):
            objective, judgement, charge, num, good, bad, requests, said = row[width:]
            judged = self._tally(kind, row[:width]).objectives.setdefault(objective, Judged())
            judged.num_good += int(good)
            judged.num_bad += int(bad)
            judged.num_requests += requests
            judged.num_censored += num if judgement == Judgement.CENSORED else 0
            judged.num_excluded += num if judgement == Judgement.EXCLUDED else 0
            if charge is not None:
                judged.charges[Charge(charge)] = judged.charges.get(Charge(charge), 0) + int(bad)
                judged.num_on_word += 0 if Charge(charge) in NOT_ON_WORD else int(said)

    def _latencies(self, kind: str, keys: str) -> None:
        width = keys.count(",") + 1
        for group, sketch in latency_sketches(self.connection, keys):
            latency = self._tally(kind, group[:width]).latencies[group[width]]
            (latency.cut_off if group[width + 1] else latency.seen).merge(sketch)

    def _itl(self) -> None:
        """Both groupings in one pass: taking the sketches apart is what costs."""
        classes = """SELECT tenant, tier, cause, unnest(itl_sketches) AS s, unnest([1, 2, 3]) AS class
            FROM chosen WHERE itl_sketches IS NOT NULL"""
        self._token_gaps(
            f"""SELECT grouping(cause), tenant, tier, cause, class, 0, sum(s.num_zero) FROM ({classes})
            GROUP BY GROUPING SETS ((tenant, tier, class), (cause, class))""",
            zeros=True,
        )
        self._token_gaps(
            f"""SELECT grouping(cause), tenant, tier, cause, class, e.key, sum(e.value)
            FROM (SELECT tenant, tier, cause, class, unnest(map_entries(s.buckets)) AS e FROM ({classes}))
            GROUP BY GROUPING SETS ((tenant, tier, class, e.key), (cause, class, e.key))""",
            zeros=False,
        )

    def _token_gaps(self, query: str, *, zeros: bool) -> None:
        parts: dict[tuple[Any, ...], dict[int, int]] = {}
        for by_tenant, tenant, tier, cause, place, bucket, num in self._rows(query):
            owner = ("tenant", (tenant, tier), place) if by_tenant else ("cause", (cause,), place)
            parts.setdefault(owner, {})[bucket] = int(num)
        for (kind, group, place), counts in parts.items():
            if sum(counts.values()):
                sketch = self._tally(kind, group).itl[place - 1]
                sketch.add_buckets(counts[0] if zeros else 0, {} if zeros else counts)

    def _budgets(self) -> None:
        """Whole months up to the window's end, whatever its beginning."""
        span = self._rows(
            f"""SELECT tenant, min(arrived_at), max(arrived_at)
            FROM requests WHERE {within(self.window, since=False)} GROUP BY ALL"""
        )
        months = [
            month for tenant, first, last in span for month in self._months(tenant, max(first, self.window.since), last)
        ]
        if not months:
            return
        self.connection.execute(
            "CREATE OR REPLACE TEMP TABLE months (tenant VARCHAR, period VARCHAR, low DOUBLE, high DOUBLE)"
        )
        self.connection.executemany("INSERT INTO months VALUES (?, ?, ?, ?)", months)
        for tenant, tier, objective, version, period, judged, bad in self._rows(
            f"""SELECT tenant, tier, v.objective, policy_version, period, sum(v.num_good + v.num_bad), sum(v.num_bad)
            FROM (SELECT r.tenant, tier, policy_version, period, unnest(verdicts) AS v
                FROM (SELECT * FROM requests WHERE {within(self.window, since=False)}) r
                JOIN months ON r.tenant = months.tenant AND arrived_at >= low AND arrived_at < high)
            GROUP BY ALL HAVING sum(v.num_good + v.num_bad) > 0"""
        ):
            promises = self.promises.get(version, self.promises[self.policy.version])
            if (tier, objective) in promises:
                key = BudgetKey(tenant, tier, objective, period, promises[tier, objective].target)
                before = self.result.budgets.get(key, (0, 0))
                self.result.budgets[key] = (before[0] + int(judged), before[1] + int(bad))

    def _months(self, tenant: str, first: float, last: float) -> Iterable[list[Any]]:
        zone = zone_of(self.policy, tenant)
        low, high = period_bounds(period_of(first, zone), zone)
        while low <= last:
            yield [tenant, period_of(low, zone), low, high]
            low, high = period_bounds(period_of(high, zone), zone)

    def _whole_log(self) -> None:
        versions = self._rows("SELECT DISTINCT policy_version FROM chosen")
        self.result.policy_versions = {version for (version,) in versions}
        self.result.num_repeated = int(self._rows("SELECT count(*) - count(DISTINCT request_id) FROM chosen")[0][0])

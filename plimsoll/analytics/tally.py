"""Sums over requests: what a report is made of. Merging two tallies is adding, so any grouping adds up.

A latency has two sketches: values that were seen, and waits that were cut off before the value came (the client left,
we gave up, the engine failed). The second kind is right-censored, neither dropped nor taken for the value.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from plimsoll.policy.objective import Objective
from plimsoll.policy.policy import Policy, UpstreamTrust
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import REASONS, Blame, Outcome, Reason
from plimsoll.slo.quantiles import Sketch
from plimsoll.slo.verdict import Charge, Judgement, Verdict

K = TypeVar("K")

LATENCIES: Final = ("ttft", "tpot", "e2e", "queued_for")
"""Of requests; ITL is of tokens and kept apart."""
POSITIONS: Final = ("tokens 1-128", "tokens 129-1024", "tokens beyond 1024")
"""Classes by position in the answer, in which ITL is kept."""

NOT_WAITING: Final = frozenset(
    reason for reason, row in REASONS.items() if row.blame in {Blame.CLIENT, Blame.TENANT}
) | {Reason.TOO_MANY_CONNECTIONS}
"""Reasons after which nobody had waited for an answer that was going to come: no censored value."""

VOUCHED: Final = (UpstreamTrust.SIGNED.value, UpstreamTrust.MEASURED.value)
NOT_ON_WORD: Final = (Charge.OURS, Charge.CLIENT)
"""Accounts on which a breach would be whatever the tenant said of its upstream time."""

Promises = Mapping[tuple[str, str], Objective]
"""Objectives by (tier, name)."""


def promises_of(policy: Policy) -> dict[tuple[str, str], Objective]:
    """Every objective of a policy under its tier and name."""
    return {(tier.name, objective.name): objective for tier in policy.tiers for objective in tier.objectives}


class Latency:
    """One kind of duration, in s."""

    def __init__(self) -> None:
        self.seen = Sketch()
        self.cut_off = Sketch()  # how long those waited whose value never came

    def merge(self, other: "Latency") -> None:
        """Add the other's values."""
        self.seen.merge(other.seen)
        self.cut_off.merge(other.cut_off)


class Judged:
    """What one objective said, over requests. Good and bad are in the objective's unit, requests or tokens."""

    def __init__(self) -> None:
        self.num_good = 0
        self.num_bad = 0
        self.num_censored = 0  # requests
        self.num_excluded = 0  # requests
        self.num_requests = 0  # with a good or bad verdict
        self.charges: dict[Charge, int] = {}  # of the bad ones
        self.num_on_word = 0  # bad ones that, or whose account, only the tenant's word for its upstream time makes

    def add(self, verdict: Verdict, times: int = 1, *, word: bool = False) -> None:
        """One verdict, or as many equal ones; `word`: the upstream time is what the tenant says."""
        self.num_good += verdict.num_good * times
        self.num_bad += verdict.num_bad * times
        self.num_censored += times * (verdict.judgement is Judgement.CENSORED)
        self.num_excluded += times * (verdict.judgement is Judgement.EXCLUDED)
        self.num_requests += times * (verdict.num_good + verdict.num_bad > 0)
        if verdict.charge is not None:
            self.charges[verdict.charge] = self.charges.get(verdict.charge, 0) + verdict.num_bad * times
            self.num_on_word += verdict.num_bad * times * (word and verdict.charge not in NOT_ON_WORD)

    def merge(self, other: "Judged") -> None:
        """Add the other's counts."""
        self.num_good += other.num_good
        self.num_bad += other.num_bad
        self.num_censored += other.num_censored
        self.num_excluded += other.num_excluded
        self.num_requests += other.num_requests
        self.num_on_word += other.num_on_word
        _add(self.charges, other.charges)


class Tally:
    """All that a report says of one group of requests."""

    def __init__(self) -> None:
        self.num = 0
        self.endings: dict[tuple[Outcome, Reason], int] = {}
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.cached_tokens: int | None = None  # None: no engine said
        self.num_degraded = 0
        self.num_retried = 0  # dispatched more than once
        self.first_arrival: float | None = None
        self.last_finish: float | None = None
        self.latencies: dict[str, Latency] = {name: Latency() for name in LATENCIES}
        self.itl: tuple[Sketch, Sketch, Sketch] = (Sketch(), Sketch(), Sketch())
        self.objectives: dict[str, Judged] = {}
        self.num_judged = 0  # with any good or bad verdict: the denominator of goodput's ratio
        self.num_met = 0  # completed, every objective of the tier met

    def add(self, record: Record, promises: Promises) -> None:
        """One request."""
        self.num += 1
        _add(self.endings, {(record.outcome, record.reason): 1})
        self.prompt_tokens += record.prompt_tokens
        self.output_tokens += record.output_tokens
        if record.cached_tokens is not None:
            self.cached_tokens = (self.cached_tokens or 0) + record.cached_tokens
        self.num_degraded += bool(record.degraded)
        self.num_retried += record.attempts > 1
        self.seen_between(record.arrived_at, record.finished_at)
        for name in LATENCIES:
            value, cut_off = latency_of(record, name)
            if value is not None:
                (self.latencies[name].cut_off if cut_off else self.latencies[name].seen).add(max(0.0, value))
        for sketch, part in zip(self.itl, record.itl_sketches or (), strict=False):
            sketch.add_itl(part)
        for verdict in record.verdicts:
            self.objectives.setdefault(verdict.objective, Judged()).add(verdict, word=on_word(record))
        self.num_judged += any(verdict.num_good + verdict.num_bad for verdict in record.verdicts)
        self.num_met += met(record, promises)

    def seen_between(self, arrival: float, finish: float) -> None:
        """Widen the span that this tally covers."""
        self.first_arrival = arrival if self.first_arrival is None else min(self.first_arrival, arrival)
        self.last_finish = finish if self.last_finish is None else max(self.last_finish, finish)

    def merge(self, other: "Tally") -> None:
        """Add the other's requests."""
        self.num += other.num
        _add(self.endings, other.endings)
        self.prompt_tokens += other.prompt_tokens
        self.output_tokens += other.output_tokens
        if other.cached_tokens is not None:
            self.cached_tokens = (self.cached_tokens or 0) + other.cached_tokens
        self.num_degraded += other.num_degraded
        self.num_retried += other.num_retried
        if other.first_arrival is not None and other.last_finish is not None:
            self.seen_between(other.first_arrival, other.last_finish)
        for name, latency in other.latencies.items():
            self.latencies[name].merge(latency)
        for sketch, part in zip(self.itl, other.itl, strict=True):
            sketch.merge(part)
        for name, judged in other.objectives.items():
            self.objectives.setdefault(name, Judged()).merge(judged)
        self.num_judged += other.num_judged
        self.num_met += other.num_met

    def outcomes(self) -> dict[Outcome, int]:
        """Counts by outcome, every outcome named."""
        counts = dict.fromkeys(Outcome, 0)
        for (outcome, _), num in self.endings.items():
            counts[outcome] += num
        return counts


def latency_of(record: Record, name: str) -> tuple[float | None, bool]:
    """(seconds, whether it was cut off); None where the request has no such latency at all.

    TTFT is that of streamed answers, E2E that of whole ones; both are cut off where the request ended before, through
    no fault of its own. TPOT is what it is of the tokens that came, queueing ends whatever happens.
    """
    if name == "tpot":
        return record.tpot, False
    if name == "queued_for":
        return (record.queued_for, False) if record.outcome is not Outcome.REJECTED else (None, False)
    if name == "ttft" and not record.streaming:
        return None, False
    value = record.ttft if name == "ttft" else record.e2e if record.outcome is Outcome.COMPLETED else None
    if value is not None:
        return value, False
    if record.outcome in {Outcome.REJECTED, Outcome.COMPLETED} or record.reason in NOT_WAITING:
        return None, False
    return record.finished_at - record.arrived_at, True


def met(record: Record, promises: Promises) -> bool:
    """Whether the request counts as goodput: completed, and every objective of its tier that judged it was met.

    A token objective is met by a request whose own share of bad tokens the target allows.
    """
    if record.outcome is not Outcome.COMPLETED:
        return False
    for verdict in record.verdicts:
        if verdict.num_bad:
            objective = promises.get((record.tier, verdict.objective))
            if objective is None or not objective.counts_tokens:
                return False
            if verdict.num_bad > (verdict.num_good + verdict.num_bad) * (1 - objective.target):
                return False
    return any(verdict.num_good for verdict in record.verdicts)


def on_word(record: Record) -> bool:
    """Whether only its tenant says how long the request was under way before it came to us."""
    return record.upstream_time is not None and record.upstream_trust not in VOUCHED


def merged(tallies: Iterable[Tally]) -> Tally:
    """A new tally of all of them."""
    total = Tally()
    for tally in tallies:
        total.merge(tally)
    return total


def _add(counts: dict[K, int], more: Mapping[K, int]) -> None:
    for key, num in more.items():
        counts[key] = counts.get(key, 0) + num

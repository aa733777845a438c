"""The figures of a report: values only, ready for JSON. Durations in s, instants UTC epoch s; None is "not known"."""

from msgspec import Struct

from plimsoll.analytics.attainment import Attainment, Goodput


class QuantileFigure(Struct, frozen=True):
    """One quantile. `value` is set only where data bound it from both sides at 95 %.

    `above`: the answer lies beyond the last moment at which anybody was still waiting, and nothing more may be said.
    """

    quantile: float
    value: float | None
    above: float | None
    low: float | None
    high: float | None
    naive_low: float | None  # where waits were cut off: those taken at face value …
    naive_high: float | None  # … and as never ending
    effective_num: int | None  # what `num` autocorrelated values are worth; None: taken as independent


class RatioFigure(Struct, frozen=True):
    """P99 ÷ P50, the first figure of health."""

    value: float | None
    low: float | None
    high: float | None
    word: str  # "even", "normal", "wide", "alarm", "not enough data"


class LatencyFigure(Struct, frozen=True):
    """One kind of duration of a group. `num` counts values, `num_cut_off` waits whose value never came."""

    name: str
    num: int
    num_cut_off: int
    quantiles: tuple[QuantileFigure, ...]
    p99_over_p50: RatioFigure


class BudgetFigure(Struct, frozen=True):
    """One month of one objective's error budget, in its unit."""

    period: str
    num_judged: int
    granted: int
    pool_part: int
    bucket: int
    spent: int
    remaining: int
    spent_ratio: float | None


class ObjectiveFigure(Struct, frozen=True):
    """One objective of one group: what was promised, what was kept, what is left."""

    name: str
    sli: str
    unit: str  # "requests" or "tokens"
    below: float | None  # None: availability has no threshold
    origin: str
    target: float
    contract: float | None
    num_good: int
    num_bad: int
    num_censored: int  # requests
    num_excluded: int  # requests
    attainment: Attainment
    charges: dict[str, int]
    num_on_word: int  # bad events that only the tenant's word for its upstream time makes, or puts on their account
    budgets: tuple[BudgetFigure, ...]


class ReasonCount(Struct, frozen=True):
    """How many ended so, and why."""

    outcome: str
    reason: str
    num: int


class GroupFigures(Struct, frozen=True):
    """Everything about the requests of one tenant in one tier, of a tier, of a cause, or of all."""

    kind: str  # "tenant", "tier", "cause", "all"
    name: str
    tier: str
    num: int
    outcomes: dict[str, int]  # every outcome, in the order of `slo/outcome.py`
    conserved: bool  # received = the sum of outcomes
    reasons: tuple[ReasonCount, ...]  # other than plain completion, most frequent first
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    num_degraded: int
    num_retried: int
    goodput: Goodput
    latencies: tuple[LatencyFigure, ...]
    itl: LatencyFigure
    itl_by_position: tuple[LatencyFigure, ...]
    objectives: tuple[ObjectiveFigure, ...]


class FairnessFigures(Struct, frozen=True):
    """Jain's index over tenants, 1 where all are equal; None with nothing to compare."""

    tier: str  # "": all tiers
    num_tenants: int
    goodput_ratio: float | None  # of how much each got of what it was promised
    service: float | None  # of weighted tokens by each tenant's weight


class Report(Struct, frozen=True):
    """What happened in a window, by tenant, tier and cause."""

    schema: int
    source: str
    policy_versions: tuple[str, ...]
    since: float | None
    until: float | None
    first_arrival: float | None
    last_finish: float | None
    span: float | None  # s over which rates are taken
    num_repeated: int
    total: GroupFigures
    tenants: tuple[GroupFigures, ...]
    tiers: tuple[GroupFigures, ...]
    causes: tuple[GroupFigures, ...]
    fairness: tuple[FairnessFigures, ...]
    p99_ttft_index: float | None  # mean of the tiers' P99s by requests: an index, no quantile of anything
    notes: tuple[str, ...]

"""What is going on now, added up from the gateway's decisions as they stream by: one reading, shown by `top`."""

from collections import Counter, deque
from collections.abc import Iterable
from fractions import Fraction
from math import ceil, floor
from typing import Final

from msgspec import Struct

from plimsoll.governor.decisions import Decision, Dispatch, Enqueue, Evict, Expire, Fail, Reject, Settle, Shed
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tenant
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.sli import Judgement

WINDOW: Final = 120.0  # s that quantiles look back
ENOUGH: Final = 368  # values below which nothing bounds a p99 from above (DESIGN, "Quantiles")
NUM_LINES: Final = 200  # decisions kept for showing


class TenantReading(Struct, frozen=True):
    """One tenant now. Quantiles are TTFT over the window, in s; None is unknown. Counts are since the view began."""

    tenant: str
    tier: str
    num_recent: int  # first tokens in the window
    p50: float | None
    p99: float | None
    ratio: float | None  # p99 ÷ p50
    attainment_ratio: float | None  # of its worst objective
    worst_objective: str
    target: float | None
    budget_left_ratio: float | None  # of that objective; below 0: overdrawn
    num_queued: int
    num_running: int
    outcomes: dict[str, int]


class Line(Struct, frozen=True):
    """One decision, in words."""

    at: float
    tenant: str
    verb: str
    reason: str
    more: str = ""


class _Tenant:
    """What is kept of one tenant."""

    def __init__(self, tenant: Tenant, objectives: tuple[Objective, ...]) -> None:
        self.name, self.tier = tenant.name, tenant.tier
        self.objectives = objectives
        self.first_tokens: deque[tuple[float, float]] = deque()  # (when settled, TTFT)
        self.judged: dict[str, list[int]] = {objective.name: [0, 0] for objective in objectives}  # good, bad
        self.outcomes: Counter[str] = Counter()

    def settled(self, at: float, record: Record) -> None:
        self.outcomes[record.outcome] += 1
        if record.ttft is not None:
            self.first_tokens.append((at, record.ttft))
        for verdict in record.verdicts:
            counts = self.judged.get(verdict.objective)
            if counts is not None and verdict.judgement in {Judgement.GOOD, Judgement.BAD}:
                counts[0] += verdict.num_good
                counts[1] += verdict.num_bad

    def reading(self, now: float, num_queued: int, num_running: int) -> TenantReading:
        while self.first_tokens and self.first_tokens[0][0] < now - WINDOW:
            self.first_tokens.popleft()
        values = sorted(ttft for _, ttft in self.first_tokens)
        p50, p99 = _quantile(values, 0.5), _quantile(values, 0.99)
        worst = self._worst()
        return TenantReading(
            tenant=self.name,
            tier=self.tier,
            num_recent=len(values),
            p50=p50,
            p99=p99,
            ratio=p99 / p50 if p50 and p99 is not None else None,
            attainment_ratio=worst[0] if worst else None,
            worst_objective=worst[1].name if worst else "",
            target=float(worst[1].target) if worst else None,
            budget_left_ratio=worst[2] if worst else None,
            num_queued=num_queued,
            num_running=num_running,
            outcomes=dict(self.outcomes),
        )

    def _worst(self) -> tuple[float, Objective, float | None] | None:
        """(attainment, objective, budget left) of the objective that has used most of what it may."""
        found: list[tuple[float, float, Objective, float | None]] = []
        for objective in self.objectives:
            good, bad = self.judged[objective.name]
            if good + bad:
                allowed = floor((good + bad) * (1 - objective.target))
                used = float(Fraction(bad, good + bad) / (1 - objective.target))
                found.append((used, good / (good + bad), objective, 1 - bad / allowed if allowed else None))
        if not found:
            return None
        _, attainment, objective, left = max(found, key=lambda one: (one[0], one[2].sli is not Sli.AVAILABILITY))
        return attainment, objective, left


def _quantile(ordered: list[float], q: float) -> float | None:
    return ordered[ceil(q * len(ordered)) - 1] if ordered else None


class Live:
    """Takes decisions in order and knows at any time how each tenant fares."""

    def __init__(self, policy: Policy) -> None:
        self._tenants = {tenant.name: _Tenant(tenant, policy.tier(tenant.tier).objectives) for tenant in policy.tenants}
        self._open: dict[int, tuple[str, bool]] = {}  # request -> (tenant, dispatched)
        self.lines: deque[Line] = deque(maxlen=NUM_LINES)
        self.num_decisions = 0
        self.num_dropped = 0  # decisions that the stream could not show us
        self.outcomes: Counter[str] = Counter()

    def take(self, at: float, tenant: str, decision: Decision) -> None:
        """One decision about a request of `tenant`."""
        self.num_decisions += 1
        if isinstance(decision, Settle):
            self._settled(at, decision.record)
        elif isinstance(decision, Dispatch):
            self._open[decision.request_id] = (tenant, True)
            self._say(at, tenant, decision, _where(decision))
        elif isinstance(decision, Enqueue):
            self._open[decision.request_id] = (tenant, False)
            self._say(at, tenant, decision)
        elif isinstance(decision, Reject | Shed | Expire | Fail | Evict):
            after = getattr(decision, "retry_after", 0.0)
            self._say(at, tenant, decision, f"retry after {after:.0f} s" if after else "")

    def _say(
        self,
        at: float,
        tenant: str,
        decision: Dispatch | Enqueue | Reject | Shed | Expire | Fail | Evict,
        more: str = "",
    ) -> None:
        self.lines.append(Line(at, tenant, type(decision).__name__.lower(), decision.reason, more))

    def _settled(self, at: float, record: Record) -> None:
        self._open.pop(record.request_id, None)
        self.outcomes[record.outcome] += 1
        known = self._tenants.get(record.tenant)
        if known is not None:
            known.settled(at, record)
        if record.outcome is not Outcome.COMPLETED:
            self.lines.append(Line(at, record.tenant, str(record.outcome), record.reason))

    def readings(self, now: float) -> list[TenantReading]:
        """All tenants, in the policy's order."""
        queued: Counter[str] = Counter()
        running: Counter[str] = Counter()
        for tenant, dispatched in self._open.values():
            (running if dispatched else queued)[tenant] += 1
        return [tenant.reading(now, queued[name], running[name]) for name, tenant in self._tenants.items()]

    def last_lines(self, num: int) -> Iterable[Line]:
        """The last `num` decisions, oldest first."""
        return list(self.lines)[-num:] if num > 0 else []


def _where(decision: Dispatch) -> str:
    wait = f" as {decision.tier_served}" if decision.degraded else ""
    again = f", attempt {decision.attempt}" if decision.attempt > 1 else ""
    return f"→ {decision.replica.removeprefix('http://')}{wait}{again}"

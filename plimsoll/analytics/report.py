"""Compiles a report: what happened by tenant, tier and cause, how sure that is, and what of the budgets is left.

The same tallies give the same report, whatever the order in which they were gathered.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from plimsoll.analytics.attainment import attainment, goodput
from plimsoll.analytics.fairness import jain, service
from plimsoll.analytics.figures import (
    BudgetFigure,
    FairnessFigures,
    GroupFigures,
    ObjectiveFigure,
    ReasonCount,
    Report,
)
from plimsoll.analytics.gathering import EVERYTHING, Gathered, Window, gather
from plimsoll.analytics.latencyfigures import Effects, latency_figure, token_figure
from plimsoll.analytics.tally import LATENCIES, POSITIONS, Tally, merged, promises_of
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.budget import Judged, grant_to_date
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.quantiles import Sketch

SCHEMA: Final = 1
"""Of the JSON form; additive only."""


def report_of(records: Iterable[Record], policy: Policy, window: Window = EVERYTHING, source: str = "") -> Report:
    """A report straight from records, as a simulation has them."""
    return compile_report(gather(records, policy, window), policy, window, source)


def compile_report(gathered: Gathered, policy: Policy, window: Window = EVERYTHING, source: str = "") -> Report:
    """The report of what was gathered in that window; `policy` is the one in force at its end."""
    return _Compiler(gathered, policy, window, source).report()


class _Compiler:
    """One report in the making: holds what every part of it needs."""

    def __init__(self, gathered: Gathered, policy: Policy, window: Window, source: str) -> None:
        self.gathered = gathered
        self.policy = policy
        self.window = window
        self.source = source
        self.total = merged(gathered.tenants[key] for key in sorted(gathered.tenants))
        self.since = _finite(window.since)
        self.until = _finite(window.until)
        begin = self.since if self.since is not None else self.total.first_arrival
        end = self.until if self.until is not None else self.total.last_finish
        if end is not None and self.total.last_finish is not None:
            end = min(end, self.total.last_finish)
        self.span = None if begin is None or end is None or end <= begin else end - begin

    def report(self) -> Report:
        tenants = sorted(self.gathered.tenants.items(), key=lambda item: (self._rank(item[0][1]), item[0]))
        tiers = sorted({tier for _, tier in self.gathered.tenants}, key=lambda tier: (self._rank(tier), tier))
        by_tier = {tier: merged(tally for (_, of), tally in tenants if of == tier) for tier in tiers}
        causes = sorted(self.gathered.causes.items(), key=lambda item: (-item[1].num, item[0]))
        tier_figures = tuple([self._group("tier", tier, tier, tally) for tier, tally in by_tier.items()])
        return Report(
            schema=SCHEMA,
            source=self.source,
            policy_versions=tuple(sorted(self.gathered.policy_versions)),
            since=self.since,
            until=self.until,
            first_arrival=self.total.first_arrival,
            last_finish=self.total.last_finish,
            span=self.span,
            num_repeated=self.gathered.num_repeated,
            total=self._group("all", "all", "", self.total),
            tenants=tuple([self._group("tenant", name, tier, tally) for (name, tier), tally in tenants]),
            tiers=tier_figures,
            causes=tuple([self._group("cause", cause, "", tally) for cause, tally in causes]),
            fairness=tuple([self._fairness(tier) for tier in ("", *tiers)]),
            p99_ttft_index=_index(tier_figures),
            notes=tuple(self._notes()),
        )

    def _rank(self, tier: str) -> int:
        return next((each.rank for each in self.policy.tiers if each.name == tier), 1 << 30)

    def _group(self, kind: str, name: str, tier: str, tally: Tally) -> GroupFigures:
        counts = tally.outcomes()
        group = f"{name}/{tier}" if kind == "tenant" else name
        positions = [token_figure(label, part) for label, part in zip(POSITIONS, tally.itl, strict=True)]
        itl = merged_itl(tally)
        return GroupFigures(
            kind=kind,
            name=name,
            tier=tier,
            num=tally.num,
            outcomes={outcome.value: num for outcome, num in counts.items()},
            conserved=tally.num == sum(counts.values()),
            reasons=_reasons(tally),
            prompt_tokens=tally.prompt_tokens,
            output_tokens=tally.output_tokens,
            cached_tokens=tally.cached_tokens,
            num_degraded=tally.num_degraded,
            num_retried=tally.num_retried,
            goodput=goodput(tally, self.span),
            latencies=tuple(
                [latency_figure(each, tally.latencies[each], self._effects(kind, group, each)) for each in LATENCIES]
            ),
            itl=token_figure("itl", itl),
            itl_by_position=tuple(positions),
            objectives=self._objectives(kind, name, tier, tally) if tier else (),
        )

    def _effects(self, kind: str, group: str, latency: str) -> Effects:
        known = self.gathered.design_effects
        return {
            q: effect for (of, name, which, q), effect in known.items() if (of, name, which) == (kind, group, latency)
        }

    def _objectives(self, kind: str, name: str, tier: str, tally: Tally) -> tuple[ObjectiveFigure, ...]:
        promised = next((each.objectives for each in self.policy.tiers if each.name == tier), ())
        return tuple(
            [
                self._objective(objective, name if kind == "tenant" else None, tier, tally)
                for objective in promised
                if objective.name in tally.objectives
            ]
        )

    def _objective(self, objective: Objective, tenant: str | None, tier: str, tally: Tally) -> ObjectiveFigure:
        judged = tally.objectives[objective.name]
        return ObjectiveFigure(
            name=objective.name,
            sli=objective.sli.value,
            unit="tokens" if objective.counts_tokens else "requests",
            below=None if objective.sli is Sli.AVAILABILITY else objective.below,
            origin=objective.origin.value,
            target=float(objective.target),
            contract=None if objective.contract is None else float(objective.contract),
            num_good=judged.num_good,
            num_bad=judged.num_bad,
            num_censored=judged.num_censored,
            num_excluded=judged.num_excluded,
            attainment=attainment(judged, objective, self.policy.service.censored_limit),
            charges={charge.value: num for charge, num in sorted(judged.charges.items())},
            num_on_word=judged.num_on_word,
            budgets=self._budgets(tenant, tier, objective.name) if tenant is not None else (),
        )

    def _budgets(self, tenant: str, tier: str, objective: str) -> tuple[BudgetFigure, ...]:
        """By month; only a tenant has a budget. Targets that changed within a month are summed exactly."""
        months: dict[str, list[tuple[Judged, int]]] = {}
        for key, (num, bad) in self.gathered.budgets.items():
            if (key.tenant, key.tier, key.objective) == (tenant, tier, objective):
                months.setdefault(key.period, []).append((Judged(num, key.target), bad))
        return tuple([self._budget(period, months[period]) for period in sorted(months)])

    def _budget(self, period: str, spans: list[tuple[Judged, int]]) -> BudgetFigure:
        grant = grant_to_date([judged for judged, _ in spans], self.policy.service.shared_pool)
        spent = sum(bad for _, bad in spans)
        return BudgetFigure(
            period=period,
            num_judged=sum(judged.num for judged, _ in spans),
            granted=grant.total,
            pool_part=grant.pool_part,
            bucket=grant.bucket,
            spent=spent,
            remaining=grant.total - spent,
            spent_ratio=spent / grant.total if grant.total else None,
        )

    def _fairness(self, tier: str) -> FairnessFigures:
        members = [(name, tally) for (name, of), tally in self.gathered.tenants.items() if tier in {"", of}]
        weights = {tenant.name: tenant.weight for tenant in self.policy.tenants}
        judged = [(tally.num_met, tally.num_judged) for _, tally in members if tally.num_judged]
        shares = [float(service(tally) / weights.get(name, Fraction(1))) for name, tally in members]
        return FairnessFigures(
            tier=tier,
            num_tenants=len(members),
            goodput_ratio=jain(num_met / num for num_met, num in sorted(judged)),
            service=jain(sorted(shares)),
        )

    def _notes(self) -> Iterable[str]:
        if self.gathered.num_repeated:
            yield f"{self.gathered.num_repeated} rows repeat a request: the log is wrong"
        if any(tally.latencies[name].cut_off.num for tally in self.gathered.tenants.values() for name in LATENCIES):
            yield (
                "Some waits were cut off before their value came. Their quantiles are Kaplan–Meier's, which takes "
                "who is cut off to be independent of how slow it would have been; the naive bounds need no such thing."
            )
        if self.gathered.design_effects:
            yield "Intervals are widened by how much neighbouring requests resemble each other (blocks of time)."
        elif self.total.num:
            yield "Intervals take requests for independent; those of one busy minute are not, so they are too narrow."
        judged = [each for tally in self.gathered.tenants.values() for each in tally.objectives.values()]
        if said := sum(each.num_on_word for each in judged):
            bad = sum(each.num_bad for each in judged)
            yield (
                f"{said} of {bad} bad events are breaches, or are on their account, by what tenants say of their own "
                "upstream time (`service.upstream_time: header`)."
            )
        if len(self.gathered.policy_versions) > 1:
            yield "Several policies held: attainment is against the latest targets, budgets against each's own."
        for tier, objective in sorted(self._unknown()):
            yield f"Objective {objective!r} of tier {tier!r} was judged but is not in this policy: not shown."

    def _unknown(self) -> set[tuple[str, str]]:
        known = promises_of(self.policy)
        judged = {(tier, name) for (_, tier), tally in self.gathered.tenants.items() for name in tally.objectives}
        return judged - known.keys()


def merged_itl(tally: Tally) -> Sketch:
    """All token gaps of a tally, whatever their position."""
    whole = Sketch()
    for part in tally.itl:
        whole.merge(part)
    return whole


def _reasons(tally: Tally) -> tuple[ReasonCount, ...]:
    plain = (Outcome.COMPLETED, Reason.DONE)
    counts = [
        (num, outcome.value, reason.value)
        for (outcome, reason), num in tally.endings.items()
        if (outcome, reason) != plain
    ]
    return tuple(
        [ReasonCount(outcome, reason, num) for num, outcome, reason in sorted(counts, key=lambda c: (-c[0], c[1:]))]
    )


def _index(tiers: tuple[GroupFigures, ...]) -> float | None:
    """None where any tier that has streamed has no P99."""
    parts = []
    for tier in tiers:
        ttft = next(each for each in tier.latencies if each.name == "ttft")
        if ttft.num + ttft.num_cut_off:
            parts.append((next(q.value for q in ttft.quantiles if q.quantile == 0.99), ttft.num + ttft.num_cut_off))
    if not parts or any(value is None for value, _ in parts):
        return None
    return sum(value * num for value, num in parts if value is not None) / sum(num for _, num in parts)


def _finite(at: float) -> float | None:
    return at if abs(at) != float("inf") else None

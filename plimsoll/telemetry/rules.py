"""Prometheus rules for a policy's objectives: how fast each budget burns, and when that is worth waking somebody.

Windows and factors are those of `slo/burnrate.py`, derived for each target. PromQL cannot compute Clopper–Pearson's
lower bound; the rules take Molenaar's: the Poisson bound of the bad events by Wilson and Hilferty (1931), turned into
a ratio. From 5 bad events on it is never above the exact bound and at most an eighth below it: an alert is rather late
than wrong. Divisions are taken only where something was judged: no traffic gives no ratio, and a state that says so.
"""

from fractions import Fraction
from math import ceil, sqrt
from typing import Any, Final

from msgspec import Struct

from plimsoll.analytics.burn import period, severity_of
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tier
from plimsoll.slo.burnrate import MIN_BAD, BurnRule, burn_rules

ALERT: Final = "PlimsollBudgetBurn"
TAIL_ALERT: Final = "PlimsollTailRatio"
VERDICTS: Final = "plimsoll_verdicts_total"
_BY: Final = "tenant, tier, objective"
_Z: Final = 1.959964
TAIL_WINDOW: Final = "30m"
MIN_FOR_P99: Final = 368
"""Values that bound a P99 at all (two-sided 95 %, order statistics)."""
ALARMING: Final = 4
"""P99 ÷ P50; 1.5 to 2.5 is normal."""
TIMES: Final = ("ttft", "itl", "e2e")


class Burn(Struct, frozen=True):
    """One burn rule of one objective, in PromQL's terms."""

    objective: Objective
    rule: BurnRule

    @property
    def limit(self) -> Fraction:
        """The bad ratio at which the budget burns `factor` times too fast."""
        return self.rule.factor * (1 - self.objective.target)

    @property
    def long(self) -> str:
        """The long window, as a duration of PromQL."""
        return duration(self.rule.long)

    @property
    def short(self) -> str:
        """The short one."""
        return duration(self.rule.short)

    @property
    def severity(self) -> str:
        """page or ticket."""
        return severity_of(self.rule)


def burns(policy: Policy, objective: Objective) -> list[Burn]:
    """The rules of one objective, fastest first."""
    return [Burn(objective, rule) for rule in burn_rules(objective.target, period(policy))]


def rules(policy: Policy, *, native: bool = False) -> dict[str, Any]:
    """A rule file, as plain values: a group that counts events, one for each objective, and one for latencies."""
    groups = [_group(policy, tier, objective) for tier in policy.tiers for objective in tier.objectives]
    return {"groups": [_counts(policy), *groups, _latency_group(native)]}


def duration(seconds: Fraction) -> str:
    """As PromQL writes it, whole seconds: 10368 → "2h52m48s"."""
    rest, text = ceil(seconds), ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if rest >= size:
            text, rest = f"{text}{rest // size}{unit}", rest % size
    return text


def _counts(policy: Policy) -> dict[str, Any]:
    """What was judged, what was bad and whether that says anything, by window, for all objectives at once."""
    objectives = [objective for tier in policy.tiers for objective in tier.objectives]
    found = sorted((burn for each in objectives for burn in burns(policy, each)), key=lambda burn: burn.rule.long)
    windows = {burn.short: None for burn in found} | {burn.long: None for burn in found}
    by_token = {each.name for each in objectives if each.counts_tokens}
    by_request = sorted({each.name for each in objectives if not each.counts_tokens})
    counted = [rule for window in windows for rule in _recorded(window)]
    for long in {burn.long: None for burn in found if not burn.objective.counts_tokens}:
        here = f'{{objective=~"{"|".join(by_request)}"}}' if by_token else ""
        counted += _bounds(f"plimsoll:bad:increase{long}{here}", f"plimsoll:judged:increase{long}", "", long)
    for long in {burn.long: None for burn in found}:
        counted += _states(long)
    return {"name": "plimsoll-events", "rules": counted}


def _recorded(window: str) -> list[dict[str, Any]]:
    judged = f'sum by ({_BY}) (increase({VERDICTS}{{verdict=~"good|bad"}}[{window}]))'
    bad = f'sum by ({_BY}) (increase({VERDICTS}{{verdict="bad"}}[{window}]))'
    return [
        _record(f"plimsoll:judged:increase{window}", judged),
        _record(f"plimsoll:bad:increase{window}", bad),
        _record(
            f"plimsoll:bad_ratio:{window}",
            f"plimsoll:bad:increase{window} / (plimsoll:judged:increase{window} > 0)",
        ),
    ]


def lower_bound(num_bad: float, num: float) -> float:
    """What the rules compute of `num_bad` of `num` events, from 1 bad event on."""
    bound = num_bad * (1 - 1 / (9 * num_bad) - _Z / 3 / sqrt(num_bad)) ** 3
    return 2 * bound / (2 * num - num_bad + 1 + bound)


def _bounds(bad: str, judged: str, suffix: str, window: str) -> list[dict[str, Any]]:
    """Lower bounds of the bad events and of their ratio; absent below `MIN_BAD` bad events.

    λ = x (1 − 1 ÷ 9x − z ÷ 3√x)³ for x bad events, and 2λ ÷ (2n − x + 1 + λ) of n judged ones.
    """
    x = f"({bad} >= {MIN_BAD})"
    bound = f"plimsoll:bad_lower{suffix}:increase{window}"
    return [
        _record(bound, f"{x} * (1 - 1 / (9 * {bad}) - {_Z / 3:.6f} / sqrt({bad})) ^ 3"),
        _record(f"plimsoll:bad_ratio_lower{suffix}:{window}", f"2 * {bound} / (2 * {judged} - {bad} + 1 + {bound})"),
    ]


def _states(window: str) -> list[dict[str, Any]]:
    """Whether an objective can be judged at all: exactly one of three states is 1 for each tenant."""
    judged = f"plimsoll:judged:increase{window}"
    tests = {
        "no_traffic": f"{judged} == bool 0",
        "too_few": f"({judged} > bool 0) * ({judged} < bool {MIN_BAD})",
        "judged": f"{judged} >= bool {MIN_BAD}",
    }
    return [
        _record("plimsoll:objective_state", expr) | {"labels": {"state": state, "window": window}}
        for state, expr in tests.items()
    ]


def _group(policy: Policy, tier: Tier, objective: Objective) -> dict[str, Any]:
    found = burns(policy, objective)
    here = f'tier="{tier.name}",objective="{objective.name}"'
    static = {"tier": tier.name, "objective": objective.name}
    allowed = float(1 - objective.target)
    recorded = [
        _record(f"plimsoll:burn_rate:{window}", f"plimsoll:bad_ratio:{window}{{{here}}} / {allowed:.12g}")
        for window in dict.fromkeys([burn.short for burn in found] + [burn.long for burn in found])
    ]
    if objective.counts_tokens:
        recorded += [rule for burn in found for rule in _as_requests(tier, burn, here)]
    alerts = [_alert(here, burn) for burn in found]
    named = [rule | {"labels": static | rule.get("labels", {})} for rule in (*recorded, *alerts)]
    return {"name": f"plimsoll-{tier.name}-{objective.name}", "rules": named}


def _bound(burn: Burn) -> str:
    return f"plimsoll:bad_ratio_lower{'_by_request' if burn.objective.counts_tokens else ''}:{burn.long}"


def _as_requests(tier: Tier, burn: Burn, here: str) -> list[dict[str, Any]]:
    """The bounds of a token objective: the tokens of one stalled stream are one event.

    Each request is given the tokens' mean ratio, and requests are counted by the tier's availability objective.
    """
    answered = next(each for each in tier.objectives if each.sli is Sli.AVAILABILITY)
    requests = f'plimsoll:judged:increase{burn.long}{{tier="{tier.name}",objective="{answered.name}"}}'
    ratio = f"plimsoll:bad_ratio:{burn.long}{{{here}}}"
    bad, judged = (f"plimsoll:{what}_requests:increase{burn.long}" for what in ("bad", "judged"))
    return [
        _record(bad, f"{ratio} * on (tenant, tier) {requests}"),
        _record(judged, f"{ratio} * 0 + on (tenant, tier) {requests}"),
        *_bounds(f"{bad}{{{here}}}", f"{judged}{{{here}}}", "_by_request", burn.long),
    ]


def _alert(here: str, burn: Burn) -> dict[str, Any]:
    limit = f"{float(burn.limit):.12g}"
    bound = f"{_bound(burn)}{{{here}}}"
    spent = f"{float(burn.rule.share * 100):g} %"
    return {
        "alert": ALERT,
        "expr": f"{bound} > {limit}\nand on (tenant)\nplimsoll:bad_ratio:{burn.short}{{{here}}} > {limit}",
        "labels": {"severity": burn.severity, "window": burn.long, "sli": burn.objective.sli.value},
        "annotations": {
            "summary": f"{{{{ $labels.tenant }}}}: the budget of {burn.objective.name} ({{{{ $labels.tier }}}}) "
            f"burns at least {float(burn.rule.factor):.3g} times too fast",
            "description": f"At least {{{{ $value | humanizePercentage }}}} of the last {burn.long} was bad, the last "
            f"{burn.short} no better; {float(burn.limit * 100):.3g} % spends {spent} of the period's budget in "
            f"{burn.long}.",
        },
    }


def _latency_group(native: bool) -> dict[str, Any]:
    found = [rule for name in TIMES for rule in _latencies(name, native=native)]
    found.append(
        {
            "alert": TAIL_ALERT,
            "expr": f"max by (tenant, tier, time) (plimsoll:tail_ratio) > {ALARMING}",
            "for": "15m",
            "labels": {"severity": "ticket"},
            "annotations": {
                "summary": "{{ $labels.tenant }} ({{ $labels.tier }}): P99 of {{ $labels.time }} is "
                "{{ $value | humanize }} times its P50",
                "description": f"From 1.5 to 2.5 is normal, above {ALARMING} some requests wait for others.",
            },
        }
    )
    return {"name": "plimsoll-latency", "rules": found}


def _latencies(name: str, *, native: bool) -> list[dict[str, Any]]:
    metric = f"plimsoll_{name}_seconds"
    if native:
        summed = f"sum by (tenant, tier) (rate({metric}[{TAIL_WINDOW}]))"
        count = f"histogram_count(sum by (tenant, tier) (increase({metric}[{TAIL_WINDOW}])))"
    else:
        summed = f"sum by (tenant, tier, le) (rate({metric}_bucket[{TAIL_WINDOW}]))"
        count = f"sum by (tenant, tier) (increase({metric}_count[{TAIL_WINDOW}]))"
    quantiles = [
        _record(f"plimsoll:{name}_seconds:p{q}", f"histogram_quantile(0.{q}, {summed})\nand\n{count} >= {least}")
        for q, least in ((50, 1), (99, MIN_FOR_P99))
    ]
    ratio = _record("plimsoll:tail_ratio", f"plimsoll:{name}_seconds:p99 / (plimsoll:{name}_seconds:p50 > 0)")
    return [*quantiles, ratio | {"labels": {"time": name}}]


def _record(name: str, expr: str) -> dict[str, Any]:
    return {"record": name, "expr": expr}

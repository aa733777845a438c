"""Unit tests of a policy's Prometheus rules, for `promtool test rules`.

For each burn rule: an injected fault that burns twice as fast as the rule allows fires it, its end resolves it, and
healthy traffic, no traffic and too little traffic leave it silent. Faults of all objectives with one window share a
test, one after the other: each must fire its own alert, and not its neighbours'.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any, Final

from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tier
from plimsoll.slo.burnrate import MIN_BAD
from plimsoll.telemetry.openslo import selector
from plimsoll.telemetry.rules import ALARMING, ALERT, TAIL_ALERT, TIMES, VERDICTS, Burn, burns

EVERY: Final = 300
"""s between evaluations; the shortest windows are as long."""
_EVENTS: Final = 10_000
"""Judged events a step, so that chance plays no part."""
_STEPS: Final = 5
"""Samples in a short window."""
_ANYBODY: Final = 'tenant="anybody",tier="any"'
_APART: Final = 2
"""Samples from one fault to the next: one fires within that time."""


def tests_of(policy: Policy, rule_file: str) -> dict[str, Any]:
    """A test file, as plain values, for the rules in `rule_file` (beside it)."""
    return {
        "rule_files": [rule_file],
        "evaluation_interval": f"{EVERY // 60}m",
        "tests": [*_faults(policy), *_quiet(policy), _tail()],
    }


def _faults(policy: Policy) -> Iterator[dict[str, Any]]:
    alike: dict[tuple[str, str], list[_Fault]] = {}
    for tier in policy.tiers:
        for objective in tier.objectives:
            for burn in burns(policy, objective):
                found = alike.setdefault((burn.long, burn.short), [])
                found.append(_Fault(policy, tier, burn, len(found)))
    for (long, _), found in alike.items():
        yield {
            "name": f"a fault of each objective in its turn fires its own alert over {long}, its end resolves it",
            "interval": f"{found[0].step}s",
            "input_series": [series for fault in found for series in fault.series()],
            "promql_expr_test": [expected for fault in found for expected in fault.expected()],
        }


def _quiet(policy: Policy) -> Iterator[dict[str, Any]]:
    for tier in policy.tiers:
        for objective in tier.objectives:
            first = burns(policy, objective)[0]
            yield _blip(policy, tier, first)
            yield _silence(policy, tier, first)


def _tenant(policy: Policy, tier: Tier) -> str:
    return next((tenant.name for tenant in policy.tenants if tenant.tier == tier.name), "anybody")


class _Fault:
    """Healthy for a short window, a fault for two and more, healthy for two: what came before is no traffic.

    The fault is so bad that over all three the ratio is above the limit. Each of several begins `_APART` later than the
    one before, which has fired by then, with a tenant of its own.
    """

    def __init__(self, policy: Policy, tier: Tier, burn: Burn, number: int) -> None:
        self.step = _step(burn)
        self._tenant, self._tier, self._burn = f"{_tenant(policy, tier)}-{number + 1}", tier, burn
        self._waits = _APART * number
        self._late = ceil(2 * EVERY / self.step)  # groups may see each other's values one evaluation late

    def series(self) -> list[dict[str, Any]]:
        """What is counted."""
        bad = _EVENTS * min(1.0, float(4 * self._burn.limit))
        stages = [(_STEPS, 0.0), (2 * _STEPS + self._late, bad), (2 * _STEPS + 2 * self._late, 0.0)]
        made = _series(self._tenant, self._tier, self._burn.objective, stages)
        return [each | {"values": "_ " * self._waits + each["values"]} for each in made]

    def expected(self) -> Iterator[dict[str, Any]]:
        """Its alert is silent when the fault begins, fires at its end, and is silent again."""
        fault_at = (self._waits + _STEPS) * self.step
        end_at = fault_at + (2 * _STEPS + self._late) * self.step
        resolved_at = end_at + (_STEPS + self._late) * self.step + EVERY
        for at, fires in ((fault_at, False), (end_at, True), (resolved_at, False)):
            yield _firing(self._tenant, self._tier, self._burn, at, fires=fires)


def _blip(policy: Policy, tier: Tier, burn: Burn) -> dict[str, Any]:
    """Healthy for the long window, then a fault that only the short one sees."""
    tenant = _tenant(policy, tier)
    step = _step(burn)
    steps = ceil(burn.rule.long / step)
    bad = _EVENTS * min(1.0, float(2 * burn.limit))
    at = ceil((steps * step + burn.rule.short) / EVERY) * EVERY
    ratio = f"plimsoll:bad_ratio:{burn.short}{{{selector(tenant, tier.name, burn.objective.name)}}}"
    here = f'{{tenant="{tenant}", tier="{tier.name}", objective="{burn.objective.name}"}}'
    return {
        "name": f"{tier.name} {burn.objective.name}: a blip that only the short window sees is silent",
        "interval": f"{step}s",
        "input_series": _series(tenant, tier, burn.objective, [(steps, 0.0), (2 * _STEPS, bad)]),
        "promql_expr_test": [
            _expect(f"{ratio} > bool {float(burn.limit):.12g}", at, [{"labels": here, "value": 1}]),
            _firing(tenant, tier, burn, at, fires=False),
        ],
    }


def _step(burn: Burn) -> int:
    return ceil(burn.rule.short / _STEPS)


def _silence(policy: Policy, tier: Tier, burn: Burn) -> dict[str, Any]:
    """Too few bad ones to say anything, then no traffic at all."""
    tenant = _tenant(policy, tier)
    few, hour = MIN_BAD - 1, ceil(burn.rule.long / EVERY)
    window, here = burn.long, selector(tenant, tier.name, burn.objective.name)
    few_at, none_at = hour * EVERY, (2 * hour + few + 2) * EVERY
    stages = [(hour - few, 0.0), (few, 1.0), (2 * hour, 0.0)]
    states = [
        _expect(
            f'plimsoll:objective_state{{{here},state="{state}",window="{window}"}}',
            at,
            [_state(tenant, tier, burn, state, value)],
        )
        for at, current in ((few_at, "too_few"), (none_at, "no_traffic"))
        for state, value in ((each, int(each == current)) for each in ("no_traffic", "too_few", "judged"))
    ]
    absent = [
        _expect(f"plimsoll:bad_ratio:{window}{{{here}}}", none_at, []),
        _expect(f"plimsoll:burn_rate:{window}{{{here}}}", none_at, []),
    ]
    never_nan = [
        _expect(f"count({name} != {name})", at, [])
        for at in (few_at, none_at)
        for name in (f"plimsoll:bad_ratio:{window}", f"plimsoll:bad_ratio_lower:{window}", "plimsoll:tail_ratio")
    ]
    silent = [_firing(tenant, tier, burn, at, fires=False) for at in (few_at, none_at)]
    return {
        "name": f"{tier.name} {burn.objective.name}: too few requests and no traffic are states, not numbers",
        "interval": f"{EVERY // 60}m",
        "input_series": _series(tenant, tier, burn.objective, stages, judged=0.0),
        "promql_expr_test": [*silent, *states, *absent, *never_nan],
    }


def _state(tenant: str, tier: Tier, burn: Burn, state: str, value: int) -> dict[str, Any]:
    labels = f'{selector(tenant, tier.name, burn.objective.name)},state="{state}",window="{burn.long}"'
    return {"labels": f"plimsoll:objective_state{{{labels}}}", "value": value}


def _series(
    tenant: str, tier: Tier, objective: Objective, stages: list[tuple[int, float]], judged: float | None = None
) -> list[dict[str, Any]]:
    """The objective's verdicts over stages of (steps, bad events a step), `_EVENTS` a step in all unless told.

    For tokens also the requests by which they are weighed, all of them good.
    """
    good = [(steps, _EVENTS - bad if judged is None else judged) for steps, bad in stages]
    found = [(objective.name, "good", good), (objective.name, "bad", stages)]
    if objective.counts_tokens:
        answered = next(each.name for each in tier.objectives if each.sli is Sli.AVAILABILITY)
        requests = [(steps, _EVENTS if judged is None else bad) for steps, bad in stages]
        found.append((answered, "good", requests))
    return [
        {"series": f'{VERDICTS}{{{selector(tenant, tier.name, name)},verdict="{verdict}"}}', "values": _counter(values)}
        for name, verdict, values in found
    ]


def _counter(stages: list[tuple[int, float]]) -> str:
    """A counter in promtool's notation: from 0, rising by so much in each step of a stage."""
    total, parts = 0.0, ["0"]
    for steps, rise in stages:
        parts.append(f"{total + rise:.10g}+{rise:.10g}x{steps - 1}")
        total += rise * steps
    return " ".join(parts)


def _firing(tenant: str, tier: Tier, burn: Burn, at: int, *, fires: bool) -> dict[str, Any]:
    here = selector(tenant, tier.name, burn.objective.name)
    alert = f'count(ALERTS{{alertname="{ALERT}",alertstate="firing",{here},window="{burn.long}"}})'
    return _expect(alert, at, [{"labels": "{}", "value": 1}] if fires else [])


def _tail() -> dict[str, Any]:
    """Nine of ten are quick; the tenth takes 32 times as long, later as long as the others. All times alike."""
    return {
        "name": f"P99 ÷ P50 above {ALARMING} opens a ticket; no traffic is silent and no number",
        "interval": f"{EVERY // 60}m",
        "input_series": [series for name in TIMES for series in _tail_series(name)],
        "promql_expr_test": [expected for name in TIMES for expected in _tail_expected(name)],
    }


def _tail_series(name: str) -> list[dict[str, Any]]:
    metric = f"plimsoll_{name}_seconds"
    quick = "0+90x24 2250+100x24 4750x24"
    every = "0+100x24 2500+100x24 5000x24"
    return [
        {"series": f'{metric}_bucket{{{_ANYBODY},le="0.5"}}', "values": "0x74"},
        {"series": f'{metric}_bucket{{{_ANYBODY},le="1"}}', "values": quick},
        {"series": f'{metric}_bucket{{{_ANYBODY},le="16"}}', "values": quick},
        {"series": f'{metric}_bucket{{{_ANYBODY},le="32"}}', "values": every},
        {"series": f'{metric}_bucket{{{_ANYBODY},le="+Inf"}}', "values": every},
        {"series": f"{metric}_count{{{_ANYBODY}}}", "values": every},
    ]


def _tail_expected(name: str) -> list[dict[str, Any]]:
    alert = f'count(ALERTS{{alertname="{TAIL_ALERT}",alertstate="firing",{_ANYBODY},time="{name}"}})'
    return [
        _expect(alert, 24 * EVERY, [{"labels": "{}", "value": 1}]),
        _expect(alert, 48 * EVERY, []),
        _expect(alert, 72 * EVERY, []),
        _expect(f'plimsoll:tail_ratio{{time="{name}"}}', 72 * EVERY, []),
        _expect(f"plimsoll:{name}_seconds:p50", 72 * EVERY, []),
    ]


def _expect(expr: str, at: int, samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {"expr": expr, "eval_time": f"{at}s", "exp_samples": samples}

"""Rules for Prometheus: the windows are the objective's, the bound is safe, each rule is told apart."""

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.analytics.burn import period
from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import load, parse
from plimsoll.policy.policy import Policy
from plimsoll.slo.burnrate import burn_rules
from plimsoll.slo.intervals import clopper_pearson
from plimsoll.slo.measured import ItlSketch
from plimsoll.telemetry.prometheus import Metrics
from plimsoll.telemetry.rules import ALERT, Burn, burns, duration, lower_bound, rules
from plimsoll.telemetry.ruletests import tests_of as unit_tests_of
from tests.policy.test_document import EXAMPLE
from tests.telemetry.test_prometheus_page import page_of, record

POLICY = """\
plimsoll: 1
service: {timezone: UTC}
tiers:
  - name: gold
    rank: 0
    objectives:
      - {sli: itl, below: 150ms, target: 99%}
      - {sli: e2e, below: 20s, target: 90%}
tenants: [{name: acme, tier: gold, keys: ["sha256:KEY"]}]
pools: [{name: p, model: m, engine: vllm, replicas: ["http://h:1"]}]
""".replace("KEY", "0" * 64)


def policy() -> Policy:
    return parse(POLICY)


def every_rule(policy: Policy, *, native: bool = False) -> list[dict[str, Any]]:
    return [rule for group in rules(policy, native=native)["groups"] for rule in group["rules"]]


@given(st.integers(1, 400_000))
def test_durations_say_the_same_number_of_seconds(seconds: int) -> None:
    sizes = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([dhms])", duration(Fraction(seconds)))
    assert sum(int(num) * sizes[unit] for num, unit in parts) == seconds


@given(st.integers(5, 2000), st.integers(0, 100_000))
def test_the_bound_of_the_rules_is_safe_and_close(num_bad: int, num_good: int) -> None:
    exact = clopper_pearson(num_bad, num_bad + num_good)[0]
    told = lower_bound(num_bad, num_bad + num_good)
    assert 0.875 * exact < told < exact * 1.0001


def test_there_is_an_alert_for_each_burn_rule_of_each_objective() -> None:
    """So a target of 90 % has longer windows, and no rule that cannot fire."""
    alerts = [rule for rule in every_rule(policy()) if rule.get("alert") == ALERT]
    (gold,) = policy().tiers
    expected = [
        (objective.name, duration(rule.long), f"{float(rule.factor * (1 - objective.target)):.12g}")
        for objective in gold.objectives
        for rule in burn_rules(objective.target)
    ]
    found = [
        (rule["labels"]["objective"], rule["labels"]["window"], re.findall(r"> (\S+)", rule["expr"])) for rule in alerts
    ]
    assert [(name, window, {limit}) for name, window, limit in expected] == [
        (name, window, set(limits)) for name, window, limits in found
    ]
    assert all(Fraction(limit) <= Fraction(1, 2) for _, _, limit in expected)


def test_fast_rules_page_and_slow_ones_open_a_ticket() -> None:
    (gold,) = policy().tiers
    severities = [burn.severity for burn in burns(policy(), gold.objectives[0])]
    assert severities == ["page", "page", "ticket"]


def test_a_rolling_period_sets_the_windows() -> None:
    rolling = parse(POLICY.replace("timezone: UTC", "period: 7d"))
    assert (period(policy()), period(rolling)) == (30 * 86_400, 7 * 86_400)
    assert {type(burn) for burn in burns(rolling, rolling.tiers[0].objectives[0])} == {Burn}


@pytest.mark.parametrize("native", [False, True])
def test_no_two_rules_make_the_same_series(native: bool) -> None:
    made = [
        (rule.get("record") or rule["alert"], tuple(sorted(rule.get("labels", {}).items())))
        for rule in every_rule(load(EXAMPLE), native=native)
    ]
    assert len(made) == len(set(made))
    assert len(made) > 50


def test_every_recorded_series_that_a_rule_asks_is_made() -> None:
    for native in (False, True):
        found = every_rule(load(EXAMPLE), native=native)
        made = {rule["record"] for rule in found if "record" in rule}
        asked = {name for rule in found for name in re.findall(r"plimsoll:[a-z0-9_]+(?::[a-z0-9_]+)?", rule["expr"])}
        assert asked <= made, asked - made


def test_tokens_are_weighed_as_requests() -> None:
    alerts = [rule for rule in every_rule(policy()) if rule.get("alert") == ALERT]
    assert all(("lower_by_request" in rule["expr"]) is (rule["labels"]["sli"] == "itl") for rule in alerts)


def test_native_histograms_have_no_buckets() -> None:
    native = [rule["expr"] for rule in every_rule(policy(), native=True)]
    assert not any("_bucket" in expr for expr in native)
    assert any("histogram_count" in expr for expr in native)


def test_every_alert_has_a_test_that_fires_it() -> None:
    tests = unit_tests_of(policy(), "rules.yml")["tests"]
    fired = {
        tuple(re.findall(r'(objective|window)="([^"]+)"', expect["expr"]))
        for test in tests
        for expect in test["promql_expr_test"]
        if expect["exp_samples"] and "ALERTS" in expect["expr"] and ALERT in expect["expr"]
    }
    alerts = [rule for rule in every_rule(policy()) if rule.get("alert") == ALERT]
    assert fired == {
        (("objective", rule["labels"]["objective"]), ("window", rule["labels"]["window"])) for rule in alerts
    }


def test_the_rules_ask_what_the_gateway_exports() -> None:
    metrics = Metrics()
    metrics.take(policy())
    told = record(
        tenant="acme", tier="gold", ttft=0.5, e2e=2.0, dispatched_at=1.0, itl_sketches=(ItlSketch(3, {-160: 2}),)
    )
    metrics.settled(Settle(told, ()))
    exported = page_of(metrics)
    asked = {
        (name, label)
        for rule in every_rule(policy())
        for name, labels in re.findall(r"(plimsoll_[a-z0-9_]+)(?:\{([^}]*)\})?\[", rule["expr"])
        for label in re.findall(r"(\w+)=", labels)
    }
    names = {name for rule in every_rule(policy()) for name in re.findall(r"plimsoll_[a-z0-9_]+(?=[{[])", rule["expr"])}
    assert names <= exported.keys(), names - exported.keys()
    assert len(names) == 7
    for name, label in asked:
        assert all(label in dict(labels) for labels in exported[name]), (name, label)
    verdicts = {dict(labels)["verdict"] for labels in exported["plimsoll_verdicts_total"]}
    assert verdicts >= {"good", "bad"}

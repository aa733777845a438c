"""A policy's objectives as SLOs of other tools."""

from fractions import Fraction

from plimsoll.policy.document import parse
from plimsoll.policy.slospec import Kind, Window
from plimsoll.telemetry.openslo import of_policy
from tests.telemetry.test_rules import POLICY


def test_each_tenant_has_an_slo_for_each_objective() -> None:
    text = POLICY.replace(
        "{sli: e2e, below: 20s, target: 90%}", "{sli: e2e, below: 20s, target: 90%, contract: 80%, from: user}"
    )
    slos = of_policy(parse(text)).slos
    assert [(slo.meta.name, slo.service, slo.target) for slo in slos] == [
        ("acme-itl", "acme", Fraction(99, 100)),
        ("acme-e2e", "acme", Fraction(9, 10)),
        ("acme-availability", "acme", Fraction(999, 1000)),
    ]
    assert slos[1].meta.annotations == {"plimsoll/below": "20s", "plimsoll/contract": "0.8", "plimsoll/from": "user"}
    assert slos[0].description == "99 % of output tokens within 0.15 s (itl)"
    assert slos[0].window == Window(1, "M", rolling=False, start="2024-01-01 00:00:00", timezone="UTC")
    assert slos[0].indicator is not None
    assert slos[0].indicator.kind is Kind.GOOD_TOTAL
    assert {role: query.text for role, query in slos[0].indicator.queries.items()} == {
        "good": 'sum(plimsoll_verdicts_total{tenant="acme",tier="gold",objective="itl",verdict="good"})',
        "total": 'sum(plimsoll_verdicts_total{tenant="acme",tier="gold",objective="itl",verdict=~"good|bad"})',
    }


def test_a_rolling_period_is_a_rolling_window() -> None:
    slos = of_policy(parse(POLICY.replace("timezone: UTC", "period: 28d"))).slos
    assert {slo.window for slo in slos} == {Window(28, "d")}

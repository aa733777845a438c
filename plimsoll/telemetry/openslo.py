"""A policy's objectives as SLOs over the metrics that the gateway exports."""

from fractions import Fraction
from typing import Final

from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.policy.policy import Policy, Tenant
from plimsoll.policy.slospec import Imported, Meta, Query, Slo, Window, dns_label, indicator, number

_FIRST_MONTH: Final = "2024-01-01 00:00:00"
"""Calendar windows of OpenSLO need a beginning; months begin alike in every year."""


def of_policy(policy: Policy) -> Imported:
    """One SLO for each tenant and objective of its tier; contracts and thresholds are in annotations."""
    slos = [
        _slo(policy, tenant, objective)
        for tenant in policy.tenants
        for objective in policy.tier(tenant.tier).objectives
    ]
    return Imported(tuple(slos), sources={"policy": "plimsoll"})


def selector(tenant: str, tier: str, objective: str) -> str:
    """The labels of one objective of one tenant, between braces."""
    return ",".join(f'{name}="{text}"' for name, text in (("tenant", tenant), ("tier", tier), ("objective", objective)))


def _slo(policy: Policy, tenant: Tenant, objective: Objective) -> Slo:
    name = dns_label(f"{tenant.name}-{objective.name}")
    labels = {"tenant": (tenant.name,), "tier": (tenant.tier,), "sli": (objective.sli.value,)}
    here = selector(tenant.name, tenant.tier, objective.name)
    queries = {
        "good": Query({"query": f'sum(plimsoll_verdicts_total{{{here},verdict="good"}})'}, "Prometheus"),
        "total": Query({"query": f'sum(plimsoll_verdicts_total{{{here},verdict=~"good|bad"}})'}, "Prometheus"),
    }
    return Slo(
        meta=Meta(name, "", labels, _annotations(objective)),
        service=tenant.name,
        target=objective.target,
        indicator=indicator(Meta(name), queries, counter=True),
        window=_window(policy, tenant),
        description=_description(objective),
    )


def _annotations(objective: Objective) -> dict[str, str]:
    found = {}
    if objective.sli is not Sli.AVAILABILITY:
        found["plimsoll/below"] = f"{objective.below:g}s"
    if objective.contract is not None:
        found["plimsoll/contract"] = str(number(objective.contract))
    if objective.origin is not Origin.GATEWAY:
        found["plimsoll/from"] = objective.origin.value
    return found


def _description(objective: Objective) -> str:
    share = f"{float(objective.target * 100):.6g} %"
    if objective.sli is Sli.AVAILABILITY:
        return f"{share} of requests are answered"
    unit = "output tokens" if objective.counts_tokens else "requests"
    return f"{share} of {unit} within {float(Fraction(str(objective.below))):g} s ({objective.sli})"


def _window(policy: Policy, tenant: Tenant) -> Window:
    period = policy.service.period
    if period != "month":
        return Window(int(period.removesuffix("d")), "d")
    return Window(1, "M", rolling=False, start=_FIRST_MONTH, timezone=tenant.timezone or policy.service.timezone)

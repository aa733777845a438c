"""Reads `budget`: when the service acts on spent budget, how it is lent and exchanged, and what it does not count."""

from datetime import datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from plimsoll.policy.budget import BudgetRules, ExceptionKind, ExceptionWindow, Risk
from plimsoll.policy.knownchange import KnownChange
from plimsoll.policy.policy import Service, Tenant, Tier
from plimsoll.policy.section import Section

_BUDGET: Final = BudgetRules()  # its defaults
MOST_CHANGE: Final = 1000
"""The most that a known change may multiply by: what is more is a slip."""


def read_budget(top: Section, service: Service, tiers: tuple[Tier, ...], tenants: tuple[Tenant, ...]) -> BudgetRules:
    """The rules, with every fault told; times without an offset are in the service's zone."""
    section = top.section("budget")
    if section is None:
        return BudgetRules()
    rules = BudgetRules(
        warn_at=section.ratio("warn_at", _BUDGET.warn_at, above=Fraction(0)),
        degrade_at=section.ratio("degrade_at", _BUDGET.degrade_at, above=Fraction(0)),
        hysteresis=section.ratio("hysteresis", _BUDGET.hysteresis),
        dry_run=section.flag("dry_run", _BUDGET.dry_run),
        borrow_cap=section.ratio("borrow_cap", _BUDGET.borrow_cap, most=10),
        exchange_cap=section.ratio("exchange_cap", _BUDGET.exchange_cap, most=10),
        demotion_floor=_read_floor(section, tiers),
        spent_forbids=_read_risks(section, "spent_forbids", _BUDGET.spent_forbids),
        healthy_allows=_read_risks(section, "healthy_allows", _BUDGET.healthy_allows),
        exceptions=tuple(
            [
                window
                for each in section.sections("exceptions")
                if (window := _read_window(each, service.timezone, tenants)) is not None
            ]
        ),
        changes=tuple(
            [
                change
                for each in section.sections("changes")
                if (change := _read_change(each, service.timezone, tiers, tenants)) is not None
            ]
        ),
    )
    section.done()
    if rules.warn_at > rules.degrade_at:
        section.fault("warn_at", "must not be above degrade_at: the warning comes first")
    if rules.hysteresis >= rules.warn_at:
        section.fault("hysteresis", "must be below warn_at: a warning could never end")
    return rules


def _read_risks(section: Section, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    words = [risk.value for risk in Risk]
    for name, line in section.texts(key):
        if name not in words:
            near = get_close_matches(name, words, n=1)
            hint = f"nearest: {near[0]}" if near else ""
            section.faults.add(section.at(key), line, f"{name!r} is none of {', '.join(words)}", hint)
        elif name in found:
            section.faults.add(section.at(key), line, f"{name} is given twice")
        else:
            found.append(name)
    return tuple(found) if section.has(key) else default


def _read_floor(section: Section, tiers: tuple[Tier, ...]) -> str | None:
    name = section.text("demotion_floor")
    known = [tier.name for tier in tiers]
    if name and name not in known and "" not in known:
        section.fault("demotion_floor", f"no tier is named {name!r}", f"known tiers: {', '.join(known) or 'none'}")
    return name or None


def _read_window(section: Section, zone: str, tenants: tuple[Tenant, ...]) -> ExceptionWindow | None:
    given = [section.required(key) for key in ("kind", "from", "until")]
    kind = section.choice("kind", ExceptionKind, None)
    begin, end = _read_instant(section, "from", zone), _read_instant(section, "until", zone)
    named = _read_tenants(section, tenants)
    section.done()
    if not all(given) or kind is None or begin is None or end is None:
        return None
    if begin >= end:
        section.fault("until", "must be after from")
        return None
    return ExceptionWindow(kind, begin, end, named)


def _read_change(
    section: Section, zone: str, tiers: tuple[Tier, ...], tenants: tuple[Tenant, ...]
) -> KnownChange | None:
    given = [section.required(key) for key in ("from", "factor")]
    begin = _read_instant(section, "from", zone)
    factor = section.ratio("factor", None, above=Fraction(0), most=MOST_CHANGE)
    known = {each.name for tier in tiers for each in tier.promised}
    objectives = section.texts("objectives")
    for name, line in objectives:
        if name not in known:
            hint = f"known: {', '.join(sorted(known))}"
            section.faults.add(section.at("objectives"), line, f"no objective is named {name!r}", hint)
    named = _read_tenants(section, tenants)
    section.done()
    if not all(given) or begin is None or factor is None:
        return None
    return KnownChange(begin, factor, named, tuple([name for name, _ in objectives]))


def _read_tenants(section: Section, tenants: tuple[Tenant, ...]) -> tuple[str, ...]:
    """Whom it concerns; each must be known."""
    known = {tenant.name for tenant in tenants}
    named = section.texts("tenants")
    for name, line in named:
        if name not in known:
            section.faults.add(section.at("tenants"), line, f"no tenant is named {name!r}")
    return tuple([name for name, _ in named])


def _read_instant(section: Section, key: str, zone: str) -> float | None:
    """UTC epoch s of a date or time as YAML writes it."""
    if not section.has(key):
        return None
    text = section.instant(key)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        section.fault(key, f"{text!r} is no time", "2026-11-30T02:00, in the service's zone unless it names an offset")
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()

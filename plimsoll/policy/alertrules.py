"""Reads `alerts`: who is told of budgets that burn or end, and how often."""

from typing import Final

from plimsoll.policy.alerts import AlertChannel, AlertRules, Severity
from plimsoll.policy.pools import VARIABLE
from plimsoll.policy.section import Section

_ALERTS: Final = AlertRules()  # its defaults


def read_alerts(top: Section) -> AlertRules:
    """The rules, with every fault told."""
    section = top.section("alerts")
    if section is None:
        return AlertRules()
    rules = AlertRules(
        channels=tuple([channel for each in section.sections("channels") if (channel := _read_channel(each))]),
        repeat_every=section.duration("repeat_every", _ALERTS.repeat_every),
        resolve_after=section.duration("resolve_after", _ALERTS.resolve_after, zero=True),
        escalate_after=section.duration("escalate_after", None),
        per_minute=section.whole("per_minute", _ALERTS.per_minute, least=1) or _ALERTS.per_minute,
    )
    section.done()
    seen: set[str] = set()
    for channel in rules.channels:
        if channel.name in seen:
            section.fault("channels", f"two channels are named {channel.name!r}")
        seen.add(channel.name)
    return rules


def _read_channel(section: Section) -> AlertChannel | None:
    given = [section.required(key) for key in ("name", "url_env")]
    name, variable = section.text("name"), section.text("url_env")
    severity = section.choice("severity", Severity, Severity.TICKET)
    section.done()
    if variable and not VARIABLE.fullmatch(variable):
        section.fault("url_env", "must be the name of an environment variable, not the address itself")
        return None
    return AlertChannel(name, variable, severity) if all(given) and name and variable else None

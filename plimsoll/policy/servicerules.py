"""Reads `service`: what holds for all of it."""

from fractions import Fraction
from typing import Final

from plimsoll.errors import UnitError
from plimsoll.policy.policy import Service, UpstreamTrust
from plimsoll.policy.pools import VARIABLE
from plimsoll.policy.section import Section
from plimsoll.policy.tenants import read_timezone
from plimsoll.units import parse_duration

_SERVICE: Final = Service()  # its defaults


def read_service(top: Section) -> Service:
    """The rules, with every fault told."""
    section = top.section("service")
    if section is None:
        return Service()
    service = Service(
        timezone=read_timezone(section, _SERVICE.timezone),
        period=_read_period(section),
        shared_pool=section.ratio("shared_pool", _SERVICE.shared_pool),
        upstream_time=section.choice("upstream_time", UpstreamTrust, UpstreamTrust.NONE),
        upstream_secrets=_read_secrets(section),
        upstream_window=section.duration("upstream_window", _SERVICE.upstream_window),
        judge_non_streaming=section.flag("judge_non_streaming", _SERVICE.judge_non_streaming),
        censored_limit=section.ratio("censored_limit", _SERVICE.censored_limit, above=Fraction(0)),
    )
    section.done()
    signed = service.upstream_time in (UpstreamTrust.SIGNED, UpstreamTrust.MEASURED)
    if signed and not service.upstream_secrets and not section.has("upstream_secrets"):
        hint = "for example [PLIMSOLL_UPSTREAM_SECRET] or [/etc/plimsoll/upstream.secret]"
        section.fault("upstream_time", f"{service.upstream_time.value} needs upstream_secrets", hint)
    if not Fraction(15, 100) <= service.shared_pool <= Fraction(25, 100):
        section.fault("shared_pool", "must be from 15% to 25%")
    return service


def _read_secrets(section: Section) -> tuple[str, ...]:
    """Where the secrets are, never the secrets: the document is copied into data directories and read by many."""
    names = []
    for i, (text, line) in enumerate(section.texts("upstream_secrets")):
        if "/" in text or VARIABLE.fullmatch(text):
            names.append(text)
        else:
            wrong = "must name an environment variable or a file (with a slash in it), not be the secret itself"
            section.faults.add(f"{section.at('upstream_secrets')}[{i}]", line, wrong)
    return tuple(names)


def _read_period(section: Section) -> str:
    """`month`, or a rolling window of whole days as "30d"."""
    text = section.text("period", _SERVICE.period)
    if text == "month":
        return text
    try:
        seconds = parse_duration(text)
    except UnitError:
        section.fault("period", f"{text!r} is neither month nor a rolling window", "for example month or 30d")
        return _SERVICE.period
    if seconds < 86_400 or seconds % 86_400 or seconds > 366 * 86_400:
        section.fault("period", "a rolling window has whole days, from 1d to 366d")
        return _SERVICE.period
    return f"{int(seconds // 86_400)}d"

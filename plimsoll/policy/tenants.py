"""Reads `tenants`: who is charged, by which keys they are known, and their own limits."""

import re
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from plimsoll.errors import UnitError
from plimsoll.policy.policy import Adapt, Limits, Tenant, Tier
from plimsoll.policy.section import Section
from plimsoll.policy.tiers import read_name
from plimsoll.units import parse_count

_KEY: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ADAPT: Final = Adapt()
_COMMITTED: Final = re.compile(r"(.+?)\s+(?:per|a|/)\s*month")
LONGEST_CAUSE: Final = 128
"""Characters, as of a header."""
_OWNERS: Final = ("pool", "world")
"""Owners of accounts in the ledger beside the tenants."""


def read_tenants(top: Section, tiers: tuple[Tier, ...]) -> tuple[Tenant, ...]:
    """All tenants, in the document's order."""
    names: dict[str, int] = {}
    keys: dict[str, str] = {}
    known = [tier.name for tier in tiers]
    tenants = tuple([_read_tenant(section, names, keys, known) for section in top.sections("tenants")])
    if not tenants and not top.has("tenants"):
        top.faults.warn("tenants", top.line, "none: every request is refused with 401")
    return tenants


def read_timezone(section: Section, default: str) -> str:
    """A zone of the IANA database."""
    name = section.text("timezone", default)
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        section.fault("timezone", f"{name!r} is no time zone", "as in the IANA database: Asia/Shanghai, UTC")
        return "UTC"
    return name


def _read_tenant(section: Section, names: dict[str, int], keys: dict[str, str], tiers: list[str]) -> Tenant:
    name = read_name(section, names, "tenant")
    if name in _OWNERS:
        section.fault("name", f"{name!r} is an account of the ledger and cannot be a tenant")
    has_tier = section.required("tier")
    tier = section.text("tier")
    if has_tier and tier:
        _known_tier(section, "tier", tier, section.line_of("tier"), tiers)
    tenant = Tenant(
        name=name,
        tier=tier,
        keys=_read_keys(section, keys, name),
        limits=_read_limits(section),
        weight=section.ratio("weight", Fraction(1), above=Fraction(0), most=1_000_000),
        committed=_read_committed(section),
        timezone=read_timezone(section, "UTC") if section.has("timezone") else None,
        require_cause=section.flag("require_cause", False),
        default_cause=_read_default_cause(section),
        tiers=tuple(
            [other for other, line in section.texts("tiers") if _known_tier(section, "tiers", other, line, tiers)]
        ),
    )
    section.text("timezone")
    section.done()
    return tenant


def _read_default_cause(section: Section) -> str:
    """What requests that name no cause are tagged with."""
    cause = section.text("default_cause")
    if cause and section.flag("require_cause", False):
        section.fault("default_cause", "require_cause refuses what names no cause", "keep one of the two")
    if len(cause) > LONGEST_CAUSE or not cause.isascii() or not cause.isprintable():
        section.fault("default_cause", f"must be up to {LONGEST_CAUSE} printable ASCII characters")
    return cause


def _known_tier(section: Section, key: str, name: str, line: int, tiers: list[str]) -> bool:
    if name in tiers or "" in tiers:  # a tier whose own name is faulty may have been meant
        return True
    section.faults.add(
        section.at(key), line, f"no tier is named {name!r}", f"known tiers: {', '.join(tiers) or 'none'}"
    )
    return False


def _read_keys(section: Section, known: dict[str, str], tenant: str) -> tuple[str, ...]:
    """Digests only. A value that is none is never repeated: it may be the key itself."""
    found = []
    for i, (key, line) in enumerate(section.texts("keys")):
        path = f"{section.at('keys')}[{i}]"
        if not _KEY.fullmatch(key):
            hint = "sha256: and 64 hex digits; `plimsoll key` makes a key and its digest"
            section.faults.add(path, line, "is no digest of a key", hint)
        elif key in known:
            section.faults.add(path, line, f"this key is {known[key]!r}'s already")
        else:
            known[key] = tenant
            found.append(key)
    if not section.has("keys"):
        section.warn("name", "has no keys, so nobody can be this tenant", "`plimsoll key` makes one")
    return tuple(found)


def _read_limits(tenant: Section) -> Limits:
    section = tenant.section("limits")
    if section is None:
        return Limits()
    limits = Limits(
        concurrency=section.whole("concurrency", None),
        requests_per_minute=section.whole("requests_per_minute", None),
        tokens_per_minute=section.whole("tokens_per_minute", None),
        queue=section.whole("queue", None, least=0),
        adapt=_read_adapt(section),
    )
    section.done()
    if limits.adapt is not None and limits.tokens_per_minute is None:
        section.fault("adapt", "needs tokens_per_minute: that is the rate which adapts")
    return limits


def _read_adapt(limits: Section) -> Adapt | None:
    section = limits.section("adapt")
    if section is None:
        return None
    adapt = Adapt(
        floor=section.ratio("floor", _ADAPT.floor, above=Fraction(0)),
        burst=section.ratio("burst", _ADAPT.burst, most=10),
    )
    section.done()
    if adapt.burst < 1:
        section.fault("burst", "must be at least 100%: it is headroom beyond tokens_per_minute")
    return adapt


def _read_committed(section: Section) -> int | None:
    """ "3M per month" or "3M": requests a month."""

    def parse(text: str) -> int:
        match = _COMMITTED.fullmatch(text.strip())
        if match is None and " " in text.strip():
            raise UnitError(f"{text!r} is no commitment: write requests per month, for example 3M per month")
        return parse_count(match[1] if match else text)

    return section.whole("committed", None, parse=parse)

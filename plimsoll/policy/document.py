"""The policy document: one YAML file, read once into frozen values; every fault is told at once, with its place."""

from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from plimsoll.errors import Fault, PolicyError, UsageError
from plimsoll.policy import extensions, presets
from plimsoll.policy.alertrules import read_alerts
from plimsoll.policy.budgetrules import read_budget
from plimsoll.policy.degradationrules import read_degradation
from plimsoll.policy.matrixrules import check_matrix
from plimsoll.policy.pluginrules import read_plugins
from plimsoll.policy.policy import (
    GatewayRules,
    Hedging,
    Order,
    Policy,
    Pool,
    RoutingRule,
    Scheduling,
    StorageRules,
    Timeouts,
)
from plimsoll.policy.pools import ProfileCheck, read_pools
from plimsoll.policy.schedulingrules import Late, RequestClass, SaturationRule, SpeculationRules
from plimsoll.policy.section import Faults, Section, compose
from plimsoll.policy.servicerules import read_service
from plimsoll.policy.tenants import read_tenants
from plimsoll.policy.tiers import read_name, read_tiers
from plimsoll.units import parse_size, parse_tokens

VERSION: Final = 1
"""Of the document's format: the number behind its `plimsoll:` key."""
_LARGEST: Final = 16 * 1024 * 1024
"""Bytes; a policy of ten thousand tenants has two million."""

_SCHEDULING, _CLASS, _HEDGING = Scheduling(), RequestClass(""), Hedging()
_SPECULATION: Final = SpeculationRules()
_GATEWAY, _TIMEOUTS = GatewayRules(), Timeouts()


class Examination(Struct, frozen=True):
    """What reading a document came to. `policy` is None where there are faults."""

    policy: Policy | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def load(path: Path | str) -> Policy:
    """The policy in that file; PolicyError with all its faults, UsageError where it cannot be read."""
    return parse(read(path), str(path))


def read(path: Path | str) -> str:
    """The text of a policy file; UsageError says why it cannot be had."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the policy {path}: {error.strerror}") from error
    if len(raw) > _LARGEST:
        raise UsageError(f"{path} has {len(raw)} bytes: hardly a policy")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


def parse(text: str, source: str = "policy") -> Policy:
    """The policy in that text; PolicyError with all its faults. `source` names it in messages."""
    examination = examine(text)
    if examination.policy is None:
        raise PolicyError(source, list(examination.faults))
    return examination.policy


def examine(text: str, profile_check: ProfileCheck | None = None) -> Examination:
    """Everything wrong and everything doubtful in a policy, in the order of its lines.

    `profile_check` looks at the engine profiles that pools name; without it they are not looked at.
    """
    faults = Faults()
    top = compose(text, faults)
    policy = None if top is None else _read(top, sha256(text.encode()).hexdigest()[:12], profile_check)
    found = sorted(faults.all, key=lambda fault: fault.line)
    wrong = tuple([fault for fault in found if not fault.warning])
    return Examination(None if wrong else policy, wrong, tuple([fault for fault in found if fault.warning]))


def known_keys() -> list[str]:
    """Every key that a policy may have, as `tiers[].objectives[].below`, in the order in which they are read."""
    faults = Faults()
    whole = "service: {}\ntiers: [{objectives: [{}], run: {}, classes: {}}]\ntenants: [{limits: {adapt: {}}}]\n"
    whole += "pools: [{tls: {}, adaptive: {}, exporters: {}, exact_prefixes: {}}]\n"
    whole += "budget: {exceptions: [{}], changes: [{}]}\nalerts: {channels: [{}]}\ndegradation: {when: {}}\n"
    whole += "scheduling: {classes: [{}], hedging: {}, speculation: {}}\n"
    top = compose(whole + "gateway: {timeouts: {}}\nstorage: {}\nplugins: [{settings: {}}]\n", faults)
    if top is not None:
        _read(top, "")
    return list(faults.asked)


def _read(top: Section, version: str, profile_check: ProfileCheck | None = None) -> Policy:
    if top.required("plimsoll") and top.whole("plimsoll", VERSION) != VERSION:
        top.fault("plimsoll", f"this Plimsoll reads version {VERSION} of the document")
    service = read_service(top)
    tiers = read_tiers(top, service)
    tenants = read_tenants(top, tiers)
    plugins = read_plugins(top)
    policy = Policy(
        service=service,
        tiers=tiers,
        tenants=tenants,
        pools=(pools := read_pools(top, profile_check)),
        budget=read_budget(top, service, tiers, tenants),
        alerts=read_alerts(top),
        degradation=read_degradation(top, pools, plugins),
        plugins=plugins,
        scheduling=_read_scheduling(top, pools),
        gateway=_read_gateway(top),
        storage=_read_storage(top),
        version=version,
    )
    check_matrix(top, tiers, pools)
    top.done()
    return policy


def _read_scheduling(top: Section, pools: tuple[Pool, ...]) -> Scheduling:
    if top.is_text("scheduling"):
        name = top.text("scheduling")
        if name and name not in presets.PRESETS:
            top.fault("scheduling", f"no preset is named {name!r}", f"known: {', '.join(presets.PRESETS)}")
        return presets.PRESETS.get(name, Scheduling())
    section = top.section("scheduling")
    if section is None:
        return Scheduling()
    rules = Scheduling(
        order=_read_rule(section, "order", Order, _SCHEDULING.order),
        admission=_read_rule(section, "admission", None, _SCHEDULING.admission),
        deficit=section.whole("deficit", _SCHEDULING.deficit, least=0, most=10**9, parse=parse_tokens),
        routing=_read_rule(section, "routing", RoutingRule, _SCHEDULING.routing),
        tiers_matter=section.flag("tiers_matter", _SCHEDULING.tiers_matter),
        reserve_kv=section.flag("reserve_kv", _SCHEDULING.reserve_kv),
        strict=section.flag("strict", _SCHEDULING.strict),
        output_quantile=section.ratio(
            "output_quantile", _SCHEDULING.output_quantile, above=Fraction(0), below_one=True
        ),
        oversubscription=section.ratio("oversubscription", _SCHEDULING.oversubscription),
        preemption_risk=section.ratio("preemption_risk", _SCHEDULING.preemption_risk, most=Fraction(1, 2)),
        bypasses=section.whole("bypasses", _SCHEDULING.bypasses, least=0, most=1_000_000),
        bypass_for=section.duration("bypass_for", _SCHEDULING.bypass_for, zero=True),
        saturation_limit=section.ratio("saturation_limit", _SCHEDULING.saturation_limit, above=Fraction(0), most=2),
        saturation=section.choice("saturation", SaturationRule, _SCHEDULING.saturation),
        late=section.choice("late", Late, _SCHEDULING.late),
        classes=_read_classes(section),
        hedging=_read_hedging(section.section("hedging")),
        speculation=_read_speculation(section.section("speculation"), pools),
        retries=section.whole("retries", _SCHEDULING.retries, least=0, most=10),
    )
    section.done()
    if rules.strict and rules.oversubscription > 0:
        section.fault("oversubscription", "must be 0 in strict mode")
    if rules.preemption_risk > 0 and (rules.strict or rules.oversubscription > 0 or not rules.reserve_kv):
        section.fault("preemption_risk", "must be 0 in strict mode, beside oversubscription and without reserve_kv")
    return rules


def _read_rule(section: Section, key: str, own: type[StrEnum] | None, default: str) -> str:
    """One of our own rules, or one that an installed package adds."""
    name = section.text(key, default)
    words = [] if own is None else [member.value for member in own]
    if name == default or name in words:
        return name
    try:
        extensions.load(key, name)
    except UsageError as error:
        near = get_close_matches(name, [each for each in words + extensions.known(key) if each != name], n=1)
        ours = f"{name!r} is none of {', '.join(words)}, and " if words else ""
        section.fault(key, ours + str(error), f"nearest: {near[0]}" if near else "")
        return default
    return name


def _read_hedging(section: Section | None) -> Hedging | None:
    if section is None:
        return None
    rules = Hedging(
        budget=section.ratio("budget", _HEDGING.budget, above=Fraction(0)),
        beyond=section.ratio("beyond", _HEDGING.beyond, above=Fraction(0), below_one=True),
        at_least=section.duration("at_least", _HEDGING.at_least, zero=True),
    )
    section.done()
    if rules.budget > _HEDGING.budget:
        section.fault("budget", f"must be at most {float(_HEDGING.budget):.0%}: more would slow down everybody")
    return rules


def _read_speculation(section: Section | None, pools: tuple[Pool, ...]) -> SpeculationRules | None:
    if section is None:
        return None
    rules = SpeculationRules(
        below=section.ratio("below", _SPECULATION.below, above=Fraction(0), below_one=True),
        explore=section.whole("explore", _SPECULATION.explore, least=2, most=1_000_000),
    )
    section.done()
    if pools and not any(pool.speculation for pool in pools):
        section.faults.warn(section.path, section.line, "no pool says whether it drafts", "pools[].speculation")
    return rules


def _read_classes(scheduling: Section) -> tuple[RequestClass, ...]:
    names: dict[str, int] = {}
    causes: dict[str, str] = {}
    found = []
    for section in scheduling.sections("classes"):
        each = RequestClass(
            name=read_name(section, names, "class"),
            causes=tuple([cause for cause, _ in section.texts("causes")]),
            weight=section.ratio("weight", _CLASS.weight, above=Fraction(0), most=1_000_000),
            decay=section.duration("decay", _CLASS.decay),
            sheddable=section.flag("sheddable", _CLASS.sheddable),
        )
        section.required("causes")
        if section.has("causes") and not section.texts("causes"):
            section.fault("causes", "names none, so no request is of this class")
        section.done()
        for cause in each.causes:
            if causes.setdefault(cause, each.name) != each.name:
                section.fault("causes", f"{cause!r} is of class {causes[cause]!r} already")
        found.append(each)
    return tuple(found)


def _read_gateway(top: Section) -> GatewayRules:
    section = top.section("gateway")
    if section is None:
        return GatewayRules()
    timeouts = section.section("timeouts")
    rules = GatewayRules(
        max_body=section.whole("max_body", _GATEWAY.max_body, least=1024, parse=parse_size),
        max_headers=section.whole("max_headers", _GATEWAY.max_headers, least=1024, parse=parse_size),
        max_connections=section.whole("max_connections", _GATEWAY.max_connections),
        stream_buffer=section.whole("stream_buffer", _GATEWAY.stream_buffer, least=4096, parse=parse_size),
        cors_origins=tuple([origin for origin, _ in section.texts("cors_origins")]),
        probe_every=section.duration("probe_every", _GATEWAY.probe_every),
        timeouts=_read_timeouts(timeouts) if timeouts else Timeouts(),
        hide_engine_headers=section.flag("hide_engine_headers", _GATEWAY.hide_engine_headers),
        mark_hop=section.flag("mark_hop", _GATEWAY.mark_hop),
    )
    section.done()
    return rules


def _read_storage(top: Section) -> StorageRules:
    section = top.section("storage")
    if section is None:
        return StorageRules()
    rules = StorageRules(
        archive_after=section.duration("archive_after", None),
        states_keep=section.duration("states_keep", StorageRules().states_keep),
    )
    section.done()
    return rules


def _read_timeouts(section: Section) -> Timeouts:
    names = Timeouts.__struct_fields__
    timeouts = Timeouts(**{name: section.duration(name, getattr(_TIMEOUTS, name)) for name in names})
    section.done()
    if timeouts.total < timeouts.first_byte:
        section.warn("total", "below first_byte, which can never pass then")
    return timeouts

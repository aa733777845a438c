"""Reads a workload file: synthetic tenants, all faults at once, each with its line.

duration: 10min
model: llama-3.1-70b
tenants:
  - {name: acme, rate: 2, prompt: {median: 800, sigma: 1}, output: {median: 200, sigma: 0.7}}
  - {name: noisy, rate: 20, starts: 3min, ends: 6min, burstiness: 4}
"""

from fractions import Fraction
from math import inf
from typing import Final

from plimsoll.errors import PolicyError
from plimsoll.policy.section import Faults, Section, compose
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.units import parse_tokens

_FASTEST: Final = 100_000  # requests a second
_DEFAULT: Final = TenantProfile("", 0.0)


def parse(text: str, source: str) -> Workload:
    """The workload in a YAML text. Raises PolicyError with all faults; `source` names the text in them."""
    faults = Faults()
    top = compose(text, faults)
    workload = Workload((), 0.0)
    if top is not None:
        workload = _workload(top)
        top.done()
    found = [fault for fault in faults.all if not fault.warning]
    if found:
        raise PolicyError(source, found)
    return workload


def _workload(top: Section) -> Workload:
    duration = top.duration("duration", 600.0)
    model = top.text("model")
    tenants: list[TenantProfile] = []
    for section in top.sections("tenants"):
        tenants.append(_tenant(section))
        if tenants[-1].name in {tenant.name for tenant in tenants[:-1]}:
            section.fault("name", f"{tenants[-1].name!r} is here twice")
        section.done()
    if top.required("tenants") and not tenants:
        top.fault("tenants", "none is given")
    return Workload(tuple(tenants), duration, model)


def _tenant(section: Section) -> TenantProfile:
    section.required("name")
    section.required("rate")
    return TenantProfile(
        name=section.text("name"),
        rate=_number(section, "rate", 0.0, most=_FASTEST),
        model=section.text("model"),
        prompt=_lengths(section, "prompt", _DEFAULT.prompt),
        output=_lengths(section, "output", _DEFAULT.output),
        burstiness=_number(section, "burstiness", 1.0, most=1000),
        max_output=_max_output(section),
        shared_tokens=section.whole("shared_tokens", 0, least=0, parse=parse_tokens),
        variants=section.whole("variants", 1, most=1_000_000),
        turns=section.whole("turns", 1, most=1000),
        think=section.duration("think", _DEFAULT.think),
        starts=section.duration("starts", 0.0, zero=True),
        ends=section.duration("ends", inf),
        changes=_changes(section),
        tier=section.text("tier"),
        cause=section.text("cause"),
        criticality=section.text("criticality", "critical"),
        streaming=section.flag("streaming", True),
        patience=section.duration("patience", inf),
    )


def _number(section: Section, key: str, default: float, most: int) -> float:
    value = section.ratio(key, Fraction(default), most=most)
    return float(value)


def _max_output(section: Section) -> int:
    """What clients ask for: each its exact length, a cap for all, or nothing."""
    cap = section.whole("max_output", 0, parse=parse_tokens)
    exact = section.flag("exact_output", False)
    if cap and exact:
        section.fault("exact_output", "contradicts max_output", "give one of them")
    return -1 if exact else cap


def _lengths(section: Section, key: str, default: Lengths) -> Lengths:
    inner = section.section(key)
    if inner is None:
        return default
    lengths = Lengths(
        median=float(inner.whole("median", int(default.median), parse=parse_tokens)),
        sigma=_number(inner, "sigma", 0.0, most=5),
        most=inner.whole("most", default.most, parse=parse_tokens),
    )
    inner.done()
    return lengths


def _changes(section: Section) -> tuple[tuple[float, float], ...]:
    changes: list[tuple[float, float]] = []
    for change in section.sections("changes"):
        change.required("at")
        change.required("rate")
        changes.append((change.duration("at", 0.0, zero=True), _number(change, "rate", 0.0, most=_FASTEST)))
        change.done()
    return tuple(sorted(changes))

"""Reads one synthetic tenant of a workload file into its phases: one, unless it changes more than its rate."""

from fractions import Fraction
from math import inf
from typing import Final

import msgspec

from plimsoll.errors import UnitError
from plimsoll.governor.events import Criticality
from plimsoll.policy.section import Section
from plimsoll.sim.tenantprofile import Bursts, TenantProfile
from plimsoll.sim.workloadclock import Clock, instant
from plimsoll.sim.workloadlengths import counts, lengths, number, times
from plimsoll.units import parse_ratio, parse_tokens

FASTEST: Final = 100_000  # requests a second
RAMP: Final = 20  # steps that a change `over` some time is made of
_DEFAULT: Final = TenantProfile("", 0.0)


def tenant_phases(section: Section, clock: Clock) -> list[TenantProfile]:
    """At least one profile; whatever is wrong goes to the section's faults."""
    section.required("name")
    section.required("rate")
    turns, turns_spread = counts(section, "turns", most=1000)
    first = TenantProfile(
        name=section.text("name"),
        rate=number(section, "rate", 0.0, most=FASTEST),
        model=section.text("model"),
        prompt=lengths(section, "prompt", _DEFAULT.prompt),
        output=lengths(section, "output", _DEFAULT.output),
        correlation=_correlation(section),
        burstiness=number(section, "burstiness", 1.0, most=1000),
        bursts=_bursts(section),
        max_output=max_output(section),
        shared_tokens=section.whole("shared_tokens", 0, least=0, parse=parse_tokens),
        variants=section.whole("variants", 1, most=1_000_000),
        turns=turns,
        turns_spread=turns_spread,
        think=section.duration("think", _DEFAULT.think) if section.is_text("think") else _DEFAULT.think,
        think_spread=None if section.is_text("think") else times(section, "think"),
        followup=lengths(section, "followup", _DEFAULT.prompt) if section.has("followup") else None,
        starts=instant(section, "starts", clock, 0.0),
        ends=instant(section, "ends", clock, inf),
        daily=_factors(section, "daily", 24),
        weekly=_factors(section, "weekly", 7),
        tier=section.text("tier"),
        cause=section.text("cause"),
        criticality=section.choice("criticality", Criticality, Criticality.CRITICAL).value,
        streaming=section.flag("streaming", True),
        patience=section.duration("patience", inf),
        upstream=times(section, "upstream"),
        clock_at=clock.week_at,
    )
    if first.ends <= first.starts:
        section.fault("ends", "is not after `starts`")
    return _phases(section, clock, first)


def _phases(section: Section, clock: Clock, first: TenantProfile) -> list[TenantProfile]:
    """Changes of the rate stay within a phase; a change of model, lengths or tier begins a new one."""
    phases, at = [first], -1.0
    for change in section.sections("changes"):
        change.required("at")
        since = instant(change, "at", clock, 0.0)
        if since <= at:
            change.fault("at", "is not after the change before it")
        at = since
        phases = _changed(change, since, phases)
        change.done()
    return phases


def _changed(change: Section, at: float, phases: list[TenantProfile]) -> list[TenantProfile]:
    now = phases[-1]
    before = now.changes[-1][1] if now.changes else now.rate
    rate = number(change, "rate", before, most=FASTEST)
    over = change.duration("over", 0.0)
    steps = [(at + over * i / RAMP, before + (rate - before) * (i + 1) / RAMP) for i in range(RAMP)]
    moved = tuple(steps) if over else ((at, rate),)
    prompt, output = lengths(change, "prompt", now.prompt), lengths(change, "output", now.output)
    model, tier = change.text("model", now.model), change.text("tier", now.tier)
    if (prompt, output, model, tier) == (now.prompt, now.output, now.model, now.tier):
        if not change.has("rate"):
            change.fault("at", "changes nothing", "give a rate, model, tier, prompt or output")
        return [*phases[:-1], msgspec.structs.replace(now, changes=(*now.changes, *moved))]
    ended = msgspec.structs.replace(now, ends=min(at, now.ends))
    begun = msgspec.structs.replace(
        now,
        rate=moved[0][1],
        changes=moved[1:],
        starts=max(at, now.starts),
        prompt=prompt,
        output=output,
        model=model,
        tier=tier,
        phase=now.phase + 1,
    )
    return [*phases[:-1], ended, begun]


def max_output(section: Section) -> int:
    """What clients ask for: each its exact length (-1), a cap for all, or nothing (0)."""
    cap = section.whole("max_output", 0, parse=parse_tokens)
    exact = section.flag("exact_output", False)
    if cap and exact:
        section.fault("exact_output", "contradicts max_output", "give one of them")
    return -1 if exact else cap


def _numbers(section: Section, key: str) -> tuple[float, ...]:
    found: list[float] = []
    for place, (text, line) in enumerate(section.items(key) or ()):
        try:
            found.append(float(parse_ratio(text)))
        except UnitError as error:
            section.faults.add(f"{section.at(key)}[{place}]", line, str(error))
            found.append(1.0)
    return tuple(found)


def _correlation(section: Section) -> float:
    return float(section.ratio("correlation", Fraction(0), least=-1))


def _bursts(section: Section) -> Bursts | None:
    inner = section.section("bursts")
    if inner is None:
        return None
    inner.required("on")
    inner.required("off")
    bursts = Bursts(inner.duration("on", 1.0), inner.duration("off", 1.0), number(inner, "quiet", 0.0, most=1))
    inner.done()
    return bursts


def _factors(section: Section, key: str, num: int) -> tuple[float, ...]:
    """So many factors on the rate, none of them all that counts: their mean need not be 1."""
    found = _numbers(section, key)
    if found and len(found) != num:
        section.fault(key, f"has {len(found)} factors, must have {num}")
        return ()
    if any(factor < 0 for factor in found):
        section.fault(key, "a factor must not be negative")
        return ()
    if found and not any(found):
        section.fault(key, "every factor is 0")
        return ()
    return found
